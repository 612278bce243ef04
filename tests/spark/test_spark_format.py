"""`format("lsmlake")`: batches and streams to it, tables of Spark's catalog. Also: test_spark_read_stream.py."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from naive import unreferenced
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
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


@pytest.mark.connect(short="classic")
def test_an_append_is_an_upsert_and_one_commit(spark, table, folder):
    """Of rows with one key the last by the option order-by wins, wherever the tasks found them."""
    first = spark.range(0, 100, 1, 4).selectExpr("int(id) AS id", "string(id) AS v", "date'2026-01-01' AS day")
    save(first, folder)  # an INT key goes to the bucket of the BIGINT
    same(table.df(columns=["id", "v"]), rows(first.selectExpr("bigint(id)", "v")))
    keyed = "id % 50 AS id", "date'2026-01-02' AS day", "concat('new ', id) AS v"
    with pytest.raises(PySparkException, match="different input partitions"):
        save(spark.range(0, 200, 1, 4).selectExpr(*keyed), folder)
    save(spark.range(0, 200, 1, 4).selectExpr(*keyed), folder, **{"order-by": "length(v), v"})
    expected = spark.range(100).selectExpr("id", "if(id < 50, concat('new ', id + 150), string(id)) AS v")
    same(table.df(columns=["id", "v"]), rows(expected))
    assert table.snapshots()["delta_record_count"].to_pylist() == [100, 50]
    save(spark.range(0).selectExpr(*keyed), folder)
    assert table.snapshots().num_rows == 2 and table.verify() == []


@pytest.mark.connect(short="connect")
def test_the_words_of_auto_cdc_as_options(spark, table, folder):
    save(spark.range(0, 6, 1, 2).selectExpr("id", "'old' AS v", "date'2026-01-01' AS day"), folder)
    events = spark.range(0, 8, 1, 2).selectExpr(
        "id % 4 AS id", "if(id > 5, 'd', 'u') AS op", "id AS lsn", "concat('v', id) AS v", "date'2026-01-02' AS day"
    )
    options = {"apply-as-deletes": "op = 'd'", "order-by": "lsn", "except-columns": "op"}
    save(events.withColumn("note", F.lit("n")), folder, **options | {"except-columns": "op, note"})
    assert sorted(rows(table.df(columns=["id", "v"]))) == [(0, "v4"), (1, "v5"), (4, "old"), (5, "old")]
    del options["except-columns"]
    save(events, folder, **options | {"columns": '["id", "v", "day"]'})
    assert table.count() == 4
    for wrong, said in [
        (options | {"except-columns": "op, nope"}, "nope"),
        (options | {"columns": "id", "except-columns": "op"}, "contradict"),
        ({"apply-as-deletes": "opp = 'd'", "except-columns": "op,lsn"}, "opp"),
        (options | {"write.merge-schema": "true"}, "leave write.merge-schema out.*or leave out apply-as-deletes"),
        ({"apply-as-delete": "op = 'd'"}, "apply-as-deletes"),
        ({"order-by": "v", "except-columns": "op, lsn, v"}, "order-by"),
    ]:
        with pytest.raises(PySparkException, match=said):
            save(events, folder, **wrong)
    table.alter(lsmlake.set_option("write.merge-schema", "true"))  # which is about rows as they are
    save(events, folder, **options | {"columns": "id,v,day"})
    save(events, folder, **options | {"except-columns": "op,lsn", "write.merge-schema": "false"})
    assert table.schema.names == ["id", "day", "v"]
    with pytest.raises(PySparkException, match="except-columns"):
        overwrite(events, folder, **{"except-columns": "op"})
    with pytest.raises(PySparkException, match="for writes only"):
        spark.read.format("lsmlake").options(**{"apply-as-deletes": "true"}).load(folder).collect()


def read(spark, folder: str, **options: object) -> None:
    spark.read.format("lsmlake").options(**options).load(folder).collect()


def overwrite(frame, folder: str, **options: object) -> None:
    frame.write.format("lsmlake").options(**options).mode("overwrite").save(folder)


@pytest.mark.connect
@pytest.mark.parametrize("key", [["id", "p"], []], ids=["key", "append-only"])
def test_an_overwrite_replaces_all_rows_or_some_partitions(spark, spark_lake, key):
    lsmlake.register(spark)
    table = spark_lake.create_table("d.o", "id BIGINT NOT NULL, p INT, v STRING", primary_key=key, partition_by=["p"])
    folder = table.meta.env.storage.place(table.path)

    def rows_of(text: str):
        return spark.sql(f"SELECT bigint(id) AS id, p, v FROM VALUES {text} AS t(id, p, v)")

    save(rows_of("(1, 1, 'a'), (2, 2, 'a'), (3, 3, 'a')"), folder)
    overwrite(rows_of("(4, 1, 'b')"), folder, partitionOverwriteMode="dynamic")
    same(table.df(), [(2, 2, "a"), (3, 3, "a"), (4, 1, "b")])
    overwrite(rows_of("(5, 2, 'c')"), folder, replaceWhere="p >= 2")
    same(table.df(), [(4, 1, "b"), (5, 2, "c")])
    with pytest.raises(PySparkException, match="outside of the partitions"):
        overwrite(rows_of("(6, 1, 'd')"), folder, replaceWhere="p = 2")
    overwrite(rows_of("(7, 7, 'e')"), folder)
    same(table.df(), [(7, 7, "e")])
    overwrite(rows_of("(7, 7, 'e')").where("id < 0"), folder)
    assert table.df().count() == 0 and table.verify() == [] and unreferenced(table) == []


@pytest.mark.connect(short="classic")
def test_what_does_not_fit_is_refused_in_our_words(spark, table, folder):
    good = spark.range(3).selectExpr("id", "date'2026-01-01' AS day", "'x' AS v")
    refused = [
        (lambda: save(good.drop("v"), folder), r"lacks the columns \['v'\]"),
        (lambda: save(good.selectExpr("nullif(id, 1) AS id", "day", "v"), folder), "column 'id': a null"),
        (lambda: save(good, folder, zone="UTC"), "option 'zone' is not supported for an append"),
        (lambda: save(good, folder, replaceWhere="id = 1"), "not supported for an append.*use .mode"),
        (lambda: overwrite(good, folder, replaceWhere="id = 1"), "'replaceWhere' needs partitions"),
        (lambda: overwrite(good, folder, partitionOverwriteMode="some"), "expected static or dynamic"),
        (lambda: save(good.selectExpr("*", "1 AS n"), folder), r"extra columns \['n'\]"),
        (lambda: save(good, folder, **{"write.merge-schema": "maybe"}), "expected true or false"),
        (lambda: spark.read.format("lsmlake").option("replaceWhere", "true").load(folder).count(), "is for writes only"),
        (lambda: read(spark, folder, zone="Nowhere"), "is no time zone.*Nowhere"),
        (lambda: overwrite(good, folder, zone="Nowhere"), "is no time zone.*Nowhere"),
        (lambda: read(spark, folder, checkpointLocation="x"), "'checkpointLocation' is for writes only"),
        (lambda: save(good, folder, queryName="x"), "'queryName' is for streaming writes only"),
        (lambda: read(spark, folder, location="x"), "unknown option 'location'"),
        (lambda: save(good, folder, **{"option.order-by": "v"}), "unknown option 'option.order-by'"),
        (lambda: read(spark, folder, columns="[id"), "option 'columns' is no list"),
        (lambda: read(spark, folder, columns="[1]"), "option 'columns' is no list"),
        (lambda: read(spark, folder, **{"scan.snapshot-id": "²"}), "is a number"),
        (lambda: spark.read.format("lsmlake").schema("id BIGINT").option("columns", "v").load(folder).count(), "schema.*differ"),
        (lambda: save(good, folder, pth="x"), "unknown option 'pth'.*did you mean 'path'"),
        (lambda: good.write.format("lsmlake").mode("ignore").save(folder), "(?i)ignore"),
        (lambda: good.write.format("lsmlake").save(folder), "(?i)errorifexists"),
        (lambda: save(good, folder + "/nothing"), "not the folder of a table"),
    ]
    for write, words in refused:
        with pytest.raises(PySparkException, match=words):
            write()
    assert table.snapshots().num_rows == 0


@pytest.mark.connect(short="classic")
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


def stream_by_format(spark, folder: Path, into: str, **options: object):
    """A query that takes one file of folder/in per micro-batch."""
    frame = spark.readStream.schema("id BIGINT, day DATE, v STRING").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = frame.writeStream.format("lsmlake").options(checkpointLocation=str(folder / "c"), **options)
    return writer.trigger(availableNow=True).start(into)


@pytest.mark.parametrize(
    "engine", ["deduplicate", pytest.param("aggregation", marks=pytest.mark.connect(short="connect")), "append-only"]
)
def test_a_stream_is_written_exactly_once_by_the_id_of_its_query(spark, spark_lake, tmp_path, engine):
    """Also if Spark repeats a micro-batch that is committed already. Of rows with one key that of the later partition wins."""
    lsmlake.register(spark)
    options = {"bucket": 2, "merge-engine": engine, "fields.v.aggregate-function": "listagg"} if engine == "aggregation" else {}
    kind = {} if engine == "append-only" else {"primary_key": ["id"], "options": options}
    table = spark_lake.create_table("d.s", "id BIGINT NOT NULL, day DATE, v STRING", **kind)
    folder = table.meta.env.storage.place(table.path)
    rows_of = "id % 50 AS id", "date'2026-01-01' AS day"
    for number in range(3):
        frame = spark.range(0, 100, 1, 1).selectExpr(*rows_of, f"concat('{number}.', id div 50) AS v")
        frame.write.mode("append").parquet(str(tmp_path / "in"))
        time.sleep(0.02)  # files are taken in the order of their times
        query = stream_by_format(spark, tmp_path, folder)
        assert query.awaitTermination(60) and query.exception() is None
    values = {"deduplicate": "2.1", "aggregation": "0.0,0.1,1.0,1.1,2.0,2.1"}
    everything = [(i, f"{number}.{half}") for i in range(50) for number in range(3) for half in range(2)]
    expected = everything if engine == "append-only" else [(i, values[engine]) for i in range(50)]
    same(table.df(columns=["id", "v"]), sorted(expected, key=repr))
    assert table.snapshots()["commit_id"].to_pylist() == [0, 1, 2]
    assert set(table.snapshots()["writer_id"].to_pylist()) == {query.id}
    (tmp_path / "c" / "commits" / ".2.crc").unlink()
    (tmp_path / "c" / "commits" / "2").unlink()  # as if Spark had died before it noted the micro-batch
    query = stream_by_format(spark, tmp_path, folder)
    assert query.awaitTermination(60) and query.exception() is None
    same(table.df(columns=["id", "v"]), sorted(expected, key=repr))
    assert table.snapshots().num_rows == 3 and table.verify() == [] and unreferenced(table) == []


def test_rows_that_do_not_fit_a_message_and_micro_batches_that_fail(spark, table, folder, tmp_path):
    """Large parts wait in files of the table, which an error removes with the other files."""
    wide = spark.range(0, 300, 1, 2).selectExpr(
        "id % 200 AS id", "date'2026-01-01' AS day", "concat(id, repeat('x', 20000)) AS v", "id AS place"
    )
    save(wide, folder, **{"order-by": "place"})
    assert table.df().where("v like concat(if(id < 100, id + 200, id), 'x%')").count() == 200
    bad = wide.selectExpr("nullif(id, 99) AS id", "day", "v")
    with pytest.raises(PySparkException, match="column 'id': a null"):
        save(bad, folder)
    bad.repartition(1).write.parquet(str(tmp_path / "in"))
    with pytest.raises(PySparkException, match="column 'id': a null"):
        stream_by_format(spark, tmp_path, folder).awaitTermination(60)
    assert table.snapshots().num_rows == 1
    left = unreferenced(table)  # of tasks that Spark stopped, if there were any
    assert all("/manifest/staged-rows-" in path for path in left)
    assert table.remove_orphan_files(older_than="2100-01-01 00:00:00").files == len(left) and unreferenced(table) == []


def test_what_spark_and_we_refuse_of_streams(spark, table, folder, tmp_path):
    spark.range(1).selectExpr("id", "date'2026-01-01' AS day", "'x' AS v").write.parquet(str(tmp_path / "in"))
    with pytest.raises(PySparkException, match="option 'zone' is not supported for an append"):
        stream_by_format(spark, tmp_path, folder, zone="UTC").awaitTermination(60)
    counts = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in")).groupBy("id").agg(F.expr("string(count(*)) AS v"))
    writer = counts.selectExpr("id", "date'2026-01-01' AS day", "v").writeStream.format("lsmlake").trigger(availableNow=True)
    with pytest.raises(PySparkException, match=r"(?i)update"):
        writer.option("checkpointLocation", str(tmp_path / "u")).outputMode("update").start(folder).awaitTermination(60)
    table.upsert({"id": [9], "day": [None], "v": ["old"]})
    query = writer.option("checkpointLocation", str(tmp_path / "all")).outputMode("complete").start(folder)
    assert query.awaitTermination(60)
    same(table.df(columns=["id", "v"]), [(0, "1")])  # a complete result replaces all rows


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


@pytest.mark.parametrize(
    ("option", "verb", "words"),
    [
        ("'scan.snapshot-id' '1'", "INSERT INTO", "old snapshot"),
        ("'scan.tag-name' 'first'", "INSERT OVERWRITE", "old snapshot"),
        ("'apply-as-deletes' 'id = 9'", "INSERT OVERWRITE", "not supported for an overwrite"),
    ],
)
def test_a_catalog_table_does_not_take_rows_that_its_options_would_hide(spark, table, folder, option, verb, words):
    """The rows were written, and a query of the catalog table did not show them."""
    table.upsert(spark.range(2).selectExpr("id", "date'2026-01-01' AS day", "string(id) AS v"))
    table.create_tag("first")
    spark.sql(f"CREATE TABLE kept USING lsmlake OPTIONS (path '{folder}', {option})")
    try:
        with pytest.raises(PySparkException, match=words):
            spark.sql(f"{verb} kept VALUES (9, NULL, 'nine')")
        assert spark.table("kept").count() == table.count() == 2
    finally:
        spark.sql("DROP TABLE kept")


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
