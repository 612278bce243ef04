"""Append-only tables on Spark: tasks write files, and one commit publishes them."""

from __future__ import annotations

from collections import Counter

import pytest
from naive import unreferenced
from pyspark.errors import PySparkException
from spark_support import rows, same

import lsmlake
from lsmlake.errors import InvalidData

pytestmark = pytest.mark.spark

DDL = "id BIGINT, day STRING, v DOUBLE"
KINDS = {
    "plain": {},
    "partitions": {"partition_by": ["day"]},
    "buckets": {"options": {"bucket": 3, "bucket-key": "id"}},
}


def frame(spark, count: int, tasks: int = 3):
    return spark.range(0, count, 1, tasks).selectExpr("id div 2 as id", "concat('d', id % 3) as day", "id / 4 as v")


@pytest.mark.parametrize("kind", [pytest.param("plain", marks=pytest.mark.connect(short="connect")), "partitions", "buckets"])
def test_a_frame_is_appended_by_tasks_and_by_the_driver(spark, spark_lake, kind):
    """The second batch is small like the first, so the driver writes it. Equal rows are as many rows."""
    table = spark_lake.create_table("d.t", DDL, **KINDS[kind])
    data = frame(spark, 300)
    for number in (1, 2):
        assert table.append(data, writer_id="w", commit_id=number).delta_rows == 300
    assert table.append(data, writer_id="w", commit_id=2).id == 2, "a commit takes place once"
    expected = Counter(rows(data.union(data)))
    assert Counter(rows(table.df())) == expected
    same(table.df(where="day = 'd1' and id < 20"), rows(data.union(data).where("day = 'd1' and id < 20")))
    assert table.delete("id < 10").deleted == 40
    assert table.compact(full=True).snapshot_id == 4
    assert table.df().count() == 560
    assert table.verify() == [] and unreferenced(table) == []


@pytest.mark.connect(short="classic")
def test_an_append_by_format_is_written_by_the_tasks(spark, spark_lake):
    lsmlake.register(spark)
    table = spark_lake.create_table("d.t", DDL, partition_by=["day"])
    folder = table.meta.env.storage.place(table.path)
    data = frame(spark, 90)
    data.write.format("lsmlake").mode("append").save(folder)
    same(table.df(), rows(data))
    assert table.snapshots().num_rows == 1
    broken = data.selectExpr("if(id = 44, raise_error('broken'), id) as id", "day", "v")
    with pytest.raises(PySparkException, match="broken"):
        broken.write.format("lsmlake").mode("append").save(folder)
    assert table.snapshots().num_rows == 1 and table.verify() == []


def test_a_stream_of_appends_and_deletions_arrives_once(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.t", DDL)
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    for number in range(2):
        frame(spark, 20, 1).write.mode("append").parquet(str(tmp_path / "in"))
        table.write_stream(source, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
        assert table.scan().count() == 20 * (number + 1)
    table.delete("id = 3")
    feed = table.read_stream(start="from-snapshot", snapshot=1)
    name = f"appended_{id(tmp_path)}"
    query = feed.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "r")).start().awaitTermination()
    found = Counter(row[0] for row in spark.table(name).select("_row_kind").collect())
    assert found == {"+I": 40, "-D": 4}


def test_rows_that_do_not_fit_are_refused(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, day STRING, v DOUBLE")
    with pytest.raises(InvalidData, match="id"):
        table.append(frame(spark, 10).selectExpr("nullif(id, 3) as id", "day", "v"))
    with pytest.raises(InvalidData, match="lacks the columns"):
        table.append(frame(spark, 10).drop("id"))
    assert table.scan().count() == 0 and unreferenced(table) == []
