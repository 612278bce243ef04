"""Pipelines of dlt into tables of a warehouse: what each load leaves there, beside a naive model."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import dlt
import pyarrow as pa
import pytest
from dlt.common.wei import Wei
from dlt.destinations.exceptions import DatabaseUndefinedRelation
from dlt.pipeline.exceptions import PipelineStepFailed
from dlt_support import MERGE, MERGED, commits, lake_of, pipeline, rows
from effort import SCALE, scaled

import lsmlake.dlt
from lsmlake.api.table import Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# -- merges -----------------------------------------------------------------------------------------------------------


def drawn(chance: random.Random) -> dict[str, object]:
    """A row with nested lists in nested lists."""
    items = [
        {"n": chance.randrange(9), "parts": [{"p": chance.randrange(9)} for _ in range(chance.randrange(3))]} for _ in range(3)
    ]
    return {
        "k": chance.randrange(12),
        "v": chance.randrange(99),
        "gone": chance.random() < 0.2,
        "items": items[: chance.randrange(4)],
    }


def nested(folder: Path) -> dict[int, tuple]:
    """The rows that the tables of the dataset stand for: v, and the items with their parts, by k."""
    there = lake_of(folder).tables("sales")
    read = lambda name, *names: rows(folder, name, *names) if name in there else []  # noqa: E731
    parts, items = {}, {}
    for parent, number, p in read("orders__items__parts", "_dlt_parent_id", "_dlt_list_idx", "p"):
        parts.setdefault(parent, {})[number] = p
    for parent, number, n, own in read("orders__items", "_dlt_parent_id", "_dlt_list_idx", "n", "_dlt_id"):
        items.setdefault(parent, {})[number] = n, tuple(value for _, value in sorted(parts.pop(own, {}).items()))
    found = {
        k: (v, tuple(item for _, item in sorted(items.pop(own, {}).items())))
        for k, v, own in rows(folder, "orders", "k", "v", "_dlt_id")
    }
    assert (parts, items) == ({}, {}), "nested rows without their parents"
    return found


STRATEGIES = "delete-insert", "upsert"


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_merges_equal_a_model_that_replaces_one_row_after_the_other(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Under delete-insert, a load has several rows of a key. The strategies follow each other."""
    monkeypatch.setenv("NORMALIZE__DATA_WRITER__FILE_MAX_ITEMS", "5")  # several files for each table
    chance = random.Random(seed)
    model: dict[int, tuple] = {}
    for number in range(4):
        strategy, load = STRATEGIES[(number + seed) % 2], [{**drawn(chance), "turn": turn} for turn in range(8)]
        last = {row["k"]: row for row in load}
        columns = {"gone": {"hard_delete": True, "data_type": "bool"}, "turn": {"dedup_sort": "desc"}}
        words = {**MERGE, "write_disposition": {"disposition": "merge", "strategy": strategy}}
        given = load if strategy == "delete-insert" else last.values()
        pipeline(tmp_path).run([dict(row) for row in given], columns=columns, **words)
        for k, row in last.items():
            model.pop(k, None)
            if not row["gone"]:
                model[k] = row["v"], tuple((item["n"], tuple(part["p"] for part in item["parts"])) for item in row["items"])
        assert nested(tmp_path) == model, number
    assert not lake_of(tmp_path).table("sales.orders").verify()


@pytest.mark.parametrize("keyed", [False, True])
def test_a_merge_key_replaces_all_stored_rows_with_its_values(keyed: bool, tmp_path: Path):
    """With nested rows, of which the ones of replaced rows go."""
    words = {**MERGE, "primary_key": "k" if keyed else None, "columns": {"day": {"merge_key": True}}}
    row = lambda k, day, *items: {"k": k, "day": day, "items": [{"n": n} for n in items]}  # noqa: E731
    pipeline(tmp_path).run([row(1, "a", 1), row(2, "a", 2, 3), row(3, "b", 4), row(4, None, 5)], **words)
    pipeline(tmp_path).run([row(2, "a", 6), row(5, "a"), row(6, None, 7)], **words)
    assert rows(tmp_path, "orders", "k", "day") == [(2, "a"), (3, "b"), (4, None), (5, "a"), (6, None)]
    assert rows(tmp_path, "orders__items", "n") == [(4,), (5,), (6,), (7,)]
    pipeline(tmp_path).run([row(3, "c", 8)], **words)
    assert rows(tmp_path, "orders", "k", "day")[1:3] == ([(3, "c"), (4, None)] if keyed else [(3, "b"), (3, "c")])
    assert rows(tmp_path, "orders__items", "n") == [(n,) for n in range(5 if keyed else 4, 9)]
    for table in ("orders", "orders__items"):
        assert len(commits(tmp_path, table)) == 3 and not lake_of(tmp_path).table(f"sales.{table}").verify()


def test_a_merge_without_keys_appends_all_but_marked_rows(tmp_path: Path):
    words = {**MERGE, "primary_key": None, "columns": {"gone": {"hard_delete": True, "data_type": "bool"}}}
    for found in ([{"k": 1, "gone": False}, {"k": 2, "gone": True}], [{"k": 1, "gone": None}]):
        pipeline(tmp_path).run(found, **words)
    assert rows(tmp_path, "orders", "k") == [(1,), (1,)]


def test_insert_only_adds_rows_of_new_keys(tmp_path: Path):
    words = {**MERGE, "write_disposition": {"disposition": "merge", "strategy": "insert-only"}}
    columns = {"gone": {"hard_delete": True, "data_type": "bool"}}
    pipeline(tmp_path).run([{"k": 1, "v": 1, "items": [{"n": 1}]}, {"k": 2, "v": 2}], **words)
    pipeline(tmp_path).run([{"k": 1, "v": 9, "items": [{"n": 9}, {"n": 8}]}, {"k": 3, "v": 3, "items": [{"n": 3}]}], **words)
    assert rows(tmp_path, "orders", "k", "v") == [(1, 1), (2, 2), (3, 3)]
    assert rows(tmp_path, "orders__items", "n") == [(1,), (3,), (8,)]
    flat = {**words, "table_name": "flat", "columns": columns}
    pipeline(tmp_path).run([{"k": 1, "v": 1, "gone": None}, {"k": 1, "v": 2}, {"k": 2, "v": 2, "gone": True}], **flat)
    assert rows(tmp_path, "flat", "k", "v") == [(1, 1)]


def test_a_dataset_is_queried_by_its_tables(tmp_path: Path):
    made = pipeline(tmp_path)
    made.run([{"k": 1, "v": 1, "items": [{"n": 1}]}, {"k": 2, "v": 5}], **MERGE)
    orders = made.dataset().orders
    assert orders.select("k", "v").order_by("k").fetchall() == [(1, 1), (2, 5)]
    assert orders.where("v", "gt", 1).select("k").arrow().to_pylist() == [{"k": 2}]
    assert made.dataset()("SELECT count(*) AS n FROM orders__items").df()["n"].tolist() == [1]
    with made.destination_client() as client:
        there, columns = client.get_storage_table("orders")
        assert there and columns["v"]["data_type"] == "bigint" and client.get_storage_table("missing") == (False, {})
        assert client.sql_client.has_dataset()
        with client.sql_client.with_alternative_dataset_name("other"):
            assert not client.sql_client.has_dataset()
        client.drop_storage()
        assert not client.sql_client.has_dataset()


@pytest.mark.parametrize(("sort", "kept"), [("desc", 9), ("asc", 1)])
def test_of_the_rows_of_a_key_the_first_of_the_sort_keeps_its_nested_rows(sort: str, kept: int, tmp_path: Path):
    found = [{"k": 1, "at": dt.date(2026, 1, n), "v": n, "items": [{"n": n}]} for n in (3, 9, 1, 4)]
    pipeline(tmp_path).run(found, columns={"at": {"dedup_sort": sort}}, **MERGE)
    assert rows(tmp_path, "orders", "k", "v") == [(1, kept)] and rows(tmp_path, "orders__items", "n") == [(kept,)]


@pytest.mark.parametrize(("sort", "kept"), [("desc", 9), ("asc", 1)])
def test_of_the_rows_of_a_key_the_first_of_the_sort_stays(sort: str, kept: int, tmp_path: Path):
    found = [{"k": 1, "at": dt.date(2026, 1, n), "v": n} for n in (3, 9, 1, 4)]
    pipeline(tmp_path).run(found, columns={"at": {"dedup_sort": sort}}, **MERGE)
    assert rows(tmp_path, "orders", "k", "v") == [(1, kept)]


def test_a_row_that_is_marked_by_a_value_is_deleted_and_may_come_back(tmp_path: Path):
    columns = {"gone": {"hard_delete": True, "data_type": "timestamp"}}
    now = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    for found, left in (
        ([{"k": 1, "v": 1}, {"k": 2, "v": 2}], [(1, 1), (2, 2)]),
        ([{"k": 1, "v": 3, "gone": now}, {"k": 9, "v": 9, "gone": now}], [(2, 2)]),
        ([{"k": 1, "v": 4}], [(1, 4), (2, 2)]),
    ):
        pipeline(tmp_path).run(found, columns=columns, **MERGE)
        assert rows(tmp_path, "orders", "k", "v") == left


def test_a_merge_after_a_replace_removes_the_nested_rows_of_the_old_rows(tmp_path: Path):
    @dlt.source(root_key=True)
    def shop(found: list[dict]):
        return dlt.resource(found, name="orders", primary_key="k")

    pipeline(tmp_path).run(shop([{"k": 1, "v": 1, "items": [{"n": 1}, {"n": 2}]}, {"k": 2, "v": 2}]), write_disposition="replace")
    assert nested(tmp_path) == {1: (1, ((1, ()), (2, ()))), 2: (2, ())}
    pipeline(tmp_path).run(shop([{"k": 1, "v": 3, "items": [{"n": 7}]}]), write_disposition="merge")
    assert nested(tmp_path) == {1: (3, ((7, ()),)), 2: (2, ())}


# -- the other dispositions -------------------------------------------------------------------------------------------


def test_an_append_adds_rows_and_a_replace_leaves_only_new_ones(tmp_path: Path):
    loads = [{"a": 1, "items": [{"n": 1}]}], [{"a": 1, "items": []}]
    for found in loads:
        pipeline(tmp_path).run(found, table_name="events")
    assert rows(tmp_path, "events", "a") == [(1,), (1,)] and rows(tmp_path, "events__items", "n") == [(1,)]
    pipeline(tmp_path).run([{"a": 7}], table_name="events", write_disposition="replace")
    assert rows(tmp_path, "events", "a") == [(7,)] and rows(tmp_path, "events__items", "n") == []
    pipeline(tmp_path).run(iter(()), table_name="events", write_disposition="replace")
    assert rows(tmp_path, "events", "a") == []


def test_a_replace_is_one_commit(tmp_path: Path):
    for found in ([{"k": 1}, {"k": 2}], [{"k": 3}]):
        pipeline(tmp_path).run(found, table_name="orders", primary_key="k", write_disposition="replace")
        assert rows(tmp_path, "orders", "k") == [(row["k"],) for row in found]
    assert len(lake_of(tmp_path).table("sales.orders").snapshots()) == len(commits(tmp_path, "orders")) == 2


REFUSED = {
    "an append to a table with a key": ([{"k": 1}], {**MERGE, "write_disposition": "append"}, "cannot be appended"),
    "a merge without a key": ([{"k": 1}], {**MERGE, "primary_key": None}, "with the primary key of the resource"),
    "an upsert without a key": (
        [{"k": 1}],
        {**MERGE, "primary_key": None, "write_disposition": {"disposition": "merge", "strategy": "upsert"}},
        "No primary key",
    ),
    "a merge by another key": ([{"k": 1, "j": 1}], {**MERGE, "primary_key": "j"}, "with the primary key of the resource"),
    "another strategy": ([{"k": 1}], {**MERGE, "write_disposition": {"disposition": "merge", "strategy": "cdc"}}, "cdc"),
    "a merge key of an upsert": (
        [{"k": 1}],
        {**MERGE, "columns": {"k": {"merge_key": True}}, "write_disposition": {"disposition": "merge", "strategy": "upsert"}},
        "merge_key of k",
    ),
    "a primary key of versions": (
        [{"k": 1}],
        {**MERGE, "table_name": "plain", "write_disposition": {"disposition": "merge", "strategy": "scd2"}},
        "primary_key of k",
    ),
    "hard deletes above nested rows that are only inserted": (
        [{"k": 1, "gone": True, "items": [{"n": 1}]}],
        {
            **MERGE,
            "columns": {"gone": {"hard_delete": True}},
            "write_disposition": {"disposition": "merge", "strategy": "insert-only"},
        },
        "no hard deletes of rows with nested rows",
    ),
    "a sort key": ([{"k": 1}], {**MERGE, "columns": {"v": {"sort": True, "data_type": "bigint"}}}, "sort of v"),
    "a table format": ([{"k": 1}], {**MERGE, "table_format": "delta"}, "delta"),
    "a source filter": (
        [{"k": 1}],
        {**MERGE, "write_disposition": {"disposition": "merge", "strategy": "upsert", "source_filter": "{staging_table}.k > 1"}},
        "source_filter",
    ),
    "keys that repeat in a replace": ([{"k": 1}, {"k": 1}], {**MERGE, "write_disposition": "replace"}, "same primary key"),
    "keys that repeat above nested rows of an upsert": (
        [{"k": 1, "items": [{"n": 1}]}] * 2,
        {**MERGE, "write_disposition": {"disposition": "merge", "strategy": "upsert"}},
        "several rows of one key",
    ),
    "a decimal of 40 digits": (
        [{"k": 1, "d": 1}],
        {**MERGE, "columns": {"d": {"data_type": "decimal", "precision": 40}}},
        "38 digits",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_do_is_refused_by_its_name_before_a_row_is_written(name: str, tmp_path: Path):
    found, words, message = REFUSED[name]
    pipeline(tmp_path).run([{"k": 5, "j": 5}], **MERGE)
    with pytest.raises(Exception) as refused:
        pipeline(tmp_path, "other").run(found, **words)
    assert message in str(refused.value)
    assert rows(tmp_path, "orders", "k") == [(5,)]


# -- types and schemas ------------------------------------------------------------------------------------------------

UTC = dt.timezone.utc
VALUES: dict[str, list[object]] = {
    "text": ["", "a'b\n", "\U0001f600"],
    "double": [0.5, -1e300, 1e-9],
    "bool": [True, False, True],
    "timestamp": [
        dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        dt.datetime(1969, 1, 1, tzinfo=UTC),
        dt.datetime.max.replace(tzinfo=UTC),
    ],
    "bigint": [0, 2**63 - 1, -(2**63)],
    "binary": [b"\x00\xff", b"x", b"\n"],
    "decimal": [Decimal("1.500000000"), Decimal("-0.000000001"), Decimal("12345678901234567890.123456789")],
    "wei": [Wei(10**37), Wei(0), Wei(-1)],
    "date": [dt.date(1, 1, 1), dt.date(2026, 2, 28), dt.date(9999, 12, 31)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 0, 0, 1)],
}


def test_every_type_of_dlt_comes_back(tmp_path: Path):
    columns = {name: {"data_type": name} for name in VALUES} | {
        "json": {"data_type": "json"},
        "naive": {"data_type": "timestamp", "timezone": False},
        "small": {"data_type": "decimal", "precision": 5, "scale": 2},
    }
    found = [{"k": number, **{name: values[number] for name, values in VALUES.items()}} for number in range(3)]
    for row in found:
        row |= {"json": {"a": [1, None]}, "naive": dt.datetime(2026, 1, 1, 1), "small": Decimal("-123.45")}
    pipeline(tmp_path).run([dict(row) for row in [*found, {"k": 3}]], columns=columns, **MERGE)
    stored = lake_of(tmp_path).table("sales.orders")
    there = sorted(stored.scan().to_pylist(), key=lambda row: row["k"])
    assert stored.schema.field("timestamp").type == pa.timestamp("us", "UTC") and stored.schema.field(
        "naive"
    ).type == pa.timestamp("us")
    assert there[3] == {name: None for name in there[3]} | {name: there[3][name] for name in ("k", "_dlt_load_id", "_dlt_id")}
    for row, back in zip(found, there, strict=False):
        assert {name: back[name] for name in VALUES} == {name: row[name] for name in VALUES}
        assert (back["json"], back["naive"], back["small"]) == ('{"a":[1,null]}', row["naive"], row["small"])


def test_columns_are_added_and_a_new_type_is_a_column_of_its_own(tmp_path: Path):
    for found in ([{"k": 1, "v": 1}], [{"k": 2, "v": 2, "w": "x"}], [{"k": 3, "v": "three"}], [{"k": 1, "v": 5}]):
        pipeline(tmp_path).run(found, **MERGE)
    assert rows(tmp_path, "orders", "k", "v", "w", "v__v_text") == [
        (1, 5, None, None),
        (2, 2, "x", None),
        (3, None, None, "three"),
    ]
    with pytest.raises(PipelineStepFailed, match=r"(?i)contract"):
        pipeline(tmp_path).run([{"k": 1, "other": 1}], schema_contract="freeze", **MERGE)


def test_arrow_tables_are_loaded_with_their_own_types(tmp_path: Path):
    nested_type = pa.struct([("a", pa.int32())])
    table = pa.table(
        {
            "k": pa.array([1, 2], pa.int32()),
            "t": pa.array(["x", None]).dictionary_encode(),
            "at": pa.array([1000, 2000], pa.timestamp("ns", "Europe/Berlin")),
            "s": pa.array([None, {"a": 1}], nested_type),
        }
    )
    pipeline(tmp_path).run(table, **MERGE)
    pipeline(tmp_path).run(table.slice(0, 1).select(["k", "t"]), **MERGE)
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC)
    assert rows(tmp_path, "orders", "k", "t", "at", "s") == [(1, "x", None, None), (2, None, at, '{"a":1}')]


def test_hints_of_a_table_decide_its_partitions_and_options(tmp_path: Path):
    found = lsmlake.dlt.adapter(dlt.resource([{"k": 1, "day": "2026-01-01"}], name="orders"), options={"bucket": 3})
    pipeline(tmp_path).run(
        found, columns={"day": {"partition": True, "description": "the day"}}, primary_key="k", write_disposition="merge"
    )
    table = lake_of(tmp_path).table("sales.orders")
    assert (table.primary_key, table.partition_by, table.options["bucket"]) == (("k",), ("day",), "3")
    assert rows(tmp_path, "orders", "k", "day") == [(1, "2026-01-01")]


# -- state ------------------------------------------------------------------------------------------------------------


@dlt.resource(name="orders", primary_key="k", write_disposition="merge")
def growing(last: int, moment=dlt.sources.incremental("at")) -> Iterator[dict]:
    yield [{"k": at % 3, "at": at, "since": moment.last_value or 0} for at in range((moment.last_value or 0) + 1, last + 1)]


def test_a_pipeline_in_a_new_directory_goes_on_where_the_last_one_stopped(tmp_path: Path):
    pipeline(tmp_path).run(growing(4))
    other = pipeline(tmp_path, work="elsewhere")
    other.run(growing(6))
    assert rows(tmp_path, "orders", "k", "at", "since") == [(0, 6, 4), (1, 4, 0), (2, 5, 4)]
    assert len(rows(tmp_path, "_dlt_loads")) == 2


def test_tables_are_dropped_and_loaded_anew(tmp_path: Path):
    pipeline(tmp_path).run([{"k": 1, "v": 1}], table_name="orders")
    pipeline(tmp_path).run([{"k": 2, "v": 2}], refresh="drop_resources", **MERGE)
    assert rows(tmp_path, "orders", "k") == [(2,)] and lake_of(tmp_path).table("sales.orders").primary_key == ("k",)
    pipeline(tmp_path).run([{"k": 3, "v": 2}], refresh="drop_data", **MERGE)
    assert rows(tmp_path, "orders", "k") == [(3,)]
    with pipeline(tmp_path).sql_client() as client:
        assert client.execute_sql("SELECT k, v FROM sales.orders WHERE k > %s", 1) == [(3, 2)]
        with client.execute_query("SELECT k FROM orders") as cursor:
            assert cursor.arrow().to_pylist() == [{"k": 3}]
        with pytest.raises(DatabaseUndefinedRelation):
            client.execute_sql("SELECT 1 FROM sales.missing")
    with pipeline(tmp_path).destination_client() as client:
        client.drop_storage()
    assert lake_of(tmp_path).databases() == []


def test_dlt_finds_the_destination_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entry = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]["dlt"]
    assert import_module(entry["lsmlake"]).lsmlake is lsmlake.dlt.lsmlake
    monkeypatch.setenv("DESTINATION__LSMLAKE__WAREHOUSE", str(tmp_path / "lake"))
    for name in ("lsmlake", "lsmlake.dlt.lsmlake"):
        other = dlt.pipeline("named", destination=name, dataset_name="sales", pipelines_dir=str(tmp_path / "work"))
        other.run([{"k": 1}], table_name="orders")
    assert rows(tmp_path, "orders", "k") == [(1,), (1,)]


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("broken", range(3))
def test_a_job_that_is_tried_again_commits_to_no_table_twice(broken: int, when: str, tmp_path: Path):
    """Each commit of a load fails once, before or after it takes place; dlt tries the job again."""
    pipeline(tmp_path).run([{"k": 1, "v": 1, "items": [{"n": 1}]}, {"k": 2, "v": 2}], **MERGE)
    calls = iter(range(100))

    def failing(verb):
        def call(self: Table, *args: object, **words: object):
            number = next(calls)
            if number == broken and when == "before":
                raise OSError("the machine is tired")
            done = verb(self, *args, **words)
            if number == broken:
                raise OSError("the machine is tired")
            return done

        return call

    with patch.multiple(Table, upsert=failing(Table.upsert), append=failing(Table.append)):
        try:
            pipeline(tmp_path).run(**MERGED)
        except PipelineStepFailed as failed:
            assert "the machine is tired" in str(failed)
    pipeline(tmp_path).load()
    assert nested(tmp_path) == {1: (3, ()), 2: (2, ()), 3: (3, ((7, ()),))}
    for table in ("orders", "orders__items", "_dlt_loads"):
        done = commits(tmp_path, table)
        assert len(done) == len(set(done)) == 2


KILLED = """
import os, sys
from pathlib import Path
from dlt_support import MERGED, pipeline
from lsmlake.api.table import Table

calls, at = iter(range(100)), int(sys.argv[2])

def dying(verb):
    def call(*args, **words):
        done = verb(*args, **words)
        if next(calls) == at:
            os._exit(9)
        return done
    return call

Table.upsert, Table.append = dying(Table.upsert), dying(Table.append)
pipeline(Path(sys.argv[1])).run(**MERGED)
"""


@pytest.mark.parametrize("at", range(3) if SCALE >= 1 else [1])
def test_a_load_that_is_killed_after_a_commit_goes_on_without_another_one(at: int, tmp_path: Path):
    pipeline(tmp_path).run([{"k": 1, "v": 1, "items": [{"n": 1}]}, {"k": 2, "v": 2}], **MERGE)
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tests.parent}{os.pathsep}{tests / 'support'}"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(at)], env=environment, check=False)
    assert done.returncode == 9
    pipeline(tmp_path).load()
    assert nested(tmp_path) == {1: (3, ()), 2: (2, ()), 3: (3, ((7, ()),))}
    for table in ("orders", "orders__items", "_dlt_loads"):
        writers = commits(tmp_path, table)
        assert len(writers) == len(set(writers)) == 2
