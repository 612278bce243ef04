"""Rows come to the tasks that write in batches bounded by rows; long rows and rows of Python functions by Spark's own bounds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from spark_support import same

from lsmlake.spark import arrow_batches, frame_writer
from lsmlake.spark.arrow_batches import by_rows, can_bound, short_rows
from lsmlake.spark.frame_plan import runs_python

pytestmark = pytest.mark.spark

BYTES, ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
IN_TASKS = {"bucket": 2, "write.collect-rows": 0}
COLUMNS = "id BIGINT NOT NULL, s STRING, b BINARY, n INT"


def batch_sizes(rows) -> list[int]:
    """The rows of the Arrow batches in which a Python function gets `rows`."""

    def count(batches):
        for batch in batches:
            yield pa.record_batch([[batch.num_rows]], names=["n"])

    return [row.n for row in rows.repartition(1).mapInArrow(count, "n bigint").collect()]


@pytest.fixture
def unmeasured(monkeypatch) -> list[bool]:
    """Whether batches were bounded by rows only, for each write by tasks; True, False for one that found a long row."""
    seen: list[bool] = []
    write = frame_writer._through_tasks
    monkeypatch.setattr(frame_writer, "_through_tasks", lambda one, *args: seen.append(one.by_rows) or write(one, *args))
    return seen


def test_batches_are_bounded_by_rows_inside_of_the_block_only(spark):
    rows = spark.range(20_000)
    with by_rows(spark):
        assert batch_sizes(rows) == [4096, 4096, 4096, 4096, 3616]
    assert batch_sizes(rows) == [10_000, 10_000]
    assert [spark.sparkContext.getLocalProperty(name) for name in (BYTES, ROWS)] == [None, None]


def test_the_bytes_of_a_batch_are_not_measured_inside_of_the_block(spark):
    rows = spark.range(200).selectExpr("id", "repeat('x', 1 << 20) AS s")
    assert len(batch_sizes(rows)) > 1
    with by_rows(spark):
        assert batch_sizes(rows) == [200]


def test_a_limit_that_the_user_has_set_stays(spark, spark_lake, unmeasured):
    table = spark_lake.create_table("d.t", COLUMNS, primary_key=["id"], options=IN_TASKS)
    rows = spark.range(100).selectExpr("id", "'a' AS s", "X'01' AS b", "1 AS n")
    spark.conf.set(ROWS, "500")
    try:
        table.upsert(rows)
    finally:
        spark.conf.unset(ROWS)
    spark.sparkContext.setLocalProperty(ROWS, "500")
    try:
        table.upsert(rows)
        assert spark.sparkContext.getLocalProperty(ROWS) == "500"
    finally:
        spark.sparkContext.setLocalProperty(ROWS, None)
    table.upsert(rows)
    assert unmeasured == [False, False, True]


def test_long_rows_are_written_as_they_are_and_remembered(spark, spark_lake, unmeasured, monkeypatch):
    monkeypatch.setattr(arrow_batches, "_BATCH_BYTES", 4096 * 1024)
    table = spark_lake.create_table("d.t", COLUMNS, primary_key=["id"], options=IN_TASKS)
    rows = spark.range(3_000).selectExpr(
        "id",
        "repeat('ä', if(id % 1000 = 7, 5000, 3)) AS s",
        "cast(if(id % 500 = 3, repeat('b', 9000), 'c') AS BINARY) AS b",
        "1 AS n",
    )
    table.upsert(rows.where("id < 3"))
    assert unmeasured == [True]
    table.upsert(rows)
    assert unmeasured == [True, True, False], "tried, then by Spark's own bounds"
    same(table.scan().to_arrow(), rows.toArrow())
    table.upsert(rows.where("id < 3"))
    assert unmeasured[3:] == [False], "the next write does not try"
    assert table.remove_orphan_files("2100-01-01").files == 0, "the first try leaves nothing"


def test_the_length_of_a_row_is_that_of_all_its_texts(spark):
    rows = spark.range(0, 40_000, 400).selectExpr(
        "id",
        "named_struct('t', repeat('x', cast(id AS INT)), 'd', date'2026-01-01') AS p",
        "repeat('ä', 100) AS s",
        "3 AS bucket",
    )
    room = arrow_batches._BATCH_BYTES // arrow_batches._ROWS - 4 * arrow_batches._VALUE_BYTES
    assert can_bound(spark, rows.schema.fields)
    for row in short_rows(rows, "bucket").collect():
        if row.id + 200 > room:
            assert (row.p, row.s, row.bucket) == (None, None, -1)
        else:
            assert (len(row.p.t), row.s, row.bucket) == (row.id, "ä" * 100, 3)


def test_types_whose_length_has_no_cheap_expression_are_measured(spark):
    rows = spark.sql(
        "SELECT 1 AS i, 1.5BD AS d, date'2026-01-01' AS t, current_timestamp() AS z, null AS v, named_struct('s', 'a') AS p"
    )
    assert can_bound(spark, rows.schema.fields)
    for value in ("array('a')", "map('a', 1)", "parse_json('1')", "named_struct('a', array(1))", "interval 1 day"):
        assert not can_bound(spark, spark.sql(f"SELECT {value} AS v").schema.fields), value
    wide = ", ".join(f"1 AS c{i}" for i in range(600))
    assert not can_bound(spark, spark.sql(f"SELECT {wide}").schema.fields), "wide rows"
    assert not can_bound(spark, spark.sql(f"SELECT struct({wide}) AS s").schema.fields), "wide rows"


def test_a_plan_tells_whether_python_functions_make_its_rows(spark, tmp_path):
    def same_rows(batches):
        yield from batches

    rows = spark.range(3)
    spark.range(3).write.parquet(str(tmp_path / "p"))
    plain = spark.read.parquet(str(tmp_path / "p"))
    double = F.udf(lambda value: 2 * value, "bigint")
    spark.udf.register("doubled", double)
    for frame in (
        rows,
        plain,
        plain.groupBy("id").count(),
        plain.join(rows, "id"),
        spark.sql("SELECT explode(array(1, 2)) AS id"),
    ):
        assert not runs_python(frame)
    made = rows.mapInArrow(same_rows, "id bigint")

    @F.udtf(returnType="a bigint")
    class Twice:
        def eval(self, value: int):
            yield (2 * value,)

    spark.udtf.register("twice", Twice)
    spark.conf.set("spark.sql.maxPlanStringLength", "30")
    try:
        assert runs_python(spark.range(4)), "what Spark cuts does not tell"
    finally:
        spark.conf.unset("spark.sql.maxPlanStringLength")
    for frame in (
        *(made, made.cache(), made.join(plain, "id"), rows.select(double("id")), rows.where(double("id") > 1)),
        rows.groupBy("id").applyInArrow(lambda table: table, "id bigint"),
        spark.sql("SELECT * FROM range(3) WHERE id IN (SELECT doubled(id) FROM range(3))"),
        made.localCheckpoint(eager=False),
        spark.sql("SELECT a AS id FROM range(3), LATERAL twice(id)"),
    ):
        assert runs_python(frame)


def test_rows_of_python_functions_are_measured(spark, spark_lake, unmeasured):
    table = spark_lake.create_table("d.t", COLUMNS, primary_key=["id"], options=IN_TASKS)
    double = F.udf(lambda value: 2 * value, "bigint")
    table.upsert(spark.range(50).select(double("id").alias("id")).selectExpr("id", "'a' AS s", "X'01' AS b", "1 AS n"))
    assert unmeasured == [False]
    spark.udf.register("doubled", double)
    table.upsert(spark.range(50).selectExpr("id", "'a' AS s", "X'01' AS b", "1 AS n"), order_by="doubled(id)")
    assert unmeasured == [False, False]


def test_a_task_without_a_long_row_of_a_key_does_not_tell_what_is_wrong_with_the_key(spark, spark_lake, unmeasured):
    """Two rows of the key have one sequence, and come from different parts of the input; the long row is newer than both."""
    options = {**IN_TASKS, "sequence.field": "n"}
    table = spark_lake.create_table("d.t", COLUMNS, primary_key=["id"], options=options)
    row = "select {0}L id, {1} s, x'01' b, {2} n"
    for key in range(4):  # some of them in the first bucket, and long rows go to the last task
        parts = [row.format(key, "'a'", 1), row.format(key, "'b'", 1), row.format(key, "repeat('x', 20000)", 2)]
        table.runtime.learned.long_rows.clear()
        table.upsert(spark.sql(" union all ".join(parts)))
        assert len(table.get({"id": key})["s"]) == 20_000
    assert unmeasured == [True, False] * 4


@pytest.mark.parametrize("python", [False, True])
def test_micro_batches_of_streams_without_python_functions_are_bounded_by_rows(spark, spark_lake, unmeasured, tmp_path, python):
    spark.range(5_000).selectExpr("id", "'a' AS s", "X'01' AS b", "1 AS n").write.parquet(str(tmp_path / "in"))
    table = spark_lake.create_table("d.t", COLUMNS, primary_key=["id"], options=IN_TASKS)
    stream = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
    stream = stream.withColumn("n", F.udf(lambda n: n, "int")("n")) if python else stream
    table.write_stream(stream, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
    assert table.scan().count() == 5_000
    assert unmeasured and set(unmeasured) == {not python}


@pytest.mark.parametrize("key", [["id", "day"], ["id"], []], ids=["partitions", "keys that move", "append-only"])
def test_every_kind_of_table_meets_long_rows(spark, spark_lake, unmeasured, monkeypatch, key):
    monkeypatch.setattr(arrow_batches, "_BATCH_BYTES", 4096 * 1024)
    columns = "id BIGINT NOT NULL, s STRING, day INT NOT NULL"
    options = {"write.collect-rows": 0} | ({"bucket": 2} if key else {})
    table = spark_lake.create_table("d.k", columns, primary_key=key, partition_by=["day"], options=options)
    rows = spark.range(2_000).selectExpr("id", "repeat('x', if(id = 1234, 9000, 3)) AS s", "cast(id % 3 AS INT) AS day")
    (table.upsert if key else table.append)(rows)
    assert unmeasured == ([False] if key == ["id"] else [True, False]), (
        "keys that move may bring old rows, whose length is unknown"
    )
    same(table.scan().to_arrow(), rows.toArrow())
    assert table.remove_orphan_files("2100-01-01").files == 0
