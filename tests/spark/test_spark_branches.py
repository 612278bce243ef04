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


@pytest.mark.connect(short="classic")
def test_tags_branches_time_travel_and_rollback_have_the_columns_of_their_snapshots(spark, spark_lake):
    table = spark_lake.create_table("d.b", "k BIGINT NOT NULL, v INT", primary_key=["k"], options={"bucket": 2})
    table.upsert(spark.range(3).selectExpr("id as k", "int(id) as v"))
    table.create_tag("narrow")
    table.alter(lsmlake.rename_column("v", "w"), lsmlake.change_type("w", "BIGINT"), lsmlake.add_column("n", "INT", default=7))
    branch = table.create_branch("b1")
    branch.upsert(spark.sql("SELECT 1L AS k, 5000000000L AS w, 1 AS n, 'x' AS note"), evolve=True)
    assert found(table.df(tag="narrow", where="v > 0")) == found(table.df(snapshot=1, where="v > 0")) == [(1, 1), (2, 2)]
    assert found(table.df(snapshot=2)) == [(0, 0, 7), (1, 1, 7), (2, 2, 7)]
    expected = [(0, 0, 7, None), (1, 5000000000, 1, "x"), (2, 2, 7, None)]
    assert found(branch.df()) == found(table.df(branch="b1")) == expected
    changed = [("+U", 1, 5000000000, 1, "x"), ("-U", 1, 1, 7, None)]
    assert found(branch.changes(2).to_spark()) == changed
    table.fast_forward("b1")
    table.alter(lsmlake.drop_column("n"))
    assert found(table.df()) == [(0, 0, None), (1, 5000000000, "x"), (2, 2, None)]
    table.rollback(tag="narrow")
    assert (table.df().columns, found(table.df())) == (["k", "v"], [(0, 0), (1, 1), (2, 2)])
    table.upsert(spark.sql("SELECT 3L AS k, 3 AS v"))
    assert table.df().count() == 4 and table.verify() == []


def test_partitions_that_a_table_lacks_are_read_from_its_fallback_branch(spark, spark_lake):
    table = spark_lake.create_table(
        "d.f", "p STRING NOT NULL, k BIGINT NOT NULL, v STRING", primary_key=["p", "k"], partition_by=["p"], options={"bucket": 2}
    )
    branch = table.create_branch("b")
    table.alter(lsmlake.set_option("scan.fallback-branch", "b"))
    branch.upsert(spark.sql("SELECT p, id AS k, 'branch' AS v FROM range(6) LATERAL VIEW explode(array('x', 'y')) AS p"))
    branch.alter(lsmlake.add_column("n", "INT"), lsmlake.set_option("write-only", "true"))
    table.alter(lsmlake.add_column("n", "INT"))
    branch.upsert(spark.sql("SELECT 'y' AS p, id AS k, 'late' AS v, 1 AS n FROM range(2)"))
    branch.delete_keys([{"p": "y", "k": 5}])
    table.upsert(spark.sql("SELECT 'x' AS p, 1L AS k, 'table' AS v, 0 AS n"))
    expected = [("x", 1, "table", 0), ("y", 0, "late", 1), ("y", 1, "late", 1), *(("y", k, "branch", None) for k in (2, 3, 4))]
    for strategy in ("native", "arrow", "auto"):
        assert found(table.scan().to_spark(strategy)) == expected
    assert found(table.df(where="p = 'y' AND k < 2", columns=["v"])) == [("late",), ("late",)]
    assert found(spark_lake.sql("SELECT * FROM d.f")) == expected
    lsmlake.register(spark)
    place = table.meta.env.storage.place(table.path)
    assert found(spark.read.format("lsmlake").load(place)) == expected
    assert (table.count(), table.get({"p": "y", "k": 1})["v"]) == (6, "late")
    spark.sql(f"CREATE TABLE with_branch USING lsmlake OPTIONS (path '{place}')")
    try:
        assert found(spark.table("with_branch")) == expected
    finally:
        spark.sql("DROP TABLE with_branch")
    assert [row["p"] for row in table.changes(0).to_spark().collect()] == ["x"]
