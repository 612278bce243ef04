"""VARCHAR(n) and CHAR(n) in process: what is stored, what each write refuses, how values compare. The cases are Spark's."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from sized_text_cases import CONDITIONS, KEPT, QUERIES, ROWS, STORED, TABLES, TOO_LONG

import lsmlake
from lsmlake import add_column, change_type, set_default, set_option
from lsmlake.errors import InvalidData, InvalidOption, InvalidSchema, UnsupportedFormat
from lsmlake.kernels.fitting import TooLong, fitted
from lsmlake.schema.evolution import unfit
from lsmlake.schema.schema import Schema
from lsmlake.types.ddl import parse_columns

DDL = "k CHAR(3), v VARCHAR(3), n INT"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the tables of the cases."""
    folder = tmp_path_factory.mktemp("cases")
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    lake.sql("USE d")
    for name, columns in TABLES.items():
        lake.sql(f"CREATE TABLE {name} ({columns})")
        for row in ROWS[name]:
            lake.sql(f"INSERT INTO {name} VALUES {row}")
    return folder


@pytest.fixture
def filled(planted, cases):
    lake = planted(cases)
    lake.sql("USE d")
    return lake


def ids(found) -> list[int]:
    return sorted(row[0] for row in found)


# -- what Spark answers -------------------------------------------------------------------------------------------------


def test_values_are_stored_in_the_form_of_their_type(filled):
    rows = filled.sql("SELECT * FROM t ORDER BY id").to_arrow().to_pylist()
    maps = [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in rows]
    assert [tuple(row.values()) for row in maps] == STORED


@pytest.mark.parametrize("row", TOO_LONG)
def test_a_longer_text_is_refused(row: str, filled):
    with pytest.raises(
        InvalidData, match=r"expected .*(VARCHAR|CHAR)\(\d\).*: it has \d characters; shorten the value, or write"
    ):
        filled.sql(f"INSERT INTO t VALUES {row}")
    assert filled.sql("SELECT count(*) FROM t").fetchall() == [(5,)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_compared_as_in_spark(condition: str, filled):
    wanted = CONDITIONS[condition]
    assert ids(filled.sql(f"SELECT id FROM t WHERE {condition}").fetchall()) == wanted
    filled.sql("CREATE VIEW w (i, c, v, st, a, id) AS SELECT id, c, v, st, a, id FROM t")
    assert ids(filled.sql(f"SELECT i FROM w AS t WHERE {condition}").fetchall()) == wanted
    if "SELECT" not in condition:
        assert sorted(filled.table("d.t").scan(where=condition).to_arrow()["id"].to_pylist()) == wanted
    assert filled.sql(f"UPDATE t SET v = 'hit' WHERE {condition}").fetchall()[0][0] == len(wanted)
    assert ids(filled.sql("SELECT id FROM t WHERE v = 'hit'").fetchall()) == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_queries_are_answered_as_by_spark(query: str, filled):
    assert sorted(filled.sql(query).fetchall(), key=str) == QUERIES[query]


def test_columns_of_a_query_keep_their_types(filled):
    query, types = KEPT
    filled.sql(f"CREATE TABLE made AS {query}")
    filled.sql(f"CREATE VIEW seen AS {query}")
    for name in ("made", "seen"):
        described = filled.sql(f"DESCRIBE {name}").to_arrow()
        assert dict(zip(*(described[column].to_pylist() for column in ("col_name", "data_type")), strict=True)) == types
    plain = filled.sql("DESCRIBE QUERY SELECT c, a FROM t").to_arrow()["data_type"].to_pylist()
    assert plain == ["STRING", "ARRAY<STRING>"]  # as Spark says
    with pytest.raises(InvalidData, match=r"expected VARCHAR\(3\)"):
        filled.sql("INSERT INTO made (v) VALUES ('abcd')")


# -- every door ---------------------------------------------------------------------------------------------------------


def _by_file(table, rows: pa.Table, folder) -> None:
    path = folder / "rows.csv"
    path.write_text("k,v,n\n" + "".join(f"{k},{v},{n}\n" for k, v, n in zip(*rows.to_pydict().values(), strict=True)))
    table.upsert(str(path))


DOORS = {
    "upsert": lambda lake, table, rows, folder: table.upsert(rows),
    "upsert of dicts": lambda lake, table, rows, folder: table.upsert(rows.to_pylist()),
    "upsert with cast": lambda lake, table, rows, folder: table.upsert(rows, cast=True),
    "upsert with evolve": lambda lake, table, rows, folder: table.upsert(rows, evolve=True),
    "upsert of a dictionary": lambda lake, table, rows, folder: table.upsert(
        rows.set_column(0, "k", rows["k"].dictionary_encode()).set_column(1, "v", rows["v"].cast(pa.large_string()))
    ),
    "upsert of a file": lambda lake, table, rows, folder: _by_file(table, rows, folder),
    "overwrite": lambda lake, table, rows, folder: table.overwrite(rows),
    "append": lambda lake, table, rows, folder: lake.table("d.appended").append(rows),
    "INSERT": lambda lake, table, rows, folder: lake.sql("INSERT INTO d.t SELECT * FROM rows", tables={"rows": rows}),
    "INSERT OVERWRITE": lambda lake, table, rows, folder: lake.sql(
        "INSERT OVERWRITE d.t SELECT * FROM rows", tables={"rows": rows}
    ),
    "MERGE": lambda lake, table, rows, folder: lake.sql(
        "MERGE INTO d.t USING rows AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *", tables={"rows": rows}
    ),
    "merge": lambda lake, table, rows, folder: table.merge(rows, on="t.k = s.k").when_not_matched_insert_all().execute(),
    "replaced": lambda lake, table, rows, folder: _replaced(lake, rows),
}


def _replaced(lake, rows: pa.Table) -> None:
    made = pa.table({"k": rows["k"], "v": rows["v"], "n": rows["n"]})
    lake.sql("INSERT OVERWRITE d.appended SELECT * FROM rows", tables={"rows": made})


@pytest.mark.parametrize("door", DOORS)
def test_no_door_misses_the_lengths(door: str, lake, tmp_path):
    table = lake.create_table("d.t", DDL, primary_key=["k"], options={"bucket": 4})
    lake.create_table("d.appended", DDL, options={"bucket": 4, "bucket-key": "k"})
    good = pa.table({"k": ["a", "bcd"], "v": ["ab    ", "x"], "n": pa.array([1, 2], pa.int32())})
    DOORS[door](lake, table, good, tmp_path)
    found = lake.table("d.appended" if door in ("append", "replaced") else "d.t").scan().to_arrow().sort_by("k")
    assert found.to_pydict() == {"k": ["a  ", "bcd"], "v": ["ab ", "x"], "n": [1, 2]}
    for column, word in (("k", r"CHAR\(3\)"), ("v", r"VARCHAR\(3\)")):
        bad = good.set_column(good.column_names.index(column), column, pa.array(["x", "x" * 1000]))
        bad = bad if column == "k" else bad.set_column(0, "k", pa.array(["e", "f"]))
        with pytest.raises(
            InvalidData, match=rf"column '{column}'.*expected {word}, found '?x+.*it has 1000 characters"
        ) as refused:
            DOORS[door](lake, table, bad, tmp_path)
        assert len(str(refused.value)) < 600
    assert table.verify() == []


def test_changes_of_rows_are_checked(lake):
    for keyed in (True, False):
        table = lake.create_table(f"d.t{keyed}", DDL, primary_key=["k"] if keyed else [])
        rows = [{"k": "a", "v": "b", "n": 1}]
        _ = table.upsert(rows) if keyed else table.append(rows)
        for change in ("UPDATE {} SET v = v || 'bcd'", "UPDATE {} SET v = 'toolong' WHERE n % 2 = 1"):
            with pytest.raises(InvalidData, match=r"expected VARCHAR\(3\)"):
                lake.sql(change.format(table.name))
        lake.sql(f"UPDATE {table.name} SET v = 'ab      '")
        source = "USING (SELECT 'a' AS k, 'abcd' AS v) AS s ON trim({}.k) = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        with pytest.raises(InvalidData, match=r"expected VARCHAR\(3\)"):
            lake.sql(f"MERGE INTO {table.name} {source.format(table.name)}")
        assert table.scan().to_arrow().to_pylist() == [{"k": "a  ", "v": "ab ", "n": 1}]


def test_keys_are_looked_up_and_deleted_in_their_form(lake):
    table = lake.create_table("d.t", DDL, primary_key=["k"], options={"bucket": 8})
    table.upsert([{"k": f"{number}", "v": "x", "n": number} for number in range(100)])
    table.upsert([{"k": f"{number}   ", "v": "y", "n": number} for number in range(50)])
    assert table.scan().count() == 100
    assert table.get({"k": "7"}) == {"k": "7  ", "v": "y", "n": 7}
    table.delete_keys([{"k": "7 "}])
    assert table.get({"k": "7"}) is None and table.scan().count() == 99
    with pytest.raises(InvalidData, match=r"expected CHAR\(3\)"):
        table.get({"k": "1000"})
    table.compact(full=True)
    assert table.verify() == []


def test_partitions_have_the_form_of_their_column(lake):
    table = lake.create_table("d.t", "p CHAR(2), q VARCHAR(2), n INT", partition_by=["p", "truncate(1, q)"])
    table.append([{"p": "a", "q": "x     ", "n": 1}, {"p": "a ", "q": "x", "n": 2}, {"p": "b", "q": "yy", "n": 3}])
    assert {row["partition"] for row in table.partitions().to_pylist()} == {"p=a , q_trunc=x", "p=b , q_trunc=y"}
    assert ids(lake.sql("SELECT n FROM d.t WHERE p = 'a'").fetchall()) == [1, 2]
    table.overwrite([{"p": "a", "q": "x", "n": 4}], where="p = 'a'")
    lake.sql("INSERT OVERWRITE d.t PARTITION (p = 'b') SELECT 'z', 5")
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [4, 5]


def test_a_merge_whose_columns_have_other_lengths_reads_all_candidates(lake):
    lake.sql("CREATE TABLE d.t (c CHAR(3), n INT)")
    lake.sql("CREATE TABLE d.s (c CHAR(5), n INT)")
    for number in range(5):
        lake.sql(f"INSERT INTO d.t VALUES ('{number}', {number})")
    lake.sql("INSERT INTO d.s VALUES ('3', 30), ('4', 40)")
    lake.sql("MERGE INTO d.t USING d.s ON t.c = s.c WHEN MATCHED THEN UPDATE SET n = s.n")
    assert lake.sql("SELECT n FROM d.t ORDER BY n").fetchall() == [(0,), (1,), (2,), (30,), (40,)]


def test_two_keys_of_a_map_that_become_one_are_refused(lake):
    table = lake.create_table("d.t", "m MAP<VARCHAR(1), INT>")
    with pytest.raises(InvalidData, match="two keys of the map are equal but for blanks"):
        table.append(pa.table({"m": pa.array([[("a", 1), ("a ", 2)]], pa.map_(pa.string(), pa.int32()))}))


# -- definitions --------------------------------------------------------------------------------------------------------


def test_definitions_are_written_as_they_were_read(lake):
    columns = "a VARCHAR(3) NOT NULL COMMENT 'x', b ARRAY<STRUCT<c: CHAR(2) COMMENT 'y', d: MAP<VARCHAR(1), CHAR(0)>>>"
    lake.sql(f"CREATE TABLE d.t ({columns})")
    made = lake.sql("SHOW CREATE TABLE d.t").fetchall()[0][0]
    assert columns in made
    lake.sql(made.replace("`t`", "`u`"))
    lake.sql("CREATE TABLE d.v LIKE d.t")
    lake.create_table("d.w", lake.table("d.t").schema)
    listed = [lake.sql(f"SHOW CREATE TABLE d.{name}").fetchall()[0][0] for name in "tuv"]
    assert len({text.partition("(")[2] for text in listed}) == 1
    assert lake.table("d.w").schema.equals(lake.table("d.t").schema, check_metadata=True)
    listed = "SELECT full_data_type, data_type FROM information_schema.columns WHERE table_name = 't' AND column_name = 'a'"
    assert lake.sql(listed).fetchall() == [("varchar(3)", "VARCHAR")]


def test_defaults_have_the_form_of_their_column(lake):
    lake.sql("CREATE TABLE d.t (n INT, a VARCHAR(3) DEFAULT 'abc  ', b CHAR(4) DEFAULT 'x')")
    lake.sql("INSERT INTO d.t (n) VALUES (1)")
    table = lake.table("d.t")
    table.alter(add_column("c", "CHAR(2)", default="y"), set_default("a", "z  "))
    lake.sql("INSERT INTO d.t (n, b) VALUES (2, DEFAULT)")
    rows = lake.sql("SELECT * FROM d.t ORDER BY n").fetchall()
    assert rows == [(1, "abc", "x   ", "y "), (2, "z  ", "x   ", "y ")]
    for alteration in (add_column("e", "VARCHAR(1)", default="yy"), set_default("b", "12345")):
        with pytest.raises(InvalidSchema, match="the default does not fit the type"):
            table.alter(alteration)


WIDER = {
    ("VARCHAR(3)", "VARCHAR(4)"),
    ("VARCHAR(3)", "STRING"),
    ("CHAR(3)", "VARCHAR(3)"),
    ("CHAR(3)", "STRING"),
    ("ARRAY<CHAR(3)>", "ARRAY<STRING>"),
}
NARROWER = {
    ("VARCHAR(3)", "VARCHAR(2)"),
    ("VARCHAR(3)", "CHAR(3)"),
    ("CHAR(3)", "CHAR(4)"),
    ("CHAR(3)", "VARCHAR(2)"),
    ("STRING", "VARCHAR(3)"),
    ("STRING", "CHAR(3)"),
    ("VARCHAR(3)", "BINARY"),
    ("ARRAY<VARCHAR(3)>", "ARRAY<VARCHAR(2)>"),
}


@pytest.mark.parametrize(("old", "new"), sorted(WIDER | NARROWER))
def test_only_a_length_that_loses_nothing_is_altered(old: str, new: str, lake):
    keyed = not old.startswith("ARRAY")
    table = lake.create_table("d.t", f"c {old}, n INT", primary_key=["c"] if keyed else [])
    value = ["abc"] if not keyed else "abc"
    write = table.upsert if keyed else table.append
    write([{"c": value, "n": 1}])
    if (old, new) in NARROWER:
        with pytest.raises(InvalidSchema, match="cannot change"):
            table.alter(change_type("c", new))
        return
    table.alter(change_type("c", new))
    assert lake.sql("DESCRIBE d.t").fetchall()[0][1] == new + (" NOT NULL" if keyed else "")
    write([{"c": value, "n": 2}])
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == ([2] if keyed else [1, 2])


def test_a_writer_that_began_with_longer_texts_does_not_commit_them():
    def schema(columns: str) -> Schema:
        return Schema.create(parse_columns(columns), [], [], {}, None, 0, "u", "d.t")

    for columns, longer in (("c VARCHAR(3)", "c VARCHAR(4)"), ("c ARRAY<CHAR(3)>", "c ARRAY<STRING>")):
        now, written = schema(columns), replace(schema(longer), id=1)
        assert unfit(written, now) == "whose column 'c' cannot hold every written value"
        assert unfit(now, written) is None


def test_a_rollback_brings_the_lengths_back(lake):
    lake.sql("CREATE TABLE d.t (v VARCHAR(3))")
    table = lake.table("d.t")
    table.append([{"v": "abc"}])
    table.alter(change_type("v", "STRING"))
    table.append([{"v": "abcdef"}])
    table.rollback(snapshot=1)
    with pytest.raises(InvalidData, match=r"expected VARCHAR\(3\)"):
        table.append([{"v": "abcdef"}])
    assert table.scan(snapshot=3).to_arrow().to_pylist() == [{"v": "abc"}, {"v": "abcdef"}]


def test_a_replaced_table_has_the_new_lengths(lake):
    lake.sql("CREATE TABLE d.t (v VARCHAR(3), a ARRAY<CHAR(1)>)")
    lake.sql("INSERT INTO d.t VALUES ('abc', array('x'))")
    with pytest.raises(InvalidData, match=r"expected VARCHAR\(3\)"):
        lake.sql("INSERT INTO d.t VALUES ('abcd', NULL)")
    lake.sql("CREATE OR REPLACE TABLE d.t (v CHAR(5), a ARRAY<CHAR(2)>)")
    lake.sql("INSERT INTO d.t VALUES ('abcd', array('x'))")
    assert lake.sql("SELECT * FROM d.t").fetchall() == [("abcd ", ["x "])]


def test_a_function_that_makes_longer_texts_is_refused(lake):
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}
    with pytest.raises(InvalidOption, match=r"listagg makes texts longer than VARCHAR\(3\)"):
        lake.create_table("d.t", DDL, primary_key=["k"], options=options)
    table = lake.create_table("d.t", DDL, primary_key=["k"], options=options | {"fields.v.aggregate-function": "max"})
    with pytest.raises(InvalidOption, match="listagg"):
        table.alter(set_option("fields.v.aggregate-function", "listagg"))


# -- the schema file ----------------------------------------------------------------------------------------------------


def test_a_schema_file_says_the_lengths_in_a_version_of_its_own(lake, monkeypatch):
    table = lake.create_table("d.t", "a INT, v ARRAY<VARCHAR(3)>")
    content = json.loads(table.version.schema.encode())
    assert content["version"] == 2 and content["fields"][1]["type"]["element"]["type"] == "VARCHAR(3)"
    assert Schema.decode(table.version.schema.encode(), "s") == table.version.schema
    plain = lake.create_table("d.u", "a INT, v ARRAY<STRING>").version.schema
    assert json.loads(plain.encode())["version"] == 1
    monkeypatch.setattr("lsmlake.schema.envelope._NEWEST", {})  # as a release that does not know the types
    with pytest.raises(UnsupportedFormat, match="expected version 1 or older, found version 2; upgrade lsmlake"):
        Schema.decode(table.version.schema.encode(), "s")
    assert Schema.decode(plain.encode(), "s") == plain


STORED_SCHEMA = """
{"format": "lsmlake-schema", "version": 2, "id": 0, "table_uuid": "u", "fields": [
  {"id": 1, "name": "k", "type": "CHAR(3)", "nullable": false},
  {"id": 2, "name": "a", "type": {"type": "list", "element":
    {"id": 3, "name": "element", "type": "VARCHAR(2)", "nullable": true}}, "nullable": true}],
 "highest_field_id": 3, "primary_key": ["k"], "partition_by": [],
 "partitioning": {"specs": [{"id": 0, "fields": []}], "current": 0, "highest_spec": 0, "highest_field": 999},
 "options": {}, "comment": null, "time_ms": 7, "checksum": "04aca9ca"}
"""


def test_a_stored_schema_reads_as_it_was_written():
    made = Schema.create(parse_columns("k CHAR(3), a ARRAY<VARCHAR(2)>"), ["k"], [], {}, None, 7, "u", "d.t")
    stored = Schema.decode(STORED_SCHEMA.encode(), "s")
    assert stored == made and stored.columns.equals(made.columns, check_metadata=True)
    assert json.loads(made.encode()) == json.loads(STORED_SCHEMA)


def test_metadata_that_is_no_length_is_refused(lake):
    for type_, words in ((pa.string(), b"TEXT(3)"), (pa.int32(), b"VARCHAR(3)")):
        with pytest.raises(InvalidSchema, match="the metadata text_type of a field is not the type of its texts"):
            lake.create_table("d.t", pa.schema([pa.field("v", type_, True, {b"text_type": words})]))


def test_random_texts_fit_as_character_by_character():
    chooser = random.Random(7)
    letters = ("a", "é", "日", "😀", " ", "\t", "\u00a0")
    for name, length in itertools.product(("VARCHAR", "CHAR"), (0, 1, 2, 4)):
        field = parse_columns(f"v {name}({length})").field(0)
        fit = partial(fitted, field=field)
        for _ in range(100):
            text = "".join(chooser.choices(letters, k=chooser.randrange(7)))
            rest = text[length:]
            array = pa.array(["skipped", text, None]).slice(1)
            if rest.strip(" "):
                with pytest.raises(TooLong, match=f"it has {len(text.rstrip(' '))} characters"):
                    fit(array)
                continue
            made = text[:length]
            assert fit(array).to_pylist() == [made.ljust(length) if name == "CHAR" else made, None]


def test_iceberg_metadata_has_plain_strings(lake, tmp_path):
    table = lake.create_table("d.t", f"{DDL}, a ARRAY<VARCHAR(2)>", primary_key=["k"], options={"metadata.iceberg": "true"})
    table.upsert([{"k": "a", "v": "b", "n": 1, "a": ["c"]}])
    (newest,) = (tmp_path / "warehouse" / table.path / "metadata").glob("v*.metadata.json")
    fields = json.loads(newest.read_text())["schemas"][0]["fields"]
    types = [field["type"] for field in fields]
    assert types[:3] == ["string", "string", "int"] and types[3]["element"] == "string"
    assert table.verify() == []
