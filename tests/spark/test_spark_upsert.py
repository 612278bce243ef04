"""An upsert of a DataFrame gives the same table as an upsert of the same rows without Spark."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_support import same
from strategies import KEYS, Shape

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidData
from lsmlake.spark.frame_types import to_spark
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, v BIGINT, s STRING"


def level0(table: lsmlake.Table) -> int:
    return table.files()["level"].to_pylist().count(0)


# --- which row wins ---


@pytest.mark.connect
def test_the_last_of_many_rows_of_a_key_wins_in_any_partition(spark, spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, primary_key=["id"], options={"bucket": 3})
    frame = spark.range(0, 5_000, 1, 7).selectExpr("id % 100 AS id", "id AS v", "'first' AS s")
    with pytest.raises(InvalidData, match=r"rows of one key differ.*different input partitions.*order_by.*sequence.field.*ANY"):
        table.upsert(frame)
    snapshot = table.upsert(frame, order_by="v")
    assert (snapshot.delta_rows, snapshot.total_rows) == (100, 100)
    same(table.scan(columns=["id", "v"]).to_arrow(), pa.table({"id": range(100), "v": range(4_900, 5_000)}))
    newer = spark.range(10, 0, -1, 3).selectExpr("10 - id AS id", "-id AS v", "'b' AS s")
    table.upsert(newer.unionByName(newer.selectExpr("id", "0L AS v", "'c' AS s").where("id < 5")), order_by="s")
    expected = [*((i, 0, "c") for i in range(5)), *((i, i - 10, "b") for i in range(5, 10))]
    same(table.scan(where="id < 10").to_arrow(), expected)


def kinds_frame(spark, rows: list[tuple], buckets: int = 4):
    """(id, v, kind, place) rows over several partitions; `place` is their order."""
    columns = zip(*[(place, *row) for place, row in enumerate(rows)], strict=True)
    data = pa.table(dict(zip(("place", "id", "v", "op"), columns, strict=True)))
    return spark.createDataFrame(data).repartitionByRange(buckets, "place").sortWithinPartitions("place")


CHANGES = [
    (1, 10, "+I"), (2, 20, "+I"), (3, 30, "+I"), (1, 10, "-U"), (1, 11, "+U"), (2, 20, "-D"), (4, 40, "+I"), (3, 30, "-D"),
    (3, 33, "+I"), (5, 50, "+I"), (5, 50, "-U"), (6, 0, "-D"), (4, 41, "+U"),
]  # fmt: skip


def test_row_kinds_of_a_column_that_is_not_stored(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})
    table.upsert(spark.createDataFrame(pa.table({"id": [2, 5, 6, 7], "v": [0, 0, 0, 0]})))
    table.upsert(kinds_frame(spark, CHANGES), row_kind="op", order_by="place")
    same(table.scan().to_arrow(), [(1, 11), (3, 33), (4, 41), (7, 0)])


@pytest.mark.parametrize(
    ("option", "live"),
    [
        (None, {1: 11, 3: 33, 4: 41, 7: 0}),
        ("ignore-delete", {1: 11, 2: 20, 3: 33, 4: 41, 5: 50, 6: 0, 7: 0}),
        ("ignore-update-before", {1: 11, 3: 33, 4: 41, 5: 50, 7: 0}),
    ],
)
def test_row_kinds_of_a_column_of_the_table(spark, spark_lake, option, live):
    options = {"bucket": 2, "rowkind.field": "op", **({option: True} if option else {})}
    schema = "id BIGINT NOT NULL, v BIGINT, op STRING"
    table = spark_lake.create_table("d.t", schema, primary_key=["id"], options=options)
    table.upsert(spark.createDataFrame(pa.table({"id": [2, 5, 6, 7], "v": [0, 0, 0, 0], "op": ["+I"] * 4})))
    table.upsert(kinds_frame(spark, CHANGES), order_by="place")
    same(table.scan(columns=["id", "v"]).to_arrow(), sorted(live.items(), key=repr))


@pytest.mark.connect
def test_keys_are_deleted_without_the_rest_of_the_row(spark, spark_lake):
    table = spark_lake.create_table(
        "d.t", "p STRING, id BIGINT NOT NULL, v BIGINT", primary_key=["p", "id"], partition_by=["p"], options={"bucket": 2}
    )
    table.upsert(spark.range(100).selectExpr("concat('p', id % 3) AS p", "id", "id AS v"))
    gone = table.delete_keys(spark.range(50, 200).selectExpr("id", "concat('p', id % 3) AS p"))
    assert gone.total_rows == 50 and table.scan().count() == 50
    table.delete_keys(spark.range(10).selectExpr("id", "'p0' AS p"), compact=False)
    expected = [(f"p{i % 3}", i, i) for i in range(50) if not (i < 10 and i % 3 == 0)]
    same(table.scan().to_arrow(), sorted(expected, key=repr))
    same(table.df(), table.scan().to_arrow())
    assert table.verify() == []


# --- when it commits ---


@pytest.mark.connect
def test_nothing_to_write_makes_no_commit(spark, spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, primary_key=["id"])
    assert table.upsert(spark.range(10).selectExpr("id", "id AS v", "'' AS s").where("id < 0")) is None
    assert table.delete_keys(spark.range(0)) is None
    assert table.snapshots().num_rows == 0


@pytest.mark.connect
def test_a_commit_of_a_writer_takes_place_once(spark, spark_lake):
    table = spark_lake.create_table("d.t", SCHEMA, primary_key=["id"])
    frame = spark.range(10).selectExpr("id", "id AS v", "'' AS s")
    first = table.upsert(frame, writer_id="job", commit_id=7)
    assert table.upsert(frame.limit(1), writer_id="job", commit_id=7).id == first.id
    assert table.upsert(frame, writer_id="job", commit_id=9).id == first.id + 1
    with pytest.raises(InvalidData, match="less than its last one"):
        table.upsert(frame, writer_id="job", commit_id=8)
    assert table.upsert(frame, writer_id="other", commit_id=0).id == first.id + 2
    assert table.snapshots()["delta_record_count"].to_pylist() == [10, 10, 10]


def test_compaction_at_once_is_up_to_the_table_and_the_call(spark, spark_lake):
    frame = spark.range(10).selectExpr("id", "id AS v", "'' AS s")
    for write_only, compact, waiting in (
        (False, None, False), (False, False, True), (True, None, True), (True, True, False), (True, False, True),
    ):  # fmt: skip
        name = f"d.t{write_only}{compact}"
        table = spark_lake.create_table(name, SCHEMA, primary_key=["id"], options={"write-only": write_only})
        table.upsert(frame, compact=compact)
        assert bool(level0(table)) is waiting


@pytest.mark.connect
def test_columns_go_by_name_and_nulls_may_be_untyped(spark, spark_lake):
    schema = "id BIGINT NOT NULL, v BIGINT, st STRUCT<a: INT, b: STRING>, l ARRAY<INT>"
    table = spark_lake.create_table("d.t", schema, primary_key=["id"])
    table.upsert(spark.range(1).selectExpr("array() AS l", "null AS v", "named_struct('b', 'x', 'a', 1S) AS st", "id"))
    same(table.scan().to_arrow(), [(0, None, (("a", 1), ("b", "x")), ())])


# --- the same bucket, whoever writes ---

WIDER = {"TINYINT": pa.int64(), "SMALLINT": pa.int32(), "INT": pa.int64(), "BIGINT": pa.int64(), "FLOAT": pa.float64()}
"""Types that data may come in though the column is narrower."""


def keyed(shape: Shape, schema: pa.Schema, codes: range) -> pa.Table:
    found = {}
    for code in codes:
        row = shape.row(code, code, code)
        found[shape.key_of(shape.stored(row))] = row
    return shape.table(list(found.values()), schema)


@pytest.mark.parametrize("key", list(KEYS))
def test_rows_of_spark_and_of_none_meet_in_one_bucket(spark, spark_lake, lake, key):
    shape = Shape.of(key)
    table = shape.create(spark_lake, bucket=5)
    data = keyed(shape, table.schema, range(60))
    arriving = data
    for name in shape.key:
        if wider := WIDER.get(shape.kind(name).ddl):
            at = arriving.schema.get_field_index(name)
            arriving = arriving.set_column(at, name, arriving[name].cast(wider))
    lake.table("d.t").upsert(arriving.slice(0, 40))
    table.upsert(spark.createDataFrame(arriving.slice(20), to_spark(arriving.schema)))
    assert table.verify() == []
    assert table.scan().count() == data.num_rows
    lake.table("d.t").delete_keys(arriving.select(shape.key))
    assert table.scan().count() == 0


def test_numbers_in_other_decimals_meet_in_one_bucket(spark, spark_lake, lake):
    table = spark_lake.create_table("d.t", "id DECIMAL(10,2) NOT NULL, v INT", primary_key=["id"], options={"bucket": 8})
    numbers = [Decimal(i) for i in range(-20, 20)]
    plain = pa.table({"id": pa.array(numbers, pa.decimal128(10, 2)), "v": pa.array([0] * 40, pa.int32())})
    table.upsert(spark.createDataFrame(plain))
    table.upsert(spark.range(-20, 20).selectExpr("CAST(id AS INT) AS id", "1 AS v"))
    table.upsert(spark.range(-20, 20).selectExpr("CAST(id AS DECIMAL(38,5)) AS id", "2 AS v"))
    lake.table("d.t").upsert(pa.table({"id": pa.array(range(-20, 0)), "v": [3] * 20}))
    assert table.verify() == []
    same(table.scan(columns=["v"]).to_arrow(), sorted([(2,)] * 20 + [(3,)] * 20))


def test_a_negative_zero_is_the_key_zero(spark, spark_lake, lake):
    for ddl, type_ in (("FLOAT", pa.float32()), ("DOUBLE", pa.float64())):
        table = spark_lake.create_table(f"d.{ddl}", f"id {ddl} NOT NULL, v INT", primary_key=["id"], options={"bucket": 7})
        for value, v in ((-0.0, 1), (0.0, 2), (-0.0, 3)):
            table.upsert(spark.createDataFrame(pa.table({"id": pa.array([value], type_), "v": pa.array([v], pa.int32())})))
        assert repr(table.scan().to_arrow().to_pylist()) == "[{'id': 0.0, 'v': 3}]"
        assert table.verify() == []


def test_the_bucket_key_alone_chooses_the_bucket(spark, spark_lake, lake):
    options = {"bucket": 4, "bucket-key": "b"}
    schema = "a INT NOT NULL, b STRING NOT NULL, v INT"
    table = spark_lake.create_table("d.t", schema, primary_key=["a", "b"], options=options)
    table.upsert(spark.range(100).selectExpr("CAST(id AS INT) AS a", "concat('b', id % 3) AS b", "1 AS v"))
    lake.table("d.t").upsert(pa.table({"a": range(50), "b": [f"b{i % 3}" for i in range(50)], "v": [2] * 50}))
    assert table.verify() == []
    assert table.scan().count() == 100 and table.scan(where="v = 2").count() == 50
    assert len(table.states()) <= 3


# --- conversion, columns left out, erasure ---


@pytest.mark.connect
@pytest.mark.parametrize("collected", [True, False])
def test_cast_converts_in_the_zone_of_the_session(spark, spark_lake, collected):
    schema = "id BIGINT NOT NULL, day DATE, at TIMESTAMP, amount DECIMAL(10,2), l ARRAY<STRUCT<x INT>>"
    options = {"bucket": 3, "write.collect-rows": 250_000 if collected else 0}
    table = spark_lake.create_table("d.t", schema, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.upsert(spark.sql("SELECT 500L AS id, DATE'2026-01-02' AS day, null AS at, null AS amount, null AS l"))
    text = spark.range(0, 300, 1, 3).selectExpr(
        "concat(id % 100, if(id < 100, '.0', '')) AS id",
        "if(id % 2 = 0, '2026-01-02', '2026-01-02 00:00:00') AS day",
        "'2026-01-02 12:00:00' AS at",
        "cast(id / 10 AS DOUBLE) AS amount",
        "array(named_struct('x', cast(id AS STRING))) AS l",
    )
    with pytest.raises(InvalidData, match=r"column 'id': type does not fit.*cast=True"):
        table.upsert(text)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table.upsert(text, cast=True, order_by="amount")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert table.scan().count() == 101
    found = table.scan(where="id = 7").to_arrow().to_pylist()
    assert [(row["at"].hour, row["amount"], row["l"]) for row in found] == [(17, Decimal("20.70"), [{"x": 207}])]
    assert table.scan(where="id IN (1, 2, 3)").count() == 3, "rows lie in the buckets of their keys"
    assert table.verify() == []
    with pytest.raises(InvalidData, match=r"column 'amount'.*DECIMAL\(10,2\).*'7.125'"):
        table.upsert(text.selectExpr("id", "day", "at", "if(id = '77', '7.125', '1') AS amount", "l"), cast=True)
    with pytest.raises(InvalidData, match="column 'l': type does not fit"):
        table.upsert(text.selectExpr("id", "day", "at", "amount", "'[]' AS l"), cast=True)
    assert table.snapshots().num_rows == 2


@pytest.mark.parametrize("collected", [True, False])
def test_columns_left_out_and_erasure(spark, spark_lake, collected):
    options = {"merge-engine": "partial-update", "sequence.field": "n", "write.collect-rows": 250_000 if collected else 0}
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, n INT, a INT, b INT", primary_key=["id"], options=options)
    table.upsert(spark.range(100).selectExpr("id", "9 AS n", "1 AS a"))
    table.upsert(spark.range(50).selectExpr("id", "10 AS n", "2 AS b"))
    same(table.scan(where="id IN (1, 70)").to_arrow(), [(1, 10, 1, 2), (70, 9, 1, None)])
    table.alter(lsmlake.set_option("partial-update.remove-record-on-delete", True))
    with pytest.raises(InvalidData, match=r"lacks the sequence.*ignore_sequence=True"):
        table.delete_keys(spark.range(10))
    table.delete_keys(spark.range(10), ignore_sequence=True)
    table.upsert(spark.range(5, 7).selectExpr("id", "1 AS n", "3 AS b"))
    assert table.scan().count() == 92
    same(table.scan(where="id < 10").to_arrow(), [(5, 1, None, 3), (6, 1, None, 3)])


def test_tasks_obey_the_limits_of_the_environment(spark, spark_lake, tmp_path):
    lake = Lake(replace(spark_lake.env, limits=Limits(row_group_rows=10, window_bytes=1_000)), spark_lake.runtime)
    options = {"bucket": 2, "file.block-size": "200 b", "write.collect-rows": 0}
    table = lake.create_table("d.limited", "id BIGINT, v BIGINT", primary_key=["id"], options=options)
    table.upsert(spark.range(400).selectExpr("id", "id as v"), compact=False)
    table.upsert(spark.range(400).selectExpr("id", "-id as v"))
    table.compact(full=True)
    paths = [Path(lake.env.storage.place(path)) for path in table.files()["file_path"].to_pylist()]
    assert all(pq.read_metadata(path).num_row_groups > 10 for path in paths)
    assert table.df().where("v > 0").count() == 0
