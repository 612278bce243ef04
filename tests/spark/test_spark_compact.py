"""Compaction on Spark gives the same result as in one process, also with concurrent writers."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from naive import unreferenced
from spark_support import same
from unsorted import shuffle

import lsmlake
from lsmlake.compact.job import CompactionReport

pytestmark = pytest.mark.spark

SCHEMA = "p STRING, id BIGINT NOT NULL, v BIGINT, s STRING"
KEY = {"primary_key": ["p", "id"], "partition_by": ["p"]}


def history(table: lsmlake.Table) -> None:
    """Three partitions, rows at several levels, dead rows, deletes waiting."""
    table.upsert(rows(range(300), 0))
    table.upsert(rows(range(0, 300, 10), 1))
    table.upsert(rows(range(50), 2), compact=False)
    table.delete_keys(rows(range(40, 60), 0).select(["p", "id"]), compact=False)


def rows(ids: range, v: int) -> pa.Table:
    partitions = [[None, "a", "b"][i % 3] for i in ids]
    return pa.table({"p": partitions, "id": list(ids), "v": [v] * len(ids), "s": list(map(str, ids))})


EXPECTED = [
    ([None, "a", "b"][i % 3], i, 2 if i < 40 else 1 if i % 10 == 0 else 0, str(i)) for i in range(300) if not 40 <= i < 60
]


def layout(table: lsmlake.Table) -> list[dict]:
    """What the files are, but for their names and times."""
    wanted = ["partition", "bucket", "level", "record_count", "deleted_record_count", "min_key", "max_key", "max_sequence_number"]
    return table.files().select(wanted).sort_by([(name, "ascending") for name in wanted]).to_pylist()


def comparable(report: CompactionReport) -> CompactionReport:
    return replace(report, bytes=0)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, marks=pytest.mark.connect(short="classic")),
        {"full": True, "where": "p = 'a' or p is null"},
        {"full": True, "buckets": [1]},
    ],
    ids=str,
)
def test_spark_compacts_as_one_process_does(spark_lake, lake, how):
    tables = []
    for name in ("d.alone", "d.spread"):
        lake.create_table(name, SCHEMA, options={"bucket": 2}, **KEY)
        history(lake.table(name))
        tables.append((spark_lake if name == "d.spread" else lake).table(name))
    alone, spread = (table.compact(**how) for table in tables)
    assert comparable(spread) == comparable(alone)
    assert layout(tables[0]) == layout(tables[1])
    for table in tables:
        same(table.scan().to_arrow(), sorted(EXPECTED, key=repr))
        assert table.verify() == [] and unreferenced(table) == []
    same(tables[1].df(), sorted(EXPECTED, key=repr))


def test_spark_reads_changes_and_sorts_files_of_another_system(spark, spark_lake, lake):
    """Their rows are in any order. What one process says of them, Spark says."""
    tables = []
    for name in ("d.alone", "d.spread"):
        table = lake.create_table(name, "id BIGINT NOT NULL, v BIGINT, s STRING", primary_key=["id"], options={"bucket": 2})
        table.upsert({"id": list(range(3000)), "v": [0] * 3000, "s": list(map(str, range(3000)))})
        assert shuffle(table, random.Random(7))
        tables.append((spark_lake if name == "d.spread" else lake).table(name))
    alone, spread = tables
    same(spread.df(), alone.scan().to_arrow())
    same(spread.df(where="id BETWEEN 100 AND 120"), alone.scan(where="id BETWEEN 100 AND 120").to_arrow())
    newer = spark.range(0, 3200, 3).selectExpr("id", "1L AS v", "'new' AS s")
    spread.upsert(newer)
    alone.upsert(newer.toArrow())
    for table in tables:
        table.delete(where="id % 5 = 0 AND v = 0")
        table.update({"s": "concat(s, '!')"}, where="id < 50")
    same(spread.df(), alone.scan().to_arrow())
    assert "IMPORT" in spread.files()["file_source"].to_pylist()
    for table in tables:
        table.compact()
        assert "IMPORT" not in table.files()["file_source"].to_pylist()
        assert table.verify() == [] and unreferenced(table) == []
    same(spread.df(), alone.scan().to_arrow())


def test_what_is_compacted_already_starts_no_commit(spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, options={"bucket": 2}, **KEY)
    assert table.compact() == table.compact(full=True) == CompactionReport()
    history(table)
    table.compact(full=True)
    before = table.snapshots().num_rows
    assert table.compact(full=True) == CompactionReport()
    assert table.snapshots().num_rows == before


def test_compaction_and_writers_do_not_hinder_each_other(spark, spark_lake):
    """A writer that never compacts, one that does, and a compaction in a loop."""
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})
    stop, failures, reports = threading.Event(), [], []

    def compacting() -> None:
        try:
            while not stop.is_set():
                reports.append(table.compact(full=len(reports) % 2 == 0))
        except Exception as failure:
            failures.append(failure)

    def writing(first: int, compact: bool | None) -> None:
        try:
            for v in range(6):
                table.upsert(spark.range(first, first + 400).selectExpr("id", f"{v}L AS v"), compact=compact)
                table.upsert(pa.table({"id": [first + 1_000 + v], "v": [v]}), compact=compact)
        except Exception as failure:
            failures.append(failure)

    writers = [threading.Thread(target=writing, args=args) for args in ((0, False), (200, None))]
    compactor = threading.Thread(target=compacting)
    for thread in (compactor, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    compactor.join()
    assert failures == []
    assert sum(report.buckets for report in reports) > 0
    table.compact()
    found = table.df().toArrow()
    assert found.num_rows == 600 + 12 and len(set(found["id"].to_pylist())) == 612
    assert set(found.filter(pa.compute.less(found["id"], 600))["v"].to_pylist()) == {5}
    same(table.scan().to_arrow(), found)
    assert table.verify() == [] and unreferenced(table) == []


@pytest.mark.connect(short="connect")
def test_a_separate_job_compacts_and_writes_the_changelog(spark_lake):
    """Writers that only write, on Spark and beside it; the job makes level 0 visible and its changelog."""
    options = {"bucket": 2, "write-only": "true", "changelog-producer": "lookup"}
    table = spark_lake.create_table("d.t", SCHEMA, **KEY, options=options)
    history(table)
    assert table.changes(0, mode="changelog").to_spark().count() == 0
    assert table.scan(mode="raw").count() == 0
    table.compact()
    same(table.df(mode="raw"), sorted(EXPECTED, key=repr))
    emitted = table.changes(0, mode="changelog").to_spark()
    assert {row[0] for row in emitted.select("_row_kind").distinct().collect()} == {"+I"}
    same(emitted.drop("_row_kind"), sorted(EXPECTED, key=repr))
    start = table.snapshots().num_rows
    table.upsert(rows(range(10), 9))
    table.compact()
    kinds = table.changes(start, mode="changelog").to_spark().groupBy("_row_kind").count()
    same(kinds, [("+U", 10), ("-U", 10)])
    assert table.verify() == []


def test_altering_a_table_with_data_compacts_it_on_spark_in_the_same_commit(spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, **KEY, options={"bucket": 2})
    history(table)
    last = table.snapshots().num_rows
    for alteration in (
        lsmlake.set_option("deletion-vectors.enabled", False),
        lsmlake.unset_option("deletion-vectors.enabled"),
        lsmlake.set_option("merge-engine", "partial-update"),
    ):
        table.upsert(rows(range(10), 2), compact=False)
        assert table.alter(alteration).id == last + 2
        last += 2
        same(table.df(), sorted(EXPECTED, key=repr))
        same(table.df(mode="raw"), sorted(EXPECTED, key=repr))
    assert table.verify() == []


def test_input_changelog_of_spark_writers_has_every_row(spark, spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, **KEY, options={"bucket": 2, "changelog-producer": "input"})
    given = spark.range(0, 200, 1, 3).selectExpr(
        "if(id % 2 = 0, 'a', null) as p", "id % 40 as id", "id as v", "'s' as s", "if(id % 3 = 0, '-D', '+U') as op"
    )
    table.upsert(given, row_kind="op", order_by="v")
    same(table.changes(0, mode="changelog").to_spark().select("_row_kind", "id", "v"), given.select("op", "id", "v"))


def test_a_maintainer_compacts_on_spark(spark_lake, lake, monkeypatch):
    """Two tables in threads of the maintainer, by tasks of Spark; its health in SQL."""
    for name in ("d.t", "d.s"):
        table = lake.create_table(name, SCHEMA, **KEY, options={"bucket": 2, "write-only": True})
        table.upsert(rows(range(30), 0))
        table.upsert(rows(range(20, 60), 1))
    monkeypatch.setattr("lsmlake.compact.job.together", None)  # buckets are compacted by tasks, not here
    done = spark_lake.maintain(workers=2)
    assert done["error"].null_count == done.num_rows == 2 and set(done["kind"].to_pylist()) == {"compact"}
    health = {row["table_name"]: row["level0_rows"] for row in spark_lake.sql("SELECT * FROM sys.health").collect()}
    assert health == {"d.t": 0, "d.s": 0} and [lake.table(name).count() for name in health] == [60, 60]
    assert unreferenced(lake.table("d.t")) == []
