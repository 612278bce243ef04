"""DELETE, UPDATE and MERGE as Spark plans. What each statement does is in `scenarios`; here is what only Spark does."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from naive import unreferenced
from spark_support import configured

from lsmlake import add_column
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.predicate import Predicate
from lsmlake.read.plan import Plan
from lsmlake.spark import frame_writer
from lsmlake.spark.statements import by_key, by_position, sides
from lsmlake.storage.env import Limits
from lsmlake.tables.version import Version
from lsmlake.write import changeable

pytestmark = pytest.mark.spark

DDL = "id INT NOT NULL, k INT, v BIGINT, `s.1` STRING"
COLUMNS = pa.schema([("id", pa.int32()), ("k", pa.int32()), ("v", pa.int64()), ("s.1", pa.string())])
SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b"}
KINDS: dict[str, dict] = {
    "vectors": {"options": SMALL, "partition_by": ["k"]},
    "copy on write": {"options": SMALL | {"deletion-vectors.enabled": "false", "write.collect-rows": 0}},
    "key": {"primary_key": ["id"], "options": {"bucket": 2, "write.collect-rows": 0}},
}
COLLECTED = {"key, changes collected": {"primary_key": ["id"], "options": {"bucket": 2}}}


SOURCE = {"id": [3, 4, 21, 22, 90, 91], "k": [1, None, 2, 0, 1, None], "v": [1, 2, None, 4, 5, 6], "s.1": ["x"] * 6}


@pytest.fixture
def of_kind(spark_lake, lake):
    """Makes a table of a kind, where no statement is small enough for the driver."""

    def made(kind: str) -> Table:
        table = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=500)), spark_lake.runtime).create_table(
            "d.t", DDL, **(KINDS | COLLECTED)[kind]
        )
        write = lake.table("d.t").upsert if table.primary_key else lake.table("d.t").append
        for first in (0, 20):
            write([{"id": n, "k": n % 3 or None, "v": 10 * n, "s.1": f"a{n % 5}"} for n in range(first, first + 30)])
        lake.table("d.t").delete("id = 7")
        return table

    return made


REFUSED = {
    "a repeat": (
        lambda table, source: table.merge(source.union(source), "t.id = s.id").when_matched_update({"v": "1"}).execute(),
        InvalidData,
        "several source rows match one row",
    ),
    "an unknown column": (lambda table, source: table.update({"v": "nothing"}), InvalidQuery, "nothing"),
    "a value that is lost": (lambda table, source: table.update({"k": "v + 3000000000"}), InvalidQuery, "without loss"),
    "a division by zero": (lambda table, source: table.update({"v": "1 / (v - v)"}), InvalidQuery, "(?i)zero"),
}


@pytest.mark.parametrize("kind", ["vectors", pytest.param("key", marks=pytest.mark.connect)])
def test_what_only_spark_can_evaluate_and_what_is_refused(spark, of_kind, kind):
    table = of_kind(kind)
    source = spark.createDataFrame(pa.table(SOURCE, schema=COLUMNS))
    odd = sum(value % 4 == 2 for value in table.scan().to_arrow()["v"].to_pylist())
    assert table.update({"s.1": "repeat('b', 2)"}, "v % 4 = 2").updated == odd
    before = table.snapshots().num_rows
    for what, (run, error, words) in REFUSED.items():
        with pytest.raises(error, match=words):
            run(table, source)
        assert table.snapshots().num_rows == before, what
    assert unreferenced(table) == []


@pytest.mark.parametrize("kind", [*KINDS, *COLLECTED])
def test_a_statement_that_is_overtaken_is_evaluated_again(lake, of_kind, kind, monkeypatch):
    table = of_kind(kind)
    writes = {"key": (frame_writer, "upsert"), "key, changes collected": (frame_writer, "upsert_collected")}
    place, name = writes.get(kind, (by_position, "replace_rows"))
    publish, left = getattr(place, name), [1]

    def overtaken(*args, **named):
        if left:
            left.pop()
            lake.table("d.t").update({"v": "v + 100"}, "id = 1")
            lake.table("d.t").compact(full=True)
        return publish(*args, **named)

    monkeypatch.setattr(place, name, overtaken)
    assert table.update({"v": "v + 1"}, "id = 1").updated == 1
    assert table.scan(where="id = 1").to_arrow()["v"].to_pylist() == [111]
    assert table.verify() == [] and unreferenced(table) == []


def test_sources_of_a_merge_and_rows_that_tasks_read(spark, lake, of_kind):
    table = of_kind("vectors")
    lake.table("d.t").alter(add_column("day", "DATE", default=dt.date(2026, 1, 2)))
    merge = table.merge({"id": [3, 900], "new": ["x", "y"]}, "t.id = s.id", evolve=True)
    merge = merge.when_matched_update({"new": "s.new"}).when_not_matched_insert({"id": "s.id", "new": "s.new"})
    with configured(spark, spark__sql__sources__useV1SourceList="orc"):  # Spark's other Parquet reader has no row positions
        report = merge.execute()
    assert (report.updated, report.inserted) == (1, 1)
    assert table.merge(table, "t.id = s.id + 893").when_matched_delete().execute().snapshot is None, "row 7 is deleted"
    assert table.merge(table, "t.id = s.id + 897").when_matched_update({"new": "s.new"}).execute().updated == 1
    columns = ["id", "day", "new"]
    found = table.scan(where="new is not null", columns=columns).to_arrow().to_pylist()
    day = dt.date(2026, 1, 2)
    assert sorted(found, key=str) == [dict(zip(columns, row, strict=True)) for row in ((3, day, "x"), (900, day, "x"))]
    assert table.verify() == [] and unreferenced(table) == []


def test_the_size_of_the_files_does_not_decide_what_a_merge_takes(spark_lake):
    """A small MERGE of data in this process, which DuckDB evaluates, unless only Spark knows its expressions."""
    table = spark_lake.create_table("d.small", "id INT NOT NULL, v STRING", primary_key=["id"])
    table.upsert({"id": [1, 2], "v": ["a", "b"]})
    merge = table.merge({"id": [2, 3], "v": ["x", "y"]}, "t.id = s.id")
    merge.when_matched_update({"v": "format_string('%s-%s', t.v, s.v)"}).when_not_matched_insert_all().execute()
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b-x"}, {"id": 3, "v": "y"}]
    with pytest.raises(InvalidQuery, match="nope"):
        table.merge({"id": [2]}, "t.id = s.id").when_matched_update({"v": "nope(t.v)"}).execute()


@pytest.mark.connect(short="connect")
@pytest.mark.parametrize("collected", [0, 250_000])
def test_a_merge_that_writes_each_source_row_reads_no_row_of_the_table(spark, spark_lake, lake, collected, monkeypatch):
    """It is an upsert, which counts the rows that it replaces. The join decides only where the upsert cannot."""
    options = {"bucket": 2, "write.collect-rows": collected, "write.driver-statement-size": 0}
    table = spark_lake.create_table("d.t", "id BIGINT, v BIGINT", primary_key=["id"], options=options)
    random, rows, joins, run = np.random.default_rng(7), {}, [], by_key.run
    monkeypatch.setattr(by_key, "run", lambda statement: joins.append(statement) or run(statement))

    def merged(keys, on: str = "s.key = t.id", more: str = "v") -> tuple[int, int]:
        given = pa.table({"key": keys, "v": random.integers(0, 99, len(keys))})
        source = spark.createDataFrame(given, "key BIGINT, v BIGINT")  # Connect infers no types of an empty table
        values = {"id": "s.key", "v": f"s.{more} * 2 + 1"}
        merge = table.merge(source, on).when_matched_update({"v": values["v"]}).when_not_matched_insert(values)
        known, given = {*rows}, {row["key"]: row["v"] * 2 + 1 for row in source.toArrow().to_pylist()}
        report = merge.execute()
        rows.update(given)
        assert (report.inserted, report.updated) == (len({*given} - known), len({*given} & known))
        assert dict(zip(*table.scan().to_arrow().select(["id", "v"]).to_pydict().values(), strict=True)) == rows
        return report.inserted, report.updated

    for count in (40, 30, 50, 1):
        merged(random.choice(100, count, replace=False))
    table.delete("id % 3 = 0")
    rows = {key: value for key, value in rows.items() if key % 3}
    joins.clear()
    merged(np.arange(90, 120))
    assert merged(np.arange(0)) == (0, 0)
    assert joins == []
    publish, left = frame_writer.upsert, [1]

    def overtaken(*args, **named):
        if left:
            left.pop()
            lake.table("d.t").upsert([{"id": 8000, "v": 1}])
        return publish(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(frame_writer, "upsert", overtaken)
        rows[8000] = 1
        assert merged(np.array([8000, 8001])) == (1, 1), "another commit has inserted a key meanwhile"
    assert joins == []
    whole = "EXPLAIN MERGE INTO d.t USING given s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    given = spark.createDataFrame(pa.table({"id": [1], "v": [2]}))
    lines = spark_lake.sql(whole, tables={"given": given}).to_arrow()["plan"].to_pylist()
    assert "  rows      found by the writer, as in an upsert of the source" in lines and "Join" not in "".join(lines)
    merged(np.arange(5), on="t.id = s.key AND t.id < 1000")
    lake.table("d.t").upsert([{"id": 1, "v": 5}], compact=False)
    rows[1] = 5
    merged(np.arange(4))
    assert len(joins) == 2, "by a further condition, and by rows at level 0 that the upsert could not count"
    table.compact(full=True)
    before = table.snapshots().num_rows
    for again in (2, 7000):  # a key of the table, and a new key, where the rows have no order
        source = spark.createDataFrame(pa.table({"key": [3, again, again], "v": [1, 2, 3]}))
        merge = table.merge(source, "t.id = s.key").when_matched_update({"v": "s.v"})
        with pytest.raises(InvalidData, match=r"several source rows match one row|rows of one key differ"):
            merge.when_not_matched_insert({"id": "s.key", "v": "s.v"}).execute()
    assert table.snapshots().num_rows == before and len(joins) == 4
    assert table.verify() == [] and unreferenced(table) == []


@pytest.mark.parametrize(
    ("condition", "expected"), [("s.id > 1", "can name no column of the source"), ("v = 'a'", None), ("t.v = 'a'", None)]
)
def test_a_clause_for_rows_of_the_target_alone_names_its_columns_only(spark_lake, lake, condition: str, expected: str | None):
    for number, engine in enumerate((lake, spark_lake)):
        engine.sql(f"CREATE TABLE d.t{number} (id INT, v STRING, PRIMARY KEY (id))")
        engine.sql(f"INSERT INTO d.t{number} VALUES (1, 'a'), (2, 'b')")
        text = f"MERGE INTO d.t{number} AS t USING (SELECT 9 AS id, 'a' AS v) AS s ON t.id = s.id "
        text += f"WHEN NOT MATCHED BY SOURCE AND {condition} THEN DELETE"
        if expected is None:
            engine.sql(text)
            assert lake.table(f"d.t{number}").scan().to_arrow().column("id").to_pylist() == [2]
        else:
            with pytest.raises(InvalidQuery, match=expected if number else "unknown column"):
                engine.sql(text)


@pytest.mark.parametrize("kind", ["vectors", pytest.param("key", marks=pytest.mark.connect(short="connect"))])
def test_a_merge_reads_only_files_that_can_match(spark, spark_lake, lake, kind, monkeypatch):
    """By the values of the source, or by their bounds if they are many. The source is evaluated once."""
    how = {"primary_key": ["id"], "options": {"write-only": "true"}} if kind == "key" else {}
    small = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=500)), spark_lake.runtime)
    small.create_table("d.t", DDL, **how)
    for first in range(0, 500, 100):
        write = lake.table("d.t").upsert if kind == "key" else lake.table("d.t").append
        write([{"id": n, "k": 1, "v": n, "s.1": f"a{n}"} for n in range(first, first + 100)])
    table, planned, made = small.table("d.t"), [], sides.plan

    def noted(version: Version, predicate: Predicate | None = None) -> Plan:
        planned.append(made(version, predicate))
        return planned[-1]

    monkeypatch.setattr(sides, "plan", noted)
    source = spark.range(150, 351, 200).selectExpr("cast(id as int) id", "cast(rand() * 1e9 as long) a").selectExpr("*", "a b")
    for listed in (10_000, 1):
        monkeypatch.setattr(changeable, "_LISTED", listed)
        merge = table.merge(source, "t.id = s.id").when_matched_update({"v": "s.a - s.b"})
        report = merge.when_not_matched_insert({"id": "s.id"}).execute()
        assert (report.inserted, report.updated) == (0, 2)
        everything, candidate_files = (one.files for one in planned[-2:])
        assert candidate_files == 2 if listed > 1 else 2 < candidate_files < everything
    assert table.scan(where="v = 0 and id > 0").count() == 2
    assert table.verify() == []


@pytest.mark.parametrize("kind", ["append-only", "key"])
def test_reads_and_statements_open_only_files_that_indexes_leave(spark, spark_lake, lake, tmp_path, kind):
    """The other files are gone. Manifests are read by tasks; no statement is small enough for the driver."""
    options = {
        "file-index.bloom-filter.columns": "id",
        "file-index.bitmap.columns": "k",
        "file-index.in-manifest-threshold": "400 b",
    }
    how = (
        {"primary_key": ["id"], "options": options | {"write-only": "true", "bucket": 1}}
        if kind == "key"
        else {"options": options}
    )
    lake.create_table("d.t", DDL, **how)
    write_to = lake.table("d.t").upsert if kind == "key" else lake.table("d.t").append
    for first in range(8):
        write_to([{"id": n, "k": first // 2, "v": n, "s.1": "x"} for n in range(first, 400, 8)])
    limits = Limits(driver_statement_bytes=500, driver_plan_entries=4)
    table = Lake(replace(spark_lake.env, limits=limits), spark_lake.runtime).table("d.t")
    read = table.scan(where="id IN (16, 123)").plan()
    kept = {file.name for split in read.splits for file in (*split.files, *split.level0)}
    assert len(kept) == 2 and read.pruned[-1] == ("indexes", 2)
    if kind == "append-only":
        assert table.scan(where="k > 2").plan().files == 2 and table.scan(where="k = 0 AND id = 16").plan().files == 1
    for path in (tmp_path / "warehouse").rglob("data-*.parquet"):
        if path.name not in kept:
            path.unlink()
    assert table.scan(where="id IN (16, 123)").to_spark().count() == 2
    source = spark.createDataFrame([(16, -1), (123, -2)], "id INT, v BIGINT")
    merge = table.merge(source, "t.id = s.id").when_matched_update({"v": "s.v"}).when_not_matched_insert({"id": "s.id", "k": "9"})
    assert (report := merge.execute()).updated == 2 and report.inserted == 0
    assert table.update({"v": "v * 10"}, where="id IN (16, 123)").updated == 2
    found = table.scan(where="id IN (16, 123)", columns=["id", "v"]).to_spark()
    assert sorted(map(tuple, found.collect())) == [(16, -10), (123, -20)]


def test_what_the_merge_engine_would_undo_is_refused(spark, spark_lake, lake):
    small = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=1)), spark_lake.runtime)
    for name, option in (("d.k", {"ignore-delete": "true"}), ("d.o", {"sequence.field": "k"})):
        lake.create_table(name, DDL, primary_key=["id"], options=option).upsert([{"id": 1, "k": 5, "v": 1, "s.1": "a"}])
    with pytest.raises(InvalidQuery, match="the table ignores deletes"):
        small.table("d.k").delete("v = 1")
    table = small.table("d.o")
    for value in ("k - 1", "NULL"):
        with pytest.raises(InvalidData, match="cannot make a row older"):
            table.update({"k": value}, "v = 1")
    assert table.update({"k": "k + 1"}, "v = 1").updated == 1
    assert table.snapshots().num_rows == 2 and unreferenced(table) == []
