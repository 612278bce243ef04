"""Tables of a lake by name in Spark: its catalog and temporary views, and what Spark refuses there."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from spark_support import same

import lsmlake
from lsmlake.errors import InvalidQuery

pytestmark = [pytest.mark.spark, pytest.mark.connect(short="classic")]


@pytest.fixture
def table(spark, spark_lake):
    spark_lake.create_database("sales")
    table = spark_lake.create_table("sales.orders", "id BIGINT NOT NULL, v STRING", primary_key=["id"], options={"bucket": 2})
    spark_lake.create_table("d.events", "id BIGINT, v STRING")
    yield table
    for database in ("sales", "d"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
    for view in ("orders", "events"):
        spark.catalog.dropTempView(view)


@pytest.mark.connect(short="classic")
def test_a_table_by_name_is_read_and_written_at_its_latest_snapshot(spark, spark_lake, table, tmp_path):
    assert spark_lake.register_tables(spark) == ["d.events", "sales.orders"]
    new = spark.range(3).selectExpr("id", "string(id) AS v")
    new.createOrReplaceTempView("new")
    spark.sql("INSERT INTO sales.orders SELECT id, v FROM new WHERE id < 2")
    spark.sql("INSERT INTO sales.orders (v, id) VALUES ('x', 2)")
    same(spark.table("sales.orders"), [(0, "0"), (1, "1"), (2, "x")])
    same(spark.sql("SELECT * FROM sales.orders WITH (`scan.snapshot-id` = 1) WHERE id = 1"), [(1, "1")])
    spark.sql("INSERT OVERWRITE sales.orders SELECT 1L, 'z'")
    spark.sql("INSERT INTO d.events TABLE sales.orders")
    same(spark.table("d.events"), [(1, "z")])
    new.selectExpr("v", "id").writeTo("sales.orders").append()
    new.selectExpr("id + 1", "v").write.insertInto("sales.orders")
    new.write.format("lsmlake.sales.orders").mode("append").saveAsTable("sales.orders")
    spark.sql("INSERT INTO sales.orders BY NAME SELECT 'y' AS v, 4L AS id")
    same(table.df(), [(0, "0"), (1, "1"), (2, "2"), (3, "2"), (4, "y")])
    new.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id BIGINT, v STRING").parquet(str(tmp_path / "in"))
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert writer.toTable("sales.orders").awaitTermination(60)
    assert table.snapshots()["commit_id"].to_pylist()[-1] == 0
    assert spark.readStream.table("sales.orders").columns == ["id", "v"]
    spark.catalog.dropTempView("new")


def test_an_entry_follows_its_table_when_it_is_registered_again(spark, spark_lake, table, tmp_path):
    spark_lake.register_tables(spark, "sales")
    table.upsert({"id": [1], "v": ["a"]})
    assert spark_lake.register_tables(spark, "sales") == ["sales.orders"]
    table.alter(lsmlake.add_column("n", "INT"))
    assert spark.table("sales.orders").columns == ["id", "v"]
    lsmlake.connect(tmp_path / "warehouse").register_tables(spark, "sales")
    spark.sql("INSERT INTO sales.orders VALUES (2, 'b', 7)")
    same(spark.table("sales.orders"), [(1, "a", None), (2, "b", 7)])
    spark.sql("DROP TABLE sales.orders")
    assert table.scan().count() == 2, "Spark drops its own entry alone"
    spark.sql("CREATE TABLE sales.orders (other INT) USING parquet")
    with pytest.raises(InvalidQuery, match=r"another table of this name.*struct<other:int>"):
        spark_lake.register_tables(spark, "sales")


REFUSED = {
    "DELETE FROM sales.orders WHERE id = 1": "(?i)does not support delete",
    "UPDATE sales.orders SET v = 'x'": "does not support UPDATE",
    "MERGE INTO sales.orders t USING orders s ON t.id = s.id WHEN MATCHED THEN DELETE": "does not support MERGE",
    "TRUNCATE TABLE sales.orders": "(?i)does not support truncate",
    "INSERT INTO sales.orders REPLACE WHERE id = 1 SELECT 1L, 'x'": "does not support overwrite by filter",
    "SELECT * FROM sales.orders VERSION AS OF 1": "(?i)time travel",
    "INSERT INTO orders VALUES (1, 'x')": "(?i)view",
    "SELECT * FROM sales.orders WITH (`scan.snapshot-id` = 'x')": "is a number",
}


def test_a_view_is_always_the_latest_snapshot(spark, spark_lake, table):
    assert spark_lake.register_views(spark, database="sales") == ["orders"]
    frame = spark.table("orders")
    for number in range(2):
        table.upsert({"id": [number], "v": [str(number)]})
        assert spark.sql("SELECT count(*) FROM orders").first()[0] == number + 1
    assert frame.count() == 2, "a DataFrame is planned when it is first used"
    same(spark.sql("SELECT o.v FROM orders o JOIN sales.orders s ON o.id = s.id WHERE o.id = 1"), [("1",)])
    for text, words in REFUSED.items():
        with pytest.raises(PySparkException, match=words):
            spark.sql(text).collect()
    for text in list(REFUSED)[:3]:
        spark_lake.sql(text if "MERGE" not in text else text.replace("USING orders", "USING sales.orders"))
    assert table.scan().count() == 0
    table.upsert({"id": [1], "v": ["a"]})
    spark_lake.create_table("d.orders", "id BIGINT")
    with pytest.raises(InvalidQuery, match="two tables have one name in Spark"):
        spark_lake.register_views(spark)
    table.alter(lsmlake.rename_column("v", "w"))
    with pytest.raises(PySparkException, match="does not have the columns that Spark asks for"):
        spark.sql("SELECT * FROM orders").collect()
    spark_lake.drop_table("sales.orders")
    with pytest.raises(PySparkException, match="there is no table"):
        spark.sql("SELECT * FROM orders").collect()


def test_the_folder_of_the_lake_is_not_the_warehouse_of_spark(spark, tmp_path):
    """Spark would remove the folder of a database that it drops."""
    lake = lsmlake.connect(tmp_path, spark=spark)
    lake.create_database("own")
    table = lake.create_table("own.t", "id BIGINT")
    spark.sql(f"CREATE DATABASE own LOCATION '{tmp_path}/own.db'")
    with pytest.raises(InvalidQuery, match="Spark's warehouse is the folder of the lake"):
        lake.register_tables(spark)
    assert table.version.schema.columns.names == ["id"]
