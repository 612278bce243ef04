"""The driver writes small batches: the same rows as tasks write, in one Spark job; tasks write batches that turn out large."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import count
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import functions as F
from spark_support import configured, same

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.errors import EngineFailed, InvalidData
from lsmlake.spark import collected
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, v BIGINT"
_GROUPS = count()


def made(lake, name: str = "d.t", schema: str = SCHEMA, rows: int = 10, **options: object) -> lsmlake.Table:
    """A table whose last commit brought `rows` rows."""
    options = {"bucket": 3, **{key.replace("_", "-"): value for key, value in options.items()}}
    table = lake.create_table(name, schema, primary_key=["id"], options=options)
    if rows:
        nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in table.df().schema[1:]]
        table.upsert(lake.runtime.spark.range(rows).select("id", *nulls))
    return table


def holds(table: lsmlake.Table, expected: list[tuple], **query: object) -> None:
    same(table.scan(**query).to_arrow(), sorted(expected, key=repr))
    assert table.verify() == []


def tasks_of(spark, work) -> list[list[int]]:
    """Of every job that `work` starts, the tasks of its stages."""
    group, context = f"collected-{next(_GROUPS)}", spark.sparkContext
    context.setJobGroup(group, group)
    try:
        work()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(group))]
    return [[tracker.getStageInfo(stage).numTasks for stage in job.stageIds] for job in jobs]


def collects(spark, table, frame, **how: object) -> bool:
    """Whether the driver takes the batch: one job of one stage, all of whose tasks are the frame's own."""
    return tasks_of(spark, lambda: table.upsert(frame, **how)) == [[frame.rdd.getNumPartitions()]]


def test_a_small_batch_after_a_small_one_is_one_job_without_a_shuffle(spark, spark_lake):
    table = made(spark_lake, rows=0)
    frame = spark.range(0, 100, 1, 3).selectExpr("id", "id * 2 as v")
    assert not collects(spark, table, frame), "nothing is known of an empty table"
    assert collects(spark, table, frame.selectExpr("id", "v + 1 as v"))
    assert collects(spark, table, frame.where("id < 0")), "an empty batch, too"
    table.compact(full=True)
    assert collects(spark, table, frame.selectExpr("id + 50 as id", "v")), "a compaction tells nothing of batches"
    expected = [*((i, 2 * i + 1) for i in range(50)), *((i, 2 * (i - 50)) for i in range(50, 150))]
    holds(table, expected)


@pytest.mark.parametrize("options", [{"write_collect_rows": 0}, {"write_collect_rows": 9}])
def test_nothing_is_collected_if_that_is_switched_off_or_batches_are_large(spark, spark_lake, options):
    options = {key.replace("_", ".", 1): value for key, value in options.items()}
    table = made(spark_lake, **options)
    assert not collects(spark, table, spark.range(5).selectExpr("id", "id as v"))


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_batch_that_turns_out_large_is_written_by_tasks(spark, spark_lake, partitions):
    table = made(spark_lake, **{"write.collect-rows": 50})
    frame = spark.range(0, 5_000, 1, partitions).selectExpr("id", "id as v")
    jobs = tasks_of(spark, lambda: table.upsert(frame))
    assert jobs[0] == [partitions] and len(jobs) > 1
    holds(table, [(i, i) for i in range(5_000)])
    assert table.snapshots()["delta_record_count"].to_pylist()[-1] == 5_000


@pytest.mark.parametrize("rows", [49, 50, 51])
def test_the_limit_is_exact_for_a_single_partition(spark, spark_lake, rows):
    found = collected.rows(spark.range(0, rows, 1, 1), ["id as c0"], 50)
    assert (None if found is None else found["c0"].to_pylist()) == (list(range(rows)) if rows <= 50 else None)


def test_rows_that_come_uneven_are_fetched_in_part_once_and_not_again(spark, spark_lake):
    table = made(spark_lake, **{"write.collect-rows": 90})
    uneven = spark.range(0, 80, 1, 4).where("id >= 60").union(spark.range(100, 160, 1, 1)).selectExpr("id", "id as v")
    assert uneven.rdd.getNumPartitions() == 5
    assert len(tasks_of(spark, lambda: table.upsert(uneven))) > 1, "the fifth partition holds 60 of 80 rows"
    assert tasks_of(spark, lambda: table.upsert(uneven))[0] == [5] and not collects(spark, table, uneven)
    holds(table, [(i, i) for i in (*range(60, 80), *range(100, 160))], where="id >= 10")


def test_many_partitions_bring_a_few_times_the_limit_at_most(spark):
    frame = spark.range(0, 40_000, 1, 40)
    assert collected.rows(frame, ["id as c0"], 1_000) is None
    numbered = frame.selectExpr("id", "monotonically_increasing_id() as o")
    kept = numbered.where("((o & 8589934591) - 1) * (shiftright(o, 33) + 1) < 1000").count()
    assert 1_000 < kept < 6_000


def test_what_the_driver_could_not_fetch_is_written_by_tasks(spark, spark_lake):
    """As beyond spark.driver.maxResultSize, when Spark stops sending."""
    table = made(spark_lake)
    with patch("pyspark.sql.classic.dataframe.DataFrame.toArrow", side_effect=RuntimeError("too large")):
        table.upsert(spark.range(20).selectExpr("id", "id as v"))
    holds(table, [(i, i) for i in range(20)])


def test_an_error_in_the_batch_names_sparks_own_error(spark, spark_lake):
    table = made(spark_lake)
    before = table.snapshots()
    with pytest.raises(EngineFailed, match="DIVIDE_BY_ZERO") as failed:
        table.upsert(spark.range(3).selectExpr("id", "1 div (id - 1) as v"))
    assert isinstance(failed.value.__cause__, ArithmeticException)
    with pytest.raises(InvalidData, match="null"):
        table.upsert(spark.range(3).selectExpr("nullif(id, 1) as id", "id as v"))
    assert table.snapshots() == before
    assert collects(spark, table, spark.range(3).selectExpr("id", "id as v")), "which says nothing of the next"


@pytest.mark.parametrize("rows", [0, 10], ids=["tasks", "driver"])
def test_every_way_of_writing_gives_the_same(spark, spark_lake, rows):
    """Row kinds, deletes by key, repeats of a key, replays, a changelog of the input, level 0 alone."""
    options = {"changelog-producer": "input", "write.collect-rows": 1_000 if rows else 0}
    table = made(spark_lake, rows=10, **options)
    kinds = spark.createDataFrame(pa.table({"id": [1, 2, 2, 3, 30], "v": [1, 2, 3, 4, 5], "op": ["+I", "+I", "+U", "-D", "+I"]}))
    with pytest.raises(InvalidData, match="have passed a shuffle"):
        table.upsert(kinds.repartition(5, "v"), row_kind="op")
    first = table.upsert(kinds, row_kind="op", writer_id="w", commit_id=7, order_by="v")
    assert table.upsert(kinds, row_kind="op", writer_id="w", commit_id=7) == first
    assert first.delta_rows == 4
    table.delete_keys(spark.createDataFrame(pa.table({"id": [5, 6, 600]})))
    table.upsert(spark.range(0, 900, 1, 5).selectExpr("id % 9 + 100 as id", "id as v"), compact=False, order_by="v")
    table.compact()
    expected = [(0, None), (1, 1), (2, 3), (4, None), (7, None), (8, None), (9, None), (30, 5)]
    holds(table, [*expected, *((100 + i, 891 + i) for i in range(9))])
    emitted = table.changes(1, 2, mode="changelog").to_arrow()
    assert sorted(zip(emitted["id"].to_pylist(), emitted["_row_kind"].to_pylist(), strict=True)) == [
        (1, "+I"), (2, "+I"), (2, "+U"), (3, "-D"), (30, "+I"),
    ]  # fmt: skip
    assert table.verify() == []


def test_values_of_every_type_arrive_alike(spark, spark_lake):
    schema = (
        "id BIGINT NOT NULL, b BOOLEAN, d DECIMAL(9, 2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, x BINARY, f FLOAT, s STRING,"
        " a ARRAY<INT>, m MAP<STRING, BIGINT>, r STRUCT<x: INT, `y z`: STRING>"
    )
    frame = spark.sql(
        "select id, id % 2 = 0 as b, cast(id / 4 as decimal(9, 2)) as d,"
        " timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, id) as t,"
        " timestamp_ntz'2026-01-01 00:00:00' as n, date'2026-01-01' + cast(id as int) as day, cast(string(id) as binary) as x,"
        " cast(id as float) as f, if(id % 3 = 0, null, string(id)) as s, array(cast(id as int), null) as a, map('k', id) as m,"
        " named_struct('x', cast(id as int), 'y z', 'q') as r from range(20)"
    )
    with configured(spark, spark__sql__session__timeZone="America/Los_Angeles"):
        tables = [made(spark_lake, f"d.t{limit}", schema, **{"write.collect-rows": limit}) for limit in (0, 1_000)]
        assert [collects(spark, table, frame) for table in tables] == [False, True]
    spread, fetched = (table.scan().to_arrow().sort_by("id") for table in tables)
    assert fetched.equals(spread)
    assert fetched["d"][3].as_py() == Decimal("0.75") and fetched["day"][1].as_py() == dt.date(2026, 1, 2)
    assert pc.sum(fetched["f"]).as_py() == 190


def test_large_rewrites_are_left_to_tasks(spark, spark_lake):
    """A bucket due for a merge beyond the budget has its next batch written by tasks, which merge."""
    small = Lake(replace(spark_lake.env, limits=Limits(driver_merge_bytes=100)), spark_lake.runtime)
    table = made(small, rows=2_000, **{"compaction.tier-runs": 4})
    frame = spark.range(0, 2_000, 1, 2)
    taken = [collects(spark, table, frame.selectExpr("id", f"{n} as v")) for n in range(8)]
    assert taken[0] is True and taken.count(False) >= 1
    assert max(table.files()["level"].to_pylist()) > 0
    holds(table, [(i, 7) for i in range(2_000)])


def test_streams_take_the_short_way_too(spark, spark_lake, tmp_path):
    table = made(spark_lake)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 30).load()
    rows = source.selectExpr("value as id", "value * 3 as v")
    query = table.write_stream(rows, checkpoint=str(tmp_path / "checkpoint"))
    try:
        while len(table.snapshots()) < 5:
            query.processAllAvailable() if query.exception() else query.awaitTermination(0.2)
    finally:
        query.stop()
    found = table.scan().to_arrow().sort_by("id")
    assert found["v"].to_pylist() == [3 * i for i in range(found.num_rows)]
    assert set(table.snapshots()["delta_record_count"].to_pylist()[1:]) == {30}


@pytest.mark.parametrize("key", [["id"], []])
def test_the_driver_writes_few_changes_of_a_statement(spark, spark_lake, key):
    """The files are not small, so Spark evaluates the statement; the changes are, so no task writes."""
    lake = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=0)), spark_lake.runtime)
    options = {"write.collect-rows": 20} | ({"bucket": 2} if key else {})
    table = lake.create_table("d.t", SCHEMA, primary_key=key, options=options)
    write = table.upsert if key else table.append
    write(spark.range(0, 20, 1, 2).selectExpr("id", "0L as v"))
    stages = tasks_of(spark, lambda: table.update({"v": "v + id"}, "id % 5 = 1"))
    assert [len(one) for one in stages] == [1], "one job without a shuffle"
    assert [len(one) for one in tasks_of(spark, lambda: table.delete("id % 5 = 2"))] == [1]
    expected = [(n, n if n % 5 == 1 else 0) for n in range(20) if n % 5 != 2]
    holds(table, expected)
    assert table.update({"v": "v + 1"}).updated == 16
    more = [{"id": n, "v": 0} for n in range(100, 120)]
    for _ in range(2):
        write(more)
        more = [{"id": row["id"] + 20, "v": 0} for row in more]
    report = table.update({"v": "v + 2"})
    assert report.updated == 56, "more than the driver takes: tasks write"
    holds(table, [*((n, v + 3) for n, v in expected), *((n, 2) for n in range(100, 140))])


@pytest.mark.parametrize("key", [["id"], []])
def test_the_driver_fetches_a_small_source_of_a_merge(spark, spark_lake, key):
    lake = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=0)), spark_lake.runtime)
    table = lake.create_table("d.t", SCHEMA, primary_key=key, options={"bucket": 2} if key else {})
    write, rows = (table.upsert if key else table.append), {n: 0 for n in range(20)}
    write(spark.range(0, 20, 1, 2).selectExpr("id", "0L as v"))
    evaluated = spark.sparkContext.accumulator(0)

    def source(numbers: list[int | None]):
        frame = spark.createDataFrame(pa.table({"id": pa.array(numbers, pa.int64())}))
        return frame.mapInArrow(
            lambda batches: (evaluated.add(batch.num_rows) or batch for batch in batches), "id bigint"
        ).selectExpr("id", "id as v")

    def merge(numbers: list[int | None], on: str = "t.id = s.id"):
        return table.merge(source(numbers), on)

    report = merge([3, 21, 4]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert (report.updated, report.inserted) == (2, 1)
    rows |= {3: 3, 21: 21, 4: 4}
    assert evaluated.value == 3, "the source is evaluated once"
    report = merge([4, 5, 50, None], "t.id = s.id and t.v = 0").when_matched_update({"v": "s.v + 1"}).execute()
    assert (report.updated, report.inserted) == (1, 0)
    rows |= {5: 6}
    assert merge([1, 1, 50]).when_matched_delete().execute().deleted == 1, "repeats are allowed where they change nothing"
    del rows[1]
    with pytest.raises(InvalidData, match="several source rows match one row"):
        merge([2, 2, 60]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert merge([]).when_matched_update_all().when_not_matched_insert_all().execute().snapshot is None
    holds(table, list(rows.items()))
