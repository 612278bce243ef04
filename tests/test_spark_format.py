"""`format("lsmlake")` in batches: append by DataFrameWriter, tables of Spark's own catalog. Also: test_spark_read_stream.py."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from spark_support import rows, same

import lsmlake

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark, spark_lake) -> lsmlake.Table:
    lsmlake.register(spark)
    options = {"bucket": 3}
    return spark_lake.create_table("d.t", "id BIGINT NOT NULL, day DATE, v STRING", primary_key=["id"], options=options)


@pytest.fixture
def folder(table) -> str:
    return table.meta.env.storage.place(table.path)


def save(frame, folder: str, **options: object) -> None:
    frame.write.format("lsmlake").options(**options).mode("append").save(folder)


@pytest.mark.connect
def test_an_append_is_an_upsert_and_one_commit(spark, table, folder):
    """Of rows with one key the last wins, wherever the tasks found them."""
    first = spark.range(0, 100, 1, 4).selectExpr("int(id) AS id", "string(id) AS v", "date'2026-01-01' AS day")
    save(first, folder)  # an INT key goes to the bucket of the BIGINT
    same(table.df(columns=["id", "v"]), rows(first.selectExpr("bigint(id)", "v")))
    keyed = "id % 50 AS id", "date'2026-01-02' AS day", "concat('new ', id) AS v"
    save(spark.range(0, 200, 1, 4).selectExpr(*keyed), folder)
    expected = spark.range(100).selectExpr("id", "if(id < 50, concat('new ', id + 150), string(id)) AS v")
    same(table.df(columns=["id", "v"]), rows(expected))
    assert table.snapshots()["delta_record_count"].to_pylist() == [100, 50]
    save(spark.range(0).selectExpr(*keyed), folder)
    assert table.snapshots().num_rows == 2 and table.verify() == []


@pytest.mark.connect
def test_what_does_not_fit_is_refused_in_our_words(spark, table, folder):
    good = spark.range(3).selectExpr("id", "date'2026-01-01' AS day", "'x' AS v")
    refused = [
        (lambda: save(good.drop("v"), folder), r"lacks the columns \['v'\]"),
        (lambda: save(good.selectExpr("nullif(id, 1) AS id", "day", "v"), folder), "column 'id': a null"),
        (lambda: save(good, folder, zone="UTC"), "option 'zone' is not supported for a write"),
        (lambda: save(good.selectExpr("*", "1 AS n"), folder), r"extra columns \['n'\]"),
        (lambda: save(good, folder, **{"write.merge-schema": "maybe"}), "expected true or false"),
        (lambda: spark.read.format("lsmlake").option("write.merge-schema", "true").load(folder).count(), "is for writes only"),
        (lambda: save(good, folder, pth="x"), "unknown option 'pth'.*did you mean 'path'"),
        (lambda: good.write.format("lsmlake").mode("overwrite").save(folder), "does not support mode overwrite"),
        (lambda: save(good, folder + "/nothing"), "not the folder of a table"),
    ]
    for write, words in refused:
        with pytest.raises(PySparkException, match=words):
            write()
    assert table.snapshots().num_rows == 0


@pytest.mark.connect
def test_an_append_may_add_columns(spark, table, folder):
    """By an option of the writer, which comes before the option of the table."""
    frame = spark.range(2).selectExpr("id", "date'2026-01-01' AS day", "'x' AS v", "id * 2 AS n", "struct(1 AS x) AS s")
    save(frame, folder, **{"write.merge-schema": "true"})
    same(table.df().selectExpr("id", "n", "s.x"), [(0, 0, 1), (1, 2, 1)])
    table.alter(lsmlake.set_option("write.merge-schema", "true"))
    wider = frame.selectExpr("id + 1 AS id", "day", "v", "n", "struct(2 AS x, 'y' AS y) AS s", "true AS ok")
    with pytest.raises(PySparkException, match=r"extra columns \['ok'\]"):
        save(wider, folder, **{"write.merge-schema": "false"})
    save(wider, folder)
    same(table.df().selectExpr("id", "s.x", "s.y", "ok"), [(0, 1, None, None), (1, 2, "y", True), (2, 2, "y", True)])
    assert table.snapshots().num_rows == 5, "an alteration has a commit of its own"


def test_a_stream_is_not_written_by_format(spark, folder, tmp_path):
    spark.range(1).write.parquet(str(tmp_path / "in"))
    writer = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in")).writeStream.format("lsmlake")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(folder)
    with pytest.raises(PySparkException, match=r"does not write streams.*table\.write_stream"):
        query.awaitTermination(60)


def test_a_kept_dataframe_or_catalog_table_reads_an_altered_table_while_its_columns_are_there(spark, table, folder):
    table.upsert(spark.range(3).selectExpr("id", "date'2026-01-01' AS day", "string(id) AS v"))
    kept, unused = (spark.read.format("lsmlake").load(folder) for _ in range(2))  # Spark plans each when it is used first
    by_lake = table.df(where="v = '1'")
    spark.sql(f"CREATE TABLE altered USING lsmlake OPTIONS (path '{folder}')")
    table.alter(lsmlake.add_column("n", "INT", first=True), lsmlake.move_column("v", first=True))
    try:
        for frame in (kept, spark.table("altered")):
            assert frame.columns == ["id", "day", "v"]
            same(frame.select("id", "v"), [(0, "0"), (1, "1"), (2, "2")])
        table.alter(lsmlake.rename_column("v", "w"))
        for frame in (unused, spark.table("altered")):
            with pytest.raises(
                PySparkException, match=r"does not have the columns that Spark asks for.*load the DataFrame again"
            ):
                frame.collect()
    finally:
        spark.sql("DROP TABLE altered")
    same(by_lake.select("id", "v"), [(1, "1")])
    same(spark.read.format("lsmlake").option("scan.snapshot-id", 1).load(folder).select("v"), [("0",), ("1",), ("2",)])


def test_a_table_in_the_catalog_of_spark(spark, table, folder):
    table.upsert(spark.range(10).selectExpr("id", "date'2026-01-01' AS day", "string(id) AS v"))
    spark.sql(f"CREATE TABLE in_catalog USING lsmlake OPTIONS (path '{folder}', `where` 'id < 8') COMMENT 'a note'")
    try:
        same(spark.sql("SELECT v, id FROM in_catalog WHERE id > 5 AND v <> '6'"), [("7", 7)])
        assert spark.sql("SELECT count(*) FROM in_catalog").first()[0] == 8
        spark.sql("INSERT INTO in_catalog SELECT 7, date'2026-01-01', 'seven'")
        spark.sql("INSERT INTO in_catalog (v, id, day) VALUES ('more', 10, NULL)")
        same(spark.sql("SELECT v, id FROM in_catalog WHERE id >= 7"), [("seven", 7)])
    finally:
        spark.sql("DROP TABLE in_catalog")
    assert table.scan().count() == 11, "Spark drops its own entry alone"
    with pytest.raises(PySparkException, match=r"unknown option 'colour'.*did you mean 'columns'"):
        spark.sql(f"CREATE TABLE wrong USING lsmlake OPTIONS (path '{folder}', colour 'red')")
