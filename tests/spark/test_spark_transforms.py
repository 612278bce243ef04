"""Partition transforms on Spark: its tasks put rows where this process puts them, and its reads skip the same files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spark_support import configured, same

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark

FIELDS = ["days(ts)", "bucket(4, id)", "truncate(2, code)", "months(n)", "bucket(3, amount)"]
COLUMNS = "id BIGINT, ts TIMESTAMP, code STRING, n TIMESTAMP_NTZ, amount DECIMAL(9,2), v INT"
SOURCES = ["id", "ts", "code", "n", "amount"]
ROWS = """id, timestamp_seconds(id * 40000 - 400000) ts, concat(char(97 + id % 3), 'äß', id % 7) code,
    timestampadd(DAY, cast(id as int), TIMESTAMP_NTZ '1969-11-20 00:00:00') n, cast(id / 7 - 2 as decimal(9,2)) amount,
    cast(id as int) v"""


def by_partition(table) -> dict[str, int]:
    found = table.partitions()
    return dict(zip(found["partition"].to_pylist(), found["record_count"].to_pylist(), strict=True))


@pytest.mark.parametrize("key", [[], SOURCES], ids=["append-only", "primary key"])
def test_tasks_and_this_process_route_rows_alike(spark, lake, spark_lake, key):
    write = "upsert" if key else "append"
    options = {"bucket": 2} if key else {}
    frame = spark.sql(f"SELECT {ROWS} FROM range(24)")
    if not key:
        frame = frame.union(spark.sql("SELECT NULL, NULL, NULL, NULL, NULL, -1"))
    rows = frame.toArrow()
    for name in ("here", "tasks"):
        lake.create_table(f"d.{name}", COLUMNS, primary_key=key, partition_by=FIELDS, options=options)
    getattr(lake.table("d.here"), write)(rows)
    table = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=500)), spark_lake.runtime).table("d.tasks")
    with configured(spark, spark__sql__session__timeZone="America/New_York"):  # the first write of a table is one of tasks
        getattr(table, write)(frame)
    assert by_partition(table) == by_partition(lake.table("d.here"))
    assert table.verify() == []
    where = "ts < '1970-01-01' AND id IN (1, 2, 3)"
    steps = dict(table.scan(where=where).plan().pruned)
    assert steps["keys"] <= 10 < steps["snapshot"], "ten rows are older than 1970"
    same(table.scan(where=where).to_spark(), lake.table("d.here").scan(where=where).to_arrow())
    same(table.df().where("code LIKE 'bä%'"), lake.table("d.here").scan(where="code LIKE 'bä%'").to_arrow())
    for one in (table, lake.table("d.here")):
        one.update({"v": "v + 100"}, where="id = 5 OR code IS NULL")
        one.delete(where="ts >= '1970-01-01' AND ts < '1970-01-02'")
    same(table.df(), lake.table("d.here").scan().to_arrow())
    assert by_partition(table) == by_partition(lake.table("d.here"))


def run(table, stream, folder) -> None:
    table.write_stream(stream, checkpoint=str(folder / "c"), trigger={"availableNow": True}).awaitTermination()


def test_a_stream_follows_the_partitions_of_its_table(spark, lake, spark_lake, tmp_path):
    table = lake.create_table("d.t", "id BIGINT, ts TIMESTAMP", partition_by=["days(ts)"])
    frame = spark.sql("SELECT id, timestamp_seconds(id * 40000) ts FROM range(6)")
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    spark_lake.table("d.t").write_stream(
        stream, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    ).awaitTermination()
    assert set(by_partition(table)) == {"ts_day=1970-01-01", "ts_day=1970-01-02", "ts_day=1970-01-03"}
    table.alter(lsmlake.replace_partition_field("ts_day", "bucket(2, id)"))
    frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    spark_lake.table("d.t").write_stream(
        stream, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    ).awaitTermination()
    assert {spec for spec, _ in (bucket.partition_key for bucket in table.version.states())} == {0, 1}
    same(spark_lake.table("d.t").df(where="ts < '1970-01-01 20:00:00'"), frame.union(frame).where("id < 2"))
