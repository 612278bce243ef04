"""View tables with Spark attached: this process refreshes them, Spark reads them."""

from __future__ import annotations

import pytest

from lsmlake import Lake
from lsmlake.errors import InvalidQuery

pytestmark = pytest.mark.spark


@pytest.mark.connect(short="classic")
def test_spark_reads_a_view_table_and_cannot_write_it(spark, spark_lake: Lake):
    rows = spark.range(20).selectExpr("id", "CAST(id % 3 AS STRING) AS g", "CAST(id AS DECIMAL(10,2)) AS amount")
    orders = spark_lake.create_table_from("d.orders", rows, primary_key=["id"], options={"bucket": 1})
    query = "SELECT g, sum(amount) AS total, count(*) AS n FROM d.orders GROUP BY g"
    spark_lake.sql(f"CREATE MATERIALIZED VIEW d.v AS {query}")
    orders.upsert(spark.range(5, 25).selectExpr("id", "'x' AS g", "CAST(1 AS DECIMAL(10,2)) AS amount"))
    assert spark_lake.refresh("d.v").way == "changes"
    view = spark_lake.table("d.v")
    expected = {tuple(row) for row in spark_lake.sql(query).collect()}
    assert {tuple(row) for row in view.df().collect()} == expected
    assert {tuple(row) for row in spark_lake.sql("SELECT * FROM d.v").collect()} == expected
    assert view.df().columns == ["g", "total", "n"]
    assert spark_lake.sql("SELECT count(*) FROM d.v WHERE g = 'x'").collect()[0][0] == 1
    with pytest.raises(InvalidQuery, match="only a refresh writes"):
        view.upsert(view.df())
    with pytest.raises(InvalidQuery, match="only a refresh writes"):
        spark_lake.sql("DELETE FROM d.v WHERE n > 1")
    with pytest.raises(InvalidQuery, match="only a refresh writes"):
        view.sink()
