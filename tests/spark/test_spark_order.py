"""The order of rows on Spark: after a join, in functions for foreachBatch, of files, and by the arguments of streaming writes."""

from __future__ import annotations

import os
from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from spark_support import on_connect, same
from strategies import UTC

import lsmlake
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.spark import frame_plan
from lsmlake.spark.frame_plan import shuffled

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]
AVAILABLE = {"availableNow": True}


@pytest.fixture
def orders(spark, spark_lake) -> lsmlake.Table:
    """200 orders whose customers have changed, and their changelog."""
    table = spark_lake.create_table(
        "d.orders", "id BIGINT NOT NULL, cust INT", primary_key=["id"], options={"bucket": 2, "changelog-producer": "lookup"}
    )
    for cust in ("id % 7", "id % 5"):
        table.upsert(spark.range(200).selectExpr("id", f"CAST({cust} AS INT) AS cust"))
    return table


@pytest.mark.connect(short="classic")
def test_a_shuffled_feed_gives_the_table_by_its_commit_columns(spark, spark_lake, orders, tmp_path):
    """A join on the column that the update changes sends -U and +U to different tasks."""
    names = spark.range(7).selectExpr("int(id) AS cust", "concat('c', id) AS name").hint("shuffle_merge")
    named = spark_lake.create_table("d.named", "id BIGINT NOT NULL, cust INT, name STRING", primary_key=["id"])

    def joined(checkpoint: str, **how: object) -> None:
        feed = orders.read_stream(start="from-snapshot", snapshot=1, **how).join(names, "cust")
        query = named.write_stream(feed, checkpoint=tmp_path / checkpoint, trigger=AVAILABLE, row_kind="_row_kind")
        query.awaitTermination(120)
        progress.extend(query.recentProgress)

    progress: list = []
    with pytest.raises(PySparkException, match="have passed a shuffle"):
        joined("unordered")
    assert named.scan().count() == 0
    joined("ordered", commit_columns=True)
    if not on_connect():
        newest = max(row.observedMetrics["lsmlake"].newest_change_ms for row in progress if row.observedMetrics)
        assert datetime.fromtimestamp(newest / 1000, UTC) == orders.snapshots()["commit_time"][-1].as_py()
    same(named.df(), sorted(((i, i % 5, f"c{i % 5}") for i in range(200)), key=repr))
    assert named.scan().to_arrow().column_names == ["id", "cust", "name"]


@pytest.mark.connect(short="classic")
def test_files_apply_in_the_order_of_their_times(spark, spark_lake, tmp_path):
    """The older file is larger, so Spark reads it last."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number, count in enumerate((5_000, 10)):
        path = folder / f"{9 - number}.json"
        path.write_text("".join(f'{{"id": {i}, "v": "{number}"}}\n' for i in range(count)))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64kb")
    try:
        table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v STRING", primary_key=["id"])
        expected = sorted(((i, "1" if i < 10 else "0") for i in range(5_000)), key=repr)
        table.upsert(spark.read.schema("id BIGINT, v STRING").json(str(folder)), order_by=TIMES)
        same(table.df(), expected)
        table.truncate()
        files = spark.readStream.schema("id BIGINT, v STRING").json(str(folder)).selectExpr("*", "_metadata AS file")
        order = ["file.file_modification_time", "file.file_name"]
        query = table.write_stream(files, checkpoint=tmp_path / "c", trigger=AVAILABLE, order_by=order)
        query.awaitTermination(120)
        same(table.df(), expected)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


TIMES = "_metadata.file_modification_time, _metadata.file_name"


def test_a_streaming_write_takes_a_name_a_writer_and_casts(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v INT", primary_key=["id"])
    spark.createDataFrame(pa.table({"id": ["1", "1", "2"], "v": ["10", "9", "1"]})).repartition(3, "v").write.parquet(
        str(tmp_path / "in")
    )
    stream = spark.readStream.schema("id STRING, v STRING").parquet(str(tmp_path / "in"))
    query = table.write_stream(
        stream,
        checkpoint=tmp_path / "c",
        trigger=AVAILABLE,
        order_by="v",
        cast=True,
        query_name="orders",
        writer_id="w",
    )
    assert query.name == "orders"
    query.awaitTermination(120)
    same(table.df(), [(1, 10), (2, 1)])  # the order is that of the numbers, not of their texts
    assert set(table.snapshots()["writer_id"].to_pylist()) == {"w"}
    with pytest.raises(InvalidQuery, match="order_by needs a primary key"):
        spark_lake.create_table("d.a", "id BIGINT").write_stream(stream, checkpoint="c", order_by="id")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nope", "does not understand order_by"),
        ("array(id)", "without an order"),
        ("'id'", "orders nothing"),
        ("id + rand()", "another value each time"),
    ],
)
def test_an_order_that_spark_does_not_know_is_refused(spark, spark_lake, given, words):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"])
    with pytest.raises(InvalidQuery, match=words):
        table.upsert(spark.range(3), order_by=given)
    assert table.snapshots().num_rows == 0


@pytest.mark.connect(short="classic")
def test_the_order_is_that_of_the_converted_values(spark, spark_lake):
    table = spark_lake.create_table("d.c", "id BIGINT NOT NULL, v INT", primary_key=["id"])
    for number in (1, 2):  # the driver writes the second one
        rows = spark.sql(f"SELECT * FROM VALUES ('{number}', '10'), ('{number}', '9') AS t(id, v)")
        table.upsert(rows, cast=True, order_by="v")
        assert table.get({"id": number}) == {"id": number, "v": 10}
    rows = spark.sql("SELECT * FROM VALUES ('3', '10', '10'), ('3', '9', '9') AS t(id, v, lsn)")
    with pytest.raises(InvalidData, match=r"column 'lsn'.*10 is before 9"):
        table.upsert(rows, cast=True, order_by="lsn")
    table.upsert(rows, cast=True, order_by="CAST(lsn AS BIGINT)")
    assert table.get({"id": 3}) == {"id": 3, "v": 10}


def test_names_that_are_no_words_of_spark_order_rows(spark, spark_lake):
    table = spark_lake.create_table("d.q", "id BIGINT NOT NULL, `größe` INT, `a.b` INT", primary_key=["id"])
    for number, (given, last) in enumerate([("größe", 2), ("`a.b`", 1), (["`a.b`", "`größe`"], 1), ("`größe`, `a.b`", 2)]):
        rows = spark.sql(f"SELECT * FROM VALUES ({number}L, 2, 1), ({number}L, 1, 2) AS t(id, `größe`, `a.b`)").repartition(2)
        table.upsert(rows, order_by=given)
        assert table.get({"id": number})["größe"] == last


def test_a_plan_tells_a_shuffle_from_a_column_of_that_name(spark):
    rows = spark.range(9).selectExpr("id", "id AS Exchange", "'Exchange' AS n")
    assert not shuffled(rows) and not shuffled(rows.join(F.broadcast(spark.range(3)), "id"))
    assert shuffled(rows.repartition(3)) and shuffled(rows.groupBy("n").count()) and shuffled(rows.repartition(3).cache())
    assert shuffled(rows.repartition("id").localCheckpoint()), "a checkpoint hides the plan before it"


@pytest.mark.connect(short="classic")
def test_the_rows_of_values_apply_in_the_order_of_the_text(spark, spark_lake):
    table = spark_lake.create_table("d.v", "id INT NOT NULL, v INT", primary_key=["id"])
    rows = ", ".join(f"({number % 7}, {number})" for number in range(40))
    spark_lake.sql(f"INSERT INTO d.v VALUES {rows}")
    assert table.scan().to_arrow().sort_by("id")["v"].to_pylist() == [35, 36, 37, 38, 39, 33, 34]


def test_only_plans_whose_rows_stay_are_not_planned_twice(spark, tmp_path, monkeypatch):
    """What `shuffled` says without the physical plan is what that plan says."""
    spark.range(9).write.parquet(str(tmp_path / "t"))
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("of_files")
    spark.range(9).createOrReplaceTempView("few")
    stay = [
        "SELECT * FROM of_files",
        "SELECT id + 1, explode(array(1, 2)) FROM of_files WHERE id > 3 UNION ALL SELECT id, 1 FROM few",
        "VALUES (1), (2)",
    ]
    move = [
        "SELECT DISTINCT id FROM of_files",
        "SELECT /*+ MERGE(few) */ of_files.id FROM of_files JOIN few ON of_files.id = few.id",
        "SELECT * FROM of_files WHERE id IN (SELECT /*+ MERGE */ id FROM few)",
        "SELECT id, row_number() OVER (PARTITION BY id ORDER BY id) FROM of_files",
        "SELECT /*+ REPARTITION(3) */ * FROM of_files",
        "SELECT * FROM of_files ORDER BY id",
        "SELECT id, (SELECT max(id) FROM few) FROM of_files",
    ]
    joins = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        assert [shuffled(spark.sql(query)) for query in stay] == [False] * len(stay)
        assert [shuffled(spark.sql(query)) for query in move] == [True] * len(move)
        monkeypatch.setattr(frame_plan, "_STAYING", set())
        assert [shuffled(spark.sql(query)) for query in stay + move] == [False] * len(stay) + [True] * len(move)
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", joins)
