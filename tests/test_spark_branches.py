"""Branches on Spark: DataFrames, upserts, compactions, streams into and out of a branch, and the data source."""

from __future__ import annotations

import pytest

import lsmlake

pytestmark = pytest.mark.spark

AVAILABLE = {"availableNow": True}


def found(frame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()))


def test_a_branch_is_a_table_on_spark(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.b", "k BIGINT NOT NULL, v BIGINT", primary_key=["k"], options={"bucket": 2})
    table.upsert(spark.range(10).selectExpr("id as k", "id as v"))
    branch = table.create_branch("b1")
    branch.upsert(spark.range(5, 12).selectExpr("id as k", "-id as v"))
    branch.compact(full=True)
    expected = sorted([(k, k) for k in range(5)] + [(k, -k) for k in range(5, 12)])
    assert found(branch.df()) == found(table.df(branch="b1")) == expected
    assert found(spark_lake.table("d.b$branch_b1").df()) == expected
    assert found(table.df()) == [(k, k) for k in range(10)]
    lsmlake.register(spark)
    place = table.meta.env.storage.place(table.path)
    assert found(spark.read.format("lsmlake").option("branch", "b1").load(place)) == expected

    source = str(tmp_path / "source")
    spark.range(20, 23).selectExpr("id as k", "id as v").write.parquet(source)
    stream = spark.readStream.schema("k BIGINT, v BIGINT").parquet(source)
    branch.write_stream(stream, checkpoint=tmp_path / "in", trigger=AVAILABLE).awaitTermination()
    expected += [(k, k) for k in range(20, 23)]
    assert found(branch.df()) == expected
    assert table.df().count() == 10

    out = str(tmp_path / "out")
    query = branch.read_stream().writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
    query.option("path", out).trigger(**AVAILABLE).start().awaitTermination()
    assert found(spark.read.parquet(out).select("k", "v")) == expected

    table.fast_forward("b1")
    assert found(table.df()) == expected
    table.rollback(1)
    assert found(table.df()) == [(k, k) for k in range(10)]
    assert table.verify() == []
