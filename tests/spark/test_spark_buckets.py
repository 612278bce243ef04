"""Spark gives each row the bucket that a process gives it, whatever the covers of the partitions, and splits buckets in tasks."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from naive import naive

import lsmlake
from lsmlake.commit.request import Identity
from lsmlake.compact.reshape import reshape
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.cover import Share
from lsmlake.lsm.pick.reshaping import Reshaping
from lsmlake.spark import first_load, frame_writer
from lsmlake.spark.learned import Learned
from lsmlake.write.write_request import WriteRequest

pytestmark = pytest.mark.spark


def frame(spark, first: int, last: int, value: int, partitions: str = "'a'"):
    return spark.sql(f"SELECT id AS k, {value}L AS v, {partitions} AS p FROM range({first}, {last}, 1, 3)")


def split(table: lsmlake.Table, share: Share, partition: tuple = ()) -> None:
    steps = [Reshaping((share,), share.parts(2))]
    reshape(table.version, lambda cover, states: steps if cover.has(share) else [], lambda b: b.partition == partition)


def check_places(table: lsmlake.Table) -> None:
    schema = table.version.schema
    for bucket, state in table.states().items():
        for file in state.files:
            with BucketFiles.of(table.version, bucket).open(file) as reader:
                keys = reader.read(range(reader.groups), list(schema.bucket_key))
            assert set(bucket_of([keys[name] for name in schema.bucket_key], state.total_buckets).tolist()) == {bucket.number}
    assert table.verify() == []


@pytest.mark.connect(short="classic")
def test_one_cover_with_several_totals(spark, spark_lake):
    spark_lake.create_database("d", if_not_exists=True)
    table = spark_lake.create_table("d.t", "k BIGINT, v BIGINT, p STRING", primary_key=["k"], options={"bucket": 2})
    table.upsert(frame(spark, 0, 1000, 1))
    split(table, Share(1, 2))
    split(table, Share(3, 4))
    table.upsert(frame(spark, 500, 1500, 2))
    assert {s.total_buckets for s in table.states().values()} == {2, 4, 8}
    assert {row["k"]: row["v"] for row in table.scan().to_pylist()} == {k: 1 + (k >= 500) for k in range(1500)}
    check_places(table)


@pytest.mark.connect(short="classic")
@pytest.mark.parametrize("partition_by", ["p", "days(at)"])
def test_partitions_with_covers_of_their_own(spark, spark_lake, partition_by):
    spark_lake.create_database("d", if_not_exists=True)
    table = spark_lake.create_table(
        "d.t",
        "k BIGINT, v BIGINT, p STRING, at TIMESTAMP",
        primary_key=["k", "p", "at"],
        partition_by=[partition_by],
        options={"bucket": 2},
    )
    columns = "CASE WHEN id % 3 = 0 THEN 'a' WHEN id % 3 = 1 THEN 'b' ELSE 'c' END"
    day = "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, id % 3)"

    def rows(first: int, last: int, value: int):
        return spark.sql(f"SELECT id AS k, {value}L AS v, {columns} AS p, {day} AS at FROM range({first}, {last}, 1, 3)")

    table.upsert(rows(0, 900, 1))
    first, second = list({bucket.partition: None for bucket in table.states()})[:2]
    split(table, Share(1, 2), first)
    date = "" if partition_by == "p" else dt.date(1970, 1, 1) + dt.timedelta(second[0])
    where = f"p = '{second[0]}'" if partition_by == "p" else f"at = timestamp'{date} 00:00:00'"
    table.rescale(5, where=where)
    table.upsert(rows(300, 1200, 2))
    totals = {bucket.partition: set() for bucket in table.states()}
    for bucket, state in table.states().items():
        totals[bucket.partition].add(state.total_buckets)
    assert sorted(totals.values(), key=sorted) == [{2}, {2, 4}, {5}]
    assert {row["k"]: row["v"] for row in table.scan().to_pylist()} == {k: 1 + (k >= 300) for k in range(1200)}
    check_places(table)


@pytest.mark.parametrize("small", [True, False])
def test_a_batch_for_buckets_that_were_split_meanwhile(spark, spark_lake, small):
    """Divided on the driver, or in tasks."""
    spark_lake.create_database("d", if_not_exists=True)
    table = spark_lake.create_table("d.t", "k BIGINT, v BIGINT, p STRING", primary_key=["k"], options={"bucket": 1})
    table.upsert(frame(spark, 0, 1000, 1))
    late = table.version
    if not small:
        limits = replace(late.meta.env.limits, driver_merge_bytes=0)
        late = replace(late, meta=late.meta.__class__.of(replace(late.meta.env, limits=limits), late.meta.paths))
    table.rescale(12)
    frame_writer.upsert(late, frame(spark, 500, 1500, 2), WriteRequest(Identity("w")), Learned())
    assert {row["k"]: row["v"] for row in table.scan().to_pylist()} == {k: 1 + (k >= 500) for k in range(1500)}
    assert {s.total_buckets for s in table.states().values()} == {12}
    check_places(table)
    assert naive(table).unreferenced() == []


def test_buckets_are_split_by_tasks(spark, spark_lake):
    spark_lake.create_database("d", if_not_exists=True)
    made = spark_lake.create_table("d.t", "k BIGINT, v BIGINT, p STRING", primary_key=["k"])
    made.upsert(pa.table({"k": np.arange(5000), "v": np.arange(5000), "p": ["x"] * 5000}))
    limits = replace(made.meta.env.limits, driver_merge_bytes=0)
    table = replace(made, meta=made.meta.__class__.of(replace(made.meta.env, limits=limits), made.meta.paths))
    for number in (12, 3, 1, 4):
        table.rescale(number)
        assert {s.total_buckets for s in made.states().values()} == {number}
        assert made.count() == 5000
        check_places(made)


@pytest.mark.connect(short="classic")
@pytest.mark.parametrize("verb", ["upsert", "overwrite"])
@pytest.mark.parametrize("small", [True, False])
def test_the_first_rows_of_a_table_go_through_several_tasks(spark, spark_lake, small, verb, monkeypatch):
    """Few of them end in one bucket, as if a process had written them; many stay where the tasks wrote them."""
    monkeypatch.setattr(first_load, "_SMALL_BYTES", 4 << 20 if small else 0)
    spark_lake.create_database("d", if_not_exists=True)
    options = {"changelog-producer": "lookup"} if verb == "upsert" else {}
    table = spark_lake.create_table("d.t", "k BIGINT, v BIGINT, p STRING", primary_key=["k"], options=options)
    getattr(table, verb)(frame(spark, 0, 3000, 1).unionAll(frame(spark, 0, 10, 1)))
    totals = {state.total_buckets for state in table.states().values()}
    assert totals == {1} if small else max(totals) > 1
    assert all(file.level > 0 for state in table.states().values() for file in state.files)
    assert table.version.snapshot.delta_rows == table.count() == 3000
    if verb == "upsert":
        assert table.changes(0, 1, mode="changelog").to_arrow()["_row_kind"].to_pylist() == ["+I"] * 3000
    check_places(table)
    assert naive(table).unreferenced() == []


@pytest.mark.connect(short="classic")
def test_the_first_rows_of_a_large_partition_go_through_several_tasks(spark, spark_lake, monkeypatch):
    monkeypatch.setattr(first_load, "_TASK_ROWS", 1000)
    spark_lake.create_database("d", if_not_exists=True)
    options = {"write.collect-rows": 0}
    table = spark_lake.create_table(
        "d.t", "k BIGINT, v BIGINT, p STRING", primary_key=["k", "p"], partition_by=["p"], options=options
    )

    def divided() -> dict[str, bool]:
        return {bucket.partition[0]: state.total_buckets > 1 for bucket, state in table.states().items()}

    table.upsert(frame(spark, 0, 3000, 1, "if(id < 2900, 'a', 'b')").unionAll(frame(spark, 0, 10, 1)))
    assert divided() == {"a": True, "b": False}
    table.upsert(frame(spark, 2950, 9000, 2, "if(id < 5000, 'b', 'c')"))
    assert divided() == {"a": True, "b": False, "c": True}
    assert {row["k"]: row["v"] for row in table.scan().to_pylist()} == {k: 1 + (k >= 2950) for k in range(9000)}
    table.overwrite(frame(spark, 2950, 6000, 3, "'b'"))
    assert divided()["b"]
    check_places(table)
    assert naive(table).unreferenced() == []
