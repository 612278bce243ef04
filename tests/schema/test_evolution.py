"""Columns that change: added, renamed, dropped, moved, widened, with defaults and NOT NULL; old files read through each schema.

The property at the end compares with a model that keeps the values of a row by field id and knows nothing of files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import contents, lake_on, multiset, new_lake, rows_of, seen

import lsmlake
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import CommitConflict, Corrupt, InvalidData, InvalidOption, InvalidQuery, InvalidSchema
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.schema.envelope import unwrap_json, wrap_json
from lsmlake.schema.schema import Schema
from lsmlake.storage.memory import MemoryStorage
from lsmlake.types.widening import widens
from lsmlake.write.bucket_writer import split, write_level0
from lsmlake.write.prepare import prepare

NESTED = "id BIGINT, a INT, p STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<q: INT>>, m MAP<STRING, STRUCT<z: INT>>"
ROW = {"id": 1, "a": 2, "p": {"x": 3, "y": "s"}, "l": [{"q": 4}, None, {"q": None}], "m": [("k", {"z": 5})]}
BARE = {"id": 2, "a": None, "p": None, "l": None, "m": None}


def made(ddl: str = NESTED, rows: Sequence[dict] = (ROW, BARE), key: Sequence[str] = ("id",), **how: object) -> Table:
    lake = new_lake()
    lake.create_database("d", if_not_exists=True)
    table = lake.create_table("d.t", ddl, primary_key=list(key), **how)
    if rows:
        table.upsert(pa.Table.from_pylist(list(rows), table.schema))
    return table


def data_files(table: Table) -> list[str]:
    return [path for path in contents(table.meta.env.storage) if "/data-" in path]


def listed(table: Table, **how: object) -> list[dict]:
    return sorted(table.scan(**how).to_arrow().to_pylist(), key=lambda row: row[table.primary_key[0]])


# --- what an alteration does to the rows that there are ---

NULL_Y = {"x": 3, "y": None}
ALTERED = {
    "add": ([lsmlake.add_column("n", "STRING")], {**ROW, "n": None}, {**BARE, "n": None}),
    "add with a default": ([lsmlake.add_column("n", "DATE", default="2026-01-31")], {**ROW, "n": dt.date(2026, 1, 31)}, None),
    "add NOT NULL": ([lsmlake.add_column("n", "DECIMAL(5,2) NOT NULL", default="1.5")], {**ROW, "n": Decimal("1.50")}, None),
    "add first": ([lsmlake.add_column("n", "INT", first=True, default=1)], {"n": 1, **ROW}, {"n": 1, **BARE}),
    "add in a struct": ([lsmlake.add_column("p.n", "INT", default=7)], {**ROW, "p": {"x": 3, "y": "s", "n": 7}}, BARE),
    "add in a list": (
        [lsmlake.add_column("l.element.n", "BINARY", default=b"\0")],
        {**ROW, "l": [{"q": 4, "n": b"\0"}, None, {"q": None, "n": b"\0"}]},
        BARE,
    ),
    "add in a map": ([lsmlake.add_column(["m", "value", "n"], "BOOLEAN")], {**ROW, "m": [("k", {"z": 5, "n": None})]}, BARE),
    "add a struct": ([lsmlake.add_column("n", "STRUCT<i: INT>")], {**ROW, "n": None}, {**BARE, "n": None}),
    "rename": ([lsmlake.rename_column("a", "b"), lsmlake.move_column("b", after="m")], None, None),
    "rename in a struct": ([lsmlake.rename_column("p.y", "n")], {**ROW, "p": {"x": 3, "n": "s"}}, BARE),
    "rename in a list": ([lsmlake.rename_column("l.element.q", "n")], {**ROW, "l": [{"n": 4}, None, {"n": None}]}, BARE),
    "swap names": (
        [lsmlake.rename_column("p.x", "t"), lsmlake.rename_column("p.y", "x"), lsmlake.rename_column("p.t", "y")],
        {**ROW, "p": {"y": 3, "x": "s"}},
        BARE,
    ),
    "drop in a struct": ([lsmlake.drop_column("p.x")], {**ROW, "p": {"y": "s"}}, BARE),
    "drop and add again in a struct": (
        [lsmlake.drop_column("p.y"), lsmlake.add_column("p.y", "STRING")],
        {**ROW, "p": NULL_Y},
        BARE,
    ),
    "drop and add again": ([lsmlake.drop_column("a"), lsmlake.add_column("a", "INT", after="id")], {**ROW, "a": None}, BARE),
    "every field of a struct is another one": (
        [lsmlake.add_column("p.n", "INT"), lsmlake.drop_column("p.x"), lsmlake.drop_column("p.y")],
        {**ROW, "p": {"n": None}},
        BARE,
    ),
    "widen": ([lsmlake.change_type("a", "DOUBLE")], {**ROW, "a": 2.0}, BARE),
    "widen to a decimal": ([lsmlake.change_type("a", "DECIMAL(12,2)")], {**ROW, "a": Decimal("2.00")}, BARE),
    "widen inside": ([lsmlake.change_type("m.value.z", "BIGINT"), lsmlake.change_type("l.element.q", "BIGINT")], ROW, BARE),
    "move in a struct": ([lsmlake.move_column("p.y", first=True)], {**ROW, "p": {"y": "s", "x": 3}}, BARE),
    "comment": ([lsmlake.set_comment("p.x", "an x"), lsmlake.set_comment("a", "an a")], ROW, BARE),
}


@pytest.mark.parametrize("name", ALTERED)
def test_rows_that_there_are_have_the_new_columns(name):
    alterations, first, second = ALTERED[name]
    table = made()
    before, files = listed(table), data_files(table)
    assert table.alter(*alterations).id == 2
    assert data_files(table) == files, "no file is rewritten"
    found = listed(table)
    if first is not None:
        assert found[0] == first and list(found[0]) == table.schema.names
    if second is not None:
        assert found[1] == second
    assert listed(table, snapshot=1) == before, "an earlier snapshot keeps its columns"
    assert table.verify() == []
    table.compact(full=True)
    assert listed(table) == found, "files that are written anew mean the same"
    assert table.upsert(pa.Table.from_pylist(found, table.schema)) and listed(table) == found


@pytest.mark.parametrize("name", ALTERED)
def test_an_alteration_is_seen_by_a_table_opened_anew(name):
    table = made()
    table.alter(*ALTERED[name][0])
    again = lake_on(table.meta.env.storage, "again").table("d.t")
    assert (again.schema, listed(again)) == (table.schema, listed(table))
    assert [field.metadata for field in again.version.schema.columns] == [
        field.metadata for field in table.version.schema.columns
    ]


def test_the_key_can_be_renamed():
    table = made("id BIGINT, part STRING, a INT", [{"id": 1, "part": "x", "a": 1}], ["id", "part"], partition_by=["part"])
    table.alter(lsmlake.rename_column("id", "number"), lsmlake.rename_column("part", "day"))
    table.upsert([{"number": 1, "day": "x", "a": 2}, {"number": 2, "day": "y", "a": 3}])
    assert listed(table) == [{"number": 1, "day": "x", "a": 2}, {"number": 2, "day": "y", "a": 3}]
    assert table.get({"number": 2, "day": "y"})["a"] == 3
    assert (table.primary_key, table.partition_by) == (("number", "day"), ("day",))
    table.delete_keys([{"number": 1, "day": "x"}])
    assert table.scan(where="day = 'x'").count() == 0


def test_options_follow_a_renamed_column():
    options = {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a,b",
        "fields.b.aggregate-function": "sum",
        "partial-update.remove-record-on-sequence-group": "g",
        "fields.n.aggregate-function": "nested_update",
        "fields.n.nested-key": "i",
        "fields.g2.sequence-group": "n",
    }
    ddl = "id BIGINT, g INT, a INT, b INT, g2 INT, n ARRAY<STRUCT<i: INT, v: INT>>"
    table = made(ddl, [{"id": 1, "g": 1, "a": 1, "b": 1, "g2": 1, "n": [{"i": 1, "v": 1}]}], options=options)
    table.alter(
        lsmlake.rename_column("g", "h"),
        lsmlake.rename_column("b", "c"),
        lsmlake.rename_column("n.element.i", "j"),
        lsmlake.rename_column("n", "o"),
    )
    assert dict(table.options) == {
        "merge-engine": "partial-update",
        "fields.h.sequence-group": "a,c",
        "fields.c.aggregate-function": "sum",
        "partial-update.remove-record-on-sequence-group": "h",
        "fields.o.aggregate-function": "nested_update",
        "fields.o.nested-key": "j",
        "fields.g2.sequence-group": "o",
    }
    table.upsert([{"id": 1, "h": 2, "a": 5, "c": 4, "g2": 2, "o": [{"j": 1, "v": 2}]}])
    assert listed(table) == [{"id": 1, "h": 2, "a": 5, "c": 5, "g2": 2, "o": [{"j": 1, "v": 2}]}]


def test_a_name_with_a_comma_does_not_become_two_names_in_an_option():
    ddl = "id BIGINT, v INT, a INT, b INT, n ARRAY<STRUCT<i: INT, v: INT>>"
    group = {"merge-engine": "partial-update", "fields.v.sequence-group": "a,n"}
    nested = {"fields.n.aggregate-function": "nested_update", "fields.n.nested-key": "i"}
    for options, column, name in (
        ({"sequence.field": "v"}, "v", "a,b"),
        (group, "a", "b,v2"),
        (group, "v", "w,b"),
        ({**group, **nested}, "n.element.i", "v,v2"),
    ):
        table = made(ddl, [], options=options)
        with pytest.raises((InvalidSchema, InvalidOption)):
            table.alter(lsmlake.rename_column(column, name))
        assert dict(table.options) == options
    table.alter(lsmlake.rename_column("b", "b,c"))
    assert "b,c" in table.schema.names, "no option names it"


def test_an_option_that_orders_by_a_new_column_is_refused_by_its_name():
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}], options={"merge-engine": "partial-update"})
    with pytest.raises(InvalidOption, match=r"found fields\.g\.sequence-group;"):
        table.alter(lsmlake.add_column("g", "INT"), lsmlake.set_option("fields.g.sequence-group", "a"))


# --- what is refused ---

REFUSED = {
    "drop a key": ([lsmlake.drop_column("id")], "a key column cannot be dropped"),
    "widen a key": ([lsmlake.change_type("id", "DECIMAL(30,0)")], "the type of a key column cannot change"),
    "narrow": ([lsmlake.change_type("a", "SMALLINT")], "without a possible loss"),
    "a number as text": ([lsmlake.change_type("a", "STRING")], "without a possible loss"),
    "a decimal without room": ([lsmlake.change_type("a", "DECIMAL(9,0)")], "without a possible loss"),
    "a struct as something else": ([lsmlake.change_type("p", "INT")], "alter the fields inside"),
    "the key of a map": ([lsmlake.change_type("m.key", "BINARY")], "map key"),
    "no such column": ([lsmlake.rename_column("idd", "b")], "did you mean 'id'"),
    "a name that is taken": ([lsmlake.rename_column("a", "P")], "already"),
    "a column that is there": ([lsmlake.add_column("A", "INT")], "already"),
    "a reserved name": ([lsmlake.rename_column("a", "_row_kind")], "reserved"),
    "a field of a number": ([lsmlake.add_column("a.b", "INT")], "only a struct"),
    "the element of a list": ([lsmlake.rename_column("l.element", "b")], "only columns and fields of structs have a name"),
    "the only field": ([lsmlake.drop_column("l.element.q")], "drop the whole column"),
    "NOT NULL without a value": ([lsmlake.add_column("n", "INT NOT NULL")], "needs a default"),
    "a default of another type": ([lsmlake.add_column("n", "INT", default="x")], "does not fit"),
    "a boolean for a number": ([lsmlake.add_column("n", "INT", default=True)], "does not fit"),
    "a boolean for a text": ([lsmlake.add_column("n", "STRING", default=True)], "does not fit"),
    "a number for a boolean": ([lsmlake.add_column("n", "BOOLEAN", default=1)], "does not fit"),
    "a default that would be rounded": ([lsmlake.add_column("n", "DECIMAL(3,1)", default="1.25")], "does not fit"),
    "a default of a list": ([lsmlake.add_column("n", "ARRAY<INT>", default=[1])], "nested"),
    "nulls in NOT NULL": ([lsmlake.set_not_null("a")], "found 1 nulls"),
    "NOT NULL inside": ([lsmlake.set_not_null("p.x")], "nested field"),
    "a nullable key": ([lsmlake.drop_not_null("id")], "a key cannot be null"),
    "nowhere to move": ([lsmlake.move_column("a")], "one new place"),
    "after nothing": ([lsmlake.move_column("a", after="z")], "no column 'z'"),
    "not a type": ([lsmlake.add_column("n", "TEXTUAL")], "TEXTUAL"),
    "two types": ([lsmlake.add_column("n", "INT, m INT")], "not one type"),
    "not an alteration": (["a INT"], "alterations"),
    "NOT NULL at once": ([lsmlake.add_column("n", "INT"), lsmlake.set_not_null("n")], "needs a default"),
    "add at no path": ([lsmlake.add_column([], "INT")], "no names"),
    "drop at no path": ([lsmlake.drop_column([])], "no names"),
    "a type with NOT NULL": ([lsmlake.change_type("a", "BIGINT NOT NULL")], "set_not_null"),
    "a type with a comment": ([lsmlake.change_type("a", "BIGINT COMMENT 'more'")], "set_comment"),
    "two comments": ([lsmlake.add_column("n", "INT COMMENT 'x'", comment="y")], "['x', 'y']"),
    "a field of another name": ([lsmlake.add_column("n", pa.field("m", pa.int32()))], "expected 'n', found 'm'"),
    "after itself": ([lsmlake.move_column("a", after="A")], "after itself"),
    "a default of a map key": ([lsmlake.set_default("m.key", "x")], "only columns and fields of structs have a default"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_alteration_is_refused_with_the_reason(name):
    table = made()
    alterations, reason = REFUSED[name]
    with pytest.raises((InvalidSchema, InvalidOption)) as refused:
        table.alter(*alterations)
    assert reason in str(refused.value)
    assert [path for path in contents(table.meta.env.storage) if "schema-" in path] == [table.meta.paths.schema(0)]
    assert listed(table) == [ROW, BARE] and len(table.snapshots()) == 1


OPTIONS_IN_USE = {
    "sequence.field": ({"sequence.field": "a"}, "a"),
    "bucket-key": ({"bucket-key": "id"}, "id"),
    "rowkind.field": ({"rowkind.field": "c"}, "c"),
    "a function": ({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}, "a"),
    "record-level.time-field": ({"record-level.time-field": "a", "record-level.expire-time": "1 h"}, "a"),
}


@pytest.mark.parametrize("name", OPTIONS_IN_USE)
def test_a_column_that_an_option_names_is_not_dropped_and_can_be_renamed(name):
    options, column = OPTIONS_IN_USE[name]
    table = made("id BIGINT, a INT, c STRING", [], options=options)
    with pytest.raises((InvalidSchema, InvalidOption), match=r"cannot be dropped|an option names"):
        table.alter(lsmlake.drop_column(column))
    table.alter(lsmlake.rename_column(column, "z"))
    named = {option: value for option, value in table.options.items() if "engine" not in option and "expire" not in option}
    assert all("z" in f"{option} {value}" for option, value in named.items())


def test_a_function_that_does_not_fit_the_new_type_refuses_it():
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "rbm32"}
    table = made("id BIGINT, a BINARY, b INT", [], options=options)
    with pytest.raises((InvalidSchema, InvalidOption)):
        table.alter(lsmlake.change_type("a", "STRING"))
    table.alter(lsmlake.change_type("b", "BIGINT"))


# --- writers ---


def test_a_column_that_was_added_may_be_omitted():
    table = made("id BIGINT, p STRUCT<x: INT>", [{"id": 1, "p": {"x": 1}}])
    table.alter(
        lsmlake.add_column("n", "STRING"),
        lsmlake.add_column("i", "INT NOT NULL", default=5),
        lsmlake.add_column("p.y", "INT", default=6),
    )
    table.upsert([{"id": 2, "p": {"x": 2}}])
    table.alter(lsmlake.set_default("i", 7), lsmlake.set_default("p.y", None))
    table.upsert([{"id": 3, "p": {"x": 3}}, {"id": 4, "p": None}])
    assert listed(table) == [
        {"id": 1, "p": {"x": 1, "y": 6}, "n": None, "i": 5},
        {"id": 2, "p": {"x": 2, "y": 6}, "n": None, "i": 5},
        {"id": 3, "p": {"x": 3, "y": None}, "n": None, "i": 7},
        {"id": 4, "p": None, "n": None, "i": 7},
    ]
    table.alter(lsmlake.drop_default("i"))
    with pytest.raises(InvalidData, match="lacks the columns"):
        table.upsert([{"id": 5, "p": None}])


def test_under_a_rule_that_combines_rows_an_omitted_column_keeps_its_value():
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}], options={"merge-engine": "partial-update"})
    table.alter(lsmlake.add_column("n", "INT", default=5))
    table.upsert([{"id": 1, "n": 8}])
    table.upsert([{"id": 1, "a": 2}, {"id": 2, "a": 3}])
    assert listed(table) == [{"id": 1, "a": 2, "n": 8}, {"id": 2, "a": 3, "n": None}]


def test_a_default_counts_once_for_a_key_whose_rows_are_combined():
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum", "write-only": "true"}
    table = made("id BIGINT, a INT", [], options=options)
    for _ in range(3):
        table.upsert([{"id": 1, "a": 1}])
    table.alter(lsmlake.add_column("n", "INT", default=10))
    table.upsert([{"id": 1, "a": 1, "n": 1}])
    assert listed(table) == [{"id": 1, "a": 4, "n": 11}]
    assert table.changes(1, 3).to_arrow().to_pylist() == [
        {"_row_kind": "-U", "id": 1, "a": 1, "n": 10},
        {"_row_kind": "+U", "id": 1, "a": 3, "n": 10},
    ]


def begun(table: Table, row: dict):
    """What publishes a row of a writer that has read the table and written its file."""
    version = table.version
    rows, _ = prepare(pa.Table.from_pylist([row], version.schema.plain_columns), version.schema)
    ((bucket, part),) = split(rows, version.schema, version.covers())
    message = write_level0(BucketFiles.of(version, bucket), 1, [part], compacts=False).message
    return lambda: commit(version, Request(Identity("slow"), [message])).snapshot


FITTING = {
    "add": [lsmlake.add_column("n", "INT", default=3)],
    "widen": [lsmlake.change_type("a", "BIGINT")],
    "rename": [lsmlake.rename_column("a", "n")],
    "drop": [lsmlake.drop_column("a")],
    "any time": [lsmlake.set_option("write-only", True)],
}
UNFITTING = {
    "NOT NULL": ({}, [lsmlake.set_not_null("a")], "cannot hold every written value"),
    "a default of a key": ({"merge-engine": "partial-update"}, [lsmlake.add_column("n", "INT", default=3)], "has a default"),
    "a rule": ({}, [lsmlake.set_option("merge-engine", "partial-update")], "another meaning"),
}


@pytest.mark.parametrize("name", FITTING)
def test_a_writer_that_began_before_an_alteration_commits_rows_that_fit(name):
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}])
    publish = begun(table, {"id": 2, "a": 2})
    table.alter(*FITTING[name])
    assert publish().id == 3
    assert table.scan().count() == 2 and table.verify() == []
    assert [row.get("n", row.get("a")) for row in listed(table)] == {"add": [3, 3], "drop": [None, None]}.get(name, [1, 2])
    table.compact(full=True)
    assert table.scan().count() == 2 and table.verify() == []


@pytest.mark.parametrize("name", UNFITTING)
def test_a_writer_whose_rows_do_not_fit_fails_before_anything_is_visible(name):
    options, alterations, reason = UNFITTING[name]
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}], options=options)
    publish = begun(table, {"id": 2, "a": None})
    table.alter(*alterations)
    rows, snapshots = listed(table), len(table.snapshots())
    with pytest.raises(CommitConflict, match=reason):
        publish()
    assert listed(table) == rows and len(table.snapshots()) == snapshots and table.verify() == []


def test_a_writer_whose_rows_lack_a_column_that_is_not_null_now_fails():
    added = made("id BIGINT, a INT", [])
    publish = begun(added, {"id": 2, "a": 2})
    added.alter(lsmlake.add_column("n", "INT"))
    added.upsert([{"id": 1, "a": 1, "n": 1}])
    added.alter(lsmlake.set_not_null("n"))
    with pytest.raises(CommitConflict, match="'n' is NOT NULL"):
        publish()
    assert listed(added) == [{"id": 1, "a": 1, "n": 1}]
    dropped = made("id BIGINT, a INT NOT NULL", [{"id": 1, "a": 1}])
    dropped.alter(lsmlake.drop_column("a"), lsmlake.add_column("b", "INT"))
    publish = begun(dropped, {"id": 2, "b": 2})
    dropped.rollback(snapshot=1)
    with pytest.raises(CommitConflict, match="'a' is NOT NULL"):
        publish()
    assert listed(dropped) == [{"id": 1, "a": 1}] and dropped.verify() == []


def test_a_column_that_became_not_null_cannot_be_omitted_without_a_default():
    table = made("id BIGINT", [{"id": 1}])
    table.alter(lsmlake.add_column("n", "INT"))
    table.upsert([{"id": 1, "n": 1}])
    table.alter(lsmlake.set_not_null("n"))
    with pytest.raises(InvalidData, match=r"lacks the columns \['n'\]"):
        table.upsert([{"id": 2}])
    table.alter(lsmlake.set_default("n", 5))
    table.upsert([{"id": 2}])
    assert listed(table) == [{"id": 1, "n": 1}, {"id": 2, "n": 5}]


def test_not_null_is_proved_from_statistics_or_by_reading():
    table = made("id BIGINT, a INT, b INT", [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": 2, "b": 2}])
    table.upsert([{"id": 1, "a": 1, "b": 1}], compact=False)  # the null is still in a file, but dead
    table.alter(lsmlake.set_not_null("a"), lsmlake.set_not_null("b"))
    with pytest.raises(InvalidData, match="NOT NULL"):
        table.upsert([{"id": 3, "a": None, "b": 1}])
    table.delete_keys([{"id": 1}])
    assert listed(table) == [{"id": 2, "a": 2, "b": 2}]
    table.alter(lsmlake.drop_not_null("a"))
    table.upsert([{"id": 3, "a": None, "b": 1}])
    assert table.scan(where="a IS NULL").count() == 1


def test_a_superseded_null_does_not_break_raw_reads_of_a_column_that_became_not_null():
    table = made("id BIGINT, a INT", [{"id": 1, "a": None}], options={"write-only": "true"})
    table.compact(full=True)
    table.upsert([{"id": 1, "a": 4}])
    table.alter(lsmlake.set_not_null("a"))
    assert listed(table, mode="raw") == listed(table) == [{"id": 1, "a": 4}]


def test_a_batch_adds_its_new_columns():
    table = made("id BIGINT, p STRUCT<x: INT>, l ARRAY<STRUCT<q: INT>>", [{"id": 1, "p": {"x": 1}, "l": [{"q": 1}]}])
    row = {"id": 2, "p": {"x": 2, "y": "t"}, "l": [{"q": 2, "w": 1.5}], "n": dt.date(2026, 1, 1)}
    with pytest.raises(InvalidData):
        table.upsert([row])
    table.upsert([row], evolve=True)
    assert listed(table) == [{"id": 1, "p": {"x": 1, "y": None}, "l": [{"q": 1, "w": None}], "n": None}, row]
    assert table.upsert([], evolve=True) is None
    before = len(table.schemas())
    table.upsert([row], evolve=True)
    assert len(table.schemas()) == before, "a batch without new columns alters nothing"
    table.alter(lsmlake.set_option("write.merge-schema", "true"))
    table.upsert(pa.table({"id": [3], "p": [None], "l": [None], "n": [None], "o": [1], "op": ["+U"]}), row_kind="op")
    assert table.schema.names == ["id", "p", "l", "n", "o"]
    with pytest.raises(InvalidSchema, match="give the column a type"):
        table.upsert([{**row, "nothing": None}])


def test_a_batch_adds_a_column_whose_name_has_points():
    table = made("id BIGINT, p STRUCT<x: INT>", [])
    table.upsert([{"id": 1, "p": {"x": 1}, "p.y": 2, "q.r": 3}], evolve=True)
    assert table.schema.names == ["id", "p", "p.y", "q.r"]
    assert listed(table) == [{"id": 1, "p": {"x": 1}, "p.y": 2, "q.r": 3}]


def test_empty_lists_and_maps_add_nothing():
    table = made()
    found = {"id": 3, "a": 1, "p": {"x": 1, "y": None}, "l": [], "m": {}}
    table.upsert([found], evolve=True)
    assert len(table.schemas()) == 1
    assert listed(table)[-1] == {**found, "m": []}


def test_dicts_for_a_map_add_and_omit_fields_as_any_other_data():
    """PyArrow would leave an unknown field out without a word, and make an omitted one null."""
    table = made("id BIGINT, m MAP<STRING, STRUCT<z: INT>>", [])
    table.alter(lsmlake.add_column("m.value.w", "STRING", default="d"))
    table.upsert([{"id": 1, "m": {"k": {"z": 1}, "l": None}}])
    assert listed(table) == [{"id": 1, "m": [("k", {"z": 1, "w": "d"}), ("l", None)]}]
    for unknown in ({"k": {"z": 1, "zz": 2}}, [("k", {"z": 1, "zz": 2})], {"k": {1: 1}}):
        with pytest.raises(InvalidData, match="column 'm'"):
            table.upsert([{"id": 2, "m": unknown}])
    table.upsert([{"id": 2, "m": {"k": {"z": 1, "zz": 2}}}], evolve=True)
    assert listed(table)[1] == {"id": 2, "m": [("k", {"z": 1, "w": "d", "zz": 2})]}


@pytest.mark.parametrize("field, value", [(2, "x"), (2, 2**31), (3, 10**7), (3, -(2**31)), (4, "zz"), (5, 1)])
def test_a_schema_file_with_a_default_that_is_no_value_is_damaged(field, value):
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}])
    added = {"i": ("INT", 3), "d": ("DATE", "2026-01-01"), "b": ("BINARY", b"x"), "p": ("STRUCT<x: INT>", None)}
    table.alter(*(lsmlake.add_column(name, type_, default=default) for name, (type_, default) in added.items()))
    content = unwrap_json("schema", table.version.schema.encode(), "here")
    assert Schema.decode(wrap_json("schema", content), "here") == table.version.schema
    for default in ("initial_default", "write_default"):
        content["fields"][field][default] = value
        with pytest.raises(Corrupt, match="no value of its type"):
            Schema.decode(wrap_json("schema", content), "here")


# --- streams and changes ---


def followed(table: Table):
    batches = iter(table.follow(wait=0.001, mode="diff"))
    return batches, next(batches).to_arrow().to_pylist()


def test_a_stream_goes_on_with_its_columns_where_later_rows_have_them():
    table = made("id BIGINT, a INT, b INT", [{"id": 1, "a": 1, "b": 1}])
    batches, _ = followed(table)
    table.alter(lsmlake.add_column("n", "INT"), lsmlake.rename_column("a", "c"), lsmlake.move_column("b", first=True))
    table.upsert([{"id": 2, "c": 2, "b": 2, "n": 2}])
    assert next(batches).to_arrow().to_pylist() == [{"_row_kind": "+I", "id": 2, "a": 2, "b": 2}]


@pytest.mark.parametrize("alteration", [lsmlake.drop_column("a"), lsmlake.change_type("a", "BIGINT")])
def test_a_stream_stops_where_later_rows_lack_its_columns_and_continues_when_started_again(alteration):
    table = made("id BIGINT, a INT, b INT", [{"id": 1, "a": 1, "b": 1}])
    batches = iter(table.follow(wait=0.001, consumer="c"))
    next(batches)
    table.alter(alteration)
    table.upsert(pa.Table.from_pylist([{"id": 2, "a": 2, "b": 2}], table.schema))
    with pytest.raises(InvalidQuery, match="make the stream again"):
        next(batches)
    again = [row for batch in table.follow(consumer="c") for row in batch.to_arrow().to_pylist()]
    assert [row["id"] for row in again] == [2] and list(again[0]) == ["_row_kind", *table.schema.names]


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_changes_before_an_alteration_have_the_columns_of_now(producer):
    table = made("id BIGINT, a INT, b INT", [], options={"changelog-producer": producer})
    table.upsert([{"id": 1, "a": 1, "b": 1}])
    table.upsert([{"id": 1, "a": 2, "b": 1}])
    table.compact(full=True)
    last = table.snapshots()["snapshot_id"].to_pylist()[-1]
    table.alter(lsmlake.rename_column("a", "c"), lsmlake.drop_column("b"), lsmlake.add_column("n", "INT", default=9))
    table.alter(lsmlake.change_type("c", "BIGINT"))
    modes = ["diff", "delta"] + (["changelog"] if producer != "none" else [])
    for mode in modes:
        found = table.changes(0, last, mode=mode, where="n = 9").to_arrow()
        assert found.schema.names == ["_row_kind", "id", "c", "n"]
        assert found.to_pylist()[-1] == {"_row_kind": found["_row_kind"].to_pylist()[-1], "id": 1, "c": 2, "n": 9}
        assert table.changes(0, last, mode=mode, where="n = 8").to_arrow().num_rows == 0


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_changes_that_do_not_fit_the_columns_of_a_rollback_say_so(producer):
    table = made("id BIGINT, a INT", [{"id": 1, "a": 1}], options={"changelog-producer": producer})
    table.compact(full=True)
    narrow = table.snapshots()["snapshot_id"].to_pylist()[-1]
    wide = table.alter(lsmlake.change_type("a", "DOUBLE")).id
    table.upsert([{"id": 2, "a": 1.5}])
    table.compact(full=True)
    last = table.rollback(snapshot=narrow).id
    assert table.changes(narrow, last).to_arrow().num_rows == 0
    for mode in ["diff", "delta"] + (["changelog"] if producer != "none" else []):
        with pytest.raises(InvalidQuery, match="rolled back to columns that cannot hold these changes"):
            table.changes(wide, last - 1, mode=mode).to_arrow()
    table.alter(lsmlake.change_type("a", "DOUBLE"))
    found = table.changes(wide, last).to_arrow().to_pylist() + table.changes(wide, last - 1).to_arrow().to_pylist()
    assert found == [{"_row_kind": "+I", "id": 2, "a": 1.5}]


def test_a_version_without_a_column_has_none_of_its_values_though_a_file_still_holds_them():
    """Compactions between a drop and a rollback change no row."""
    table = made("id BIGINT, a INT, p STRUCT<x: INT, y: INT>", [{"id": 1, "a": 1, "p": {"x": 1, "y": 1}}])
    table.upsert([{"id": 2, "a": 2, "p": {"x": 2, "y": 2}}], compact=False)
    table.alter(lsmlake.drop_column("a"), lsmlake.drop_column("p.y"))
    table.compact(full=True)
    table.rollback(2)
    assert table.changes(3, 4).to_arrow().to_pylist() == []
    assert [row["a"] for row in table.changes(4, 5).to_arrow().to_pylist()] == [None, 1, None, 2]


# --- pruning ---


def test_filters_on_new_and_widened_columns_prune_without_losing_rows():
    table = made("id BIGINT, a INT", [{"id": i, "a": i} for i in range(10)], options={"write-only": "true"})
    table.alter(lsmlake.change_type("a", "BIGINT"), lsmlake.add_column("n", "INT", default=3), lsmlake.add_column("m", "INT"))
    table.upsert([{"id": i, "a": i << 40, "n": i, "m": i} for i in range(10, 20)])
    for where, expected in {
        "a = 5": [5],
        f"a = {12 << 40}": [12],
        "n = 3": list(range(10)),
        "n = 12": [12],
        "m IS NULL": list(range(10)),
        "m > 17": [18, 19],
        "n <> 3 OR m IS NULL": list(range(20)),
    }.items():
        assert [row["id"] for row in listed(table, where=where)] == expected, where
        assert table.scan(where=where).count() == len(expected), where


def test_a_file_of_the_current_schema_must_have_every_column():
    table = made("id BIGINT, a INT, b INT", [{"id": 1, "a": 1, "b": 1}])
    version = table.version
    damaged = replace(version.schema, columns=version.schema.columns.remove(2))
    (state,) = version.states().values()
    (file,) = state.files
    again = BucketFiles.of(replace(version, schema=damaged), state.bucket)
    with again.open(file) as reader:
        (written,) = again.write([reader.read([0], ["id", "a"])], _origin(file))
    with BucketFiles.of(version, state.bucket).open(written) as reader, pytest.raises(Corrupt, match="lacks a column"):
        reader.read([0], ["b"])


def _origin(file):
    from lsmlake.files.data_writer import Origin

    return Origin(file.level, file.source, file.sequence, file.min_sequence)


# --- widening ---

TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(5,2)": pa.decimal128(5, 2),
    "DECIMAL(12,2)": pa.decimal128(12, 2),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
}
EXTREMES = {
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 2**15 - 1],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1],
    "FLOAT": [1.1, 3.4e38, 1e-45, -0.0],
    "DECIMAL(5,2)": [Decimal("999.99"), Decimal("-0.01")],
    "DECIMAL(12,2)": [Decimal("9999999999.99"), Decimal("-0.01")],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)],
}


@pytest.mark.parametrize("old", EXTREMES)
def test_each_widening_keeps_every_value_and_its_order(old):
    wider = [name for name, type_ in TYPES.items() if name != old and widens(TYPES[old], type_)]
    assert wider or old == "DOUBLE"
    for new in wider:
        values = pa.array(EXTREMES[old], TYPES[old])
        table = made(f"id INT, v {old}", [], options={"write-only": "true"})
        table.upsert(pa.table({"id": pa.array(range(len(values)), pa.int32()), "v": values}))
        table.alter(lsmlake.change_type("v", new))
        expected = [dt.datetime(v.year, v.month, v.day) if new == "TIMESTAMP_NTZ" else v for v in values.to_pylist()]
        assert [row["v"] for row in listed(table)] == expected, new
        if old != "FLOAT":
            low = min(range(len(expected)), key=lambda i: expected[i])
            assert [row["id"] for row in listed(table, where="v <= NULL OR id >= 0")] == list(range(len(values)))
            assert table.scan(where=f"id = {low} AND v IS NOT NULL").count() == 1


# --- the property ---


@dataclass
class Model:
    """Rows by key, each with its values by field id. `columns`: (id, name, type name, initial default), in order."""

    columns: list[tuple[int, str, str, object]]
    rows: dict[int, dict[int, object]]

    def listed(self) -> list[tuple]:
        return [tuple(seen(row.get(number, initial)) for number, _, _, initial in self.columns) for row in self.rows.values()]


WIDER = {"TINYINT": ["INT", "DOUBLE"], "INT": ["BIGINT", "DECIMAL(20,2)"], "FLOAT": ["DOUBLE"], "DATE": ["TIMESTAMP_NTZ"]}
NAMES = ["a", "b", "c", "d"]


def value_of(code: int, type_: str) -> object:
    if code == 0:
        return None
    if type_ == "STRING":
        return f"s{code}"
    if type_ in ("DATE", "TIMESTAMP_NTZ"):
        day = dt.date(2026, 1, code)
        return day if type_ == "DATE" else dt.datetime(2026, 1, code)
    if type_.startswith("DECIMAL"):
        return Decimal(code)
    return float(code) if type_ in ("FLOAT", "DOUBLE") else code


def widened(value: object, type_: str) -> object:
    if value is None:
        return None
    if type_ == "TIMESTAMP_NTZ":
        return dt.datetime(value.year, value.month, value.day)
    return Decimal(value) if type_.startswith("DECIMAL") else float(value) if type_ == "DOUBLE" else value


OPERATIONS = ("upsert", "upsert", "add", "rename", "drop", "widen", "move", "delete", "compact", "full", "default")
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 255), st.integers(0, 255)), min_size=4, max_size=16)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_by_field_id(vectors):
    @examples(12)
    @given(STEPS)
    def check(steps):
        storage = MemoryStorage()
        lake = new_lake(storage)
        lake.create_database("d", if_not_exists=True)
        options = {"bucket": 2, "deletion-vectors.enabled": vectors, "manifest.merge-min-count": 2}
        table = lake.create_table("d.t", "k INT, a INT, b STRING", primary_key=["k"], options=options)
        model = Model([(1, "k", "INT", None), (2, "a", "INT", None), (3, "b", "STRING", None)], {})
        next_id, history = 4, {}
        for verb, first, second in steps:
            others = [column for column in model.columns if column[1] != "k"]
            place = first % max(1, len(others))
            before = table.meta.snapshots.latest_id()
            if verb == "upsert":
                rows = {}
                for i in range(1 + first % 3):
                    key = (second + i) % 5
                    rows[key] = {n: value_of((first + i * n) % 9, type_) for n, _, type_, _ in others} | {1: key}
                data = [{name: row[n] for n, name, _, _ in model.columns} for row in rows.values()]
                table.upsert(pa.Table.from_pylist(data, table.schema))
                model.rows.update(rows)
            elif verb == "delete":
                table.delete_keys([{"k": second % 5}])
                model.rows.pop(second % 5, None)
            elif verb in ("compact", "full"):
                table.compact(full=verb == "full")
            elif verb == "add" and (free := [name for name in NAMES if name not in [c[1] for c in model.columns]]):
                type_ = ["TINYINT", "INT", "FLOAT", "DATE", "STRING"][second % 5]
                default = value_of(first % 4, type_)
                table.alter(lsmlake.add_column(free[0], type_, default=default, first=first % 2 > 0))
                added = (next_id, free[0], type_, default)
                model.columns = [added, *model.columns] if first % 2 else [*model.columns, added]
                next_id += 1
            elif verb == "rename" and others and (free := [n for n in NAMES if n not in [c[1] for c in model.columns]]):
                number, name, type_, initial = others[place]
                table.alter(lsmlake.rename_column(name, free[-1]))
                model.columns = [(n, free[-1] if n == number else other, t, d) for n, other, t, d in model.columns]
            elif verb == "drop" and len(others) > 1:
                table.alter(lsmlake.drop_column(others[place][1]))
                model.columns = [column for column in model.columns if column[0] != others[place][0]]
            elif verb == "widen" and others and (wider := WIDER.get(others[place][2])):
                number, name, _, initial = others[place]
                type_ = wider[second % len(wider)]
                table.alter(lsmlake.change_type(name, type_))
                changed = (number, name, type_, widened(initial, type_))
                model.columns = [changed if column[0] == number else column for column in model.columns]
                for row in model.rows.values():
                    if number in row:
                        row[number] = widened(row[number], type_)
            elif verb == "move" and others:
                table.alter(lsmlake.move_column(others[place][1], first=True))
                model.columns = [others[place], *(column for column in model.columns if column[0] != others[place][0])]
            elif verb == "default" and others:
                table.alter(lsmlake.set_default(others[place][1], value_of(1, others[place][2])))
            names = [column[1] for column in model.columns]
            found = table.scan().to_arrow()
            assert found.schema.names == names
            assert multiset(rows_of(found)) == multiset(model.listed())
            if table.meta.snapshots.latest_id() != before:
                history[table.meta.snapshots.latest_id()] = names, multiset(model.listed())
            for number, name, _, initial in model.columns[:2]:
                wanted = [row for row in model.rows.values() if row.get(number, initial) is None]
                assert table.scan(where=f"{name} IS NULL").count() == len(wanted)
        for number, (names, rows) in history.items():
            past = lake_on(storage, "past").table("d.t").scan(snapshot=number).to_arrow()
            assert (past.schema.names, multiset(rows_of(past))) == (names, rows)
        assert table.verify() == []
        if history:
            last = max(history)
            changed = table.changes(0, last).to_arrow()
            assert multiset(rows_of(changed.drop_columns(["_row_kind"]))) == history[last][1] or not model.rows

    check()
