"""Writes of DataFrames to tables whose keys move between partitions: tasks place the rows as the process does."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from naive import unreferenced

import lsmlake
from lsmlake.errors import InvalidData

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

DDL = "id BIGINT, dt STRING, ts TIMESTAMP, v INT, tags ARRAY<STRING>, s STRUCT<a: INT, b: STRING>"
TASKS = {"write.collect-rows": "0", "bucket": "2", "changelog-producer": "lookup"}
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")


def batch(seed: int) -> pa.Table:
    chosen = random.Random(seed)
    ids = chosen.sample(range(60), 40)
    rows = [
        {
            "id": id,
            "dt": chosen.choice([None, "a", "b"]),
            "ts": f"2026-01-0{chosen.randint(1, 3)} 00:00:00",
            "v": chosen.randint(0, 9),
        }
        for id in ids
    ]
    for row in rows:
        row["tags"], row["s"] = [row["dt"] or "none"], {"a": row["v"], "b": None}
    return pa.Table.from_pylist(rows)


def frame_of(spark, rows: pa.Table, parts: int = 3):
    made = spark.createDataFrame(rows.to_pylist(), DDL.replace("TIMESTAMP", "STRING"))
    return made.selectExpr("id", "dt", "timestamp(ts) AS ts", "v", "tags", "s").repartition(parts)


def made(lake, name: str, engine: str = "deduplicate", **options: str) -> lsmlake.Table:
    how = {"primary_key": ["id"], "partition_by": ["dt", "days(ts)"]}
    return lake.create_table(name, DDL, options={"merge-engine": engine, **TASKS, **options}, **how)


def state(table) -> list[tuple]:
    return sorted((tuple(map(repr, row.values())) for row in table.scan().to_pylist()), key=repr)


def changes(table, last: int) -> list[tuple]:
    return sorted((tuple(map(repr, row.values())) for row in table.changes(0, last, mode="changelog").to_pylist()), key=repr)


@pytest.mark.connect(short="classic")
@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_place_rows_as_the_process_does(spark, lake, spark_lake, engine):
    here, there = made(lake, "d.here", engine), made(spark_lake, "d.there", engine)
    for seed in range(3):
        here.upsert(batch(seed), cast=True)
        there.upsert(frame_of(spark, batch(seed)))
    assert state(here) == state(there)
    assert changes(here, 3) == changes(there, 3)
    assert there.verify() == [] and unreferenced(there) == []
    if engine == "deduplicate":
        keys = pa.table({"id": range(0, 90, 3)})
        here.delete_keys(keys)
        there.delete_keys(spark.createDataFrame([(key,) for key in range(0, 90, 3)], "id BIGINT").repartition(2))
        here.overwrite(batch(9), cast=True)
        there.overwrite(frame_of(spark, batch(9)))
        here.upsert(batch(10), cast=True)
        there.upsert(frame_of(spark, batch(10)))
        assert state(here) == state(there)
        assert there.verify() == [] and unreferenced(there) == []


def test_rows_of_a_key_in_two_partitions_of_a_frame_need_an_order(spark, spark_lake):
    table = made(spark_lake, "d.t")
    twice = pa.concat_tables([batch(1), batch(2)])
    with pytest.raises(InvalidData, match="rows of one key differ"):
        table.upsert(frame_of(spark, twice))
    assert table.meta.snapshots.latest_id() is None and unreferenced(table) == []
    table.upsert(frame_of(spark, twice), order_by="v, dt, ts")
    assert table.count() == len({*twice["id"].to_pylist()})
    assert table.verify() == []


def test_another_writer_of_the_same_keys_comes_first(spark, lake, spark_lake, monkeypatch):
    """The rows are placed again, at the version that the other writer left."""
    table, other = made(spark_lake, "d.t"), None
    table.upsert(frame_of(spark, batch(1)))
    other = lake.table("d.t")
    publish, calls = lsmlake.spark.frame_writer.publish, []

    def slow(*args, **how):
        if not calls:
            other.upsert(batch(5), cast=True)
        calls.append(args)
        return publish(*args, **how)

    monkeypatch.setattr("lsmlake.spark.frame_writer.publish", slow)
    table.upsert(frame_of(spark, batch(2)))
    assert len(calls) == 2
    alone = made(lake, "d.alone")
    for seed in (1, 5, 2):
        alone.upsert(batch(seed), cast=True)
    assert state(table) == state(alone)
    assert table.verify() == [] and unreferenced(table) == []


def test_streams_and_the_data_source_place_rows(spark, lake, spark_lake, tmp_path: Path):
    lsmlake.register(spark)
    table, alone = made(spark_lake, "d.t"), made(lake, "d.alone")
    place = table.meta.env.storage.place(table.path)
    frame_of(spark, batch(1)).write.format("lsmlake").mode("append").save(place)
    frame_of(spark, batch(2)).write.format("lsmlake").mode("append").save(place)
    source = tmp_path / "in"
    frame_of(spark, batch(3), 1).write.parquet(str(source))
    stream = spark.readStream.schema(frame_of(spark, batch(3)).schema).parquet(str(source))
    query = table.write_stream(stream, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination(120)
    for seed in (1, 2, 3):
        alone.upsert(batch(seed), cast=True)
    assert state(table) == state(alone)
    found = table.df().where("dt = 'a'").count()
    assert found == table.scan(where="dt = 'a'").count() == len([row for row in table.scan().to_pylist() if row["dt"] == "a"])
    pairs = table.changes(1, 3).to_spark().where("_row_kind IN ('-U', '+U')").groupBy("id").count().collect()
    assert all(row[1] % 2 == 0 for row in pairs)


def test_an_error_of_a_placing_task_is_that_of_the_table(spark, spark_lake):
    table = made(spark_lake, "d.t", "first-row")
    deletes = frame_of(spark, batch(1)).selectExpr("*", "'-D' AS op")
    with pytest.raises(InvalidData, match="first-row does not support deletes"):
        table.upsert(deletes, row_kind="op")
