"""`Lake.sql` with Spark attached: Spark executes queries, and gives what the lake gives in process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from spark_support import same

from lsmlake.errors import LakeError, TableNotFound

pytestmark = [pytest.mark.spark, pytest.mark.connect]

QUERIES = [
    "SELECT * FROM d.t",
    "SELECT name, count(*) AS n FROM d.t WHERE d.t.id > 1 GROUP BY name ORDER BY n DESC, name",
    "WITH t AS (SELECT id FROM d.t VERSION AS OF 1) SELECT t.id, u.name FROM t LEFT JOIN d.t AS u ON t.id = u.id",
    "SELECT d.t.id, b.n FROM d.t JOIN batch b USING (id) WHERE name IN ('a', 'it''s')",
    "SELECT max(snapshot_id) AS s FROM d.t$snapshots",
    "SELECT id FROM d.t FOR VERSION AS OF 'eod' UNION SELECT k FROM `d`.`u`",
]


def test_spark_executes_queries(spark, spark_lake, lake):
    spark_lake.sql("CREATE TABLE d.t (id BIGINT, name STRING, PRIMARY KEY (id))")
    spark_lake.sql("INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, :x)", {"x": "it's"})
    spark_lake.sql("CALL create_tag('d.t', name => 'eod')")
    spark_lake.sql("CREATE TABLE d.u TBLPROPERTIES ('primary-key' = 'k') AS SELECT id * 10 AS k FROM d.t")
    spark_lake.sql("DELETE FROM d.t WHERE id = 2")
    batch = pa.table({"id": pa.array([1, 3], pa.int64()), "n": [1.5, 2.5]})
    for query in QUERIES:
        found = spark_lake.sql(query, tables={"batch": batch})
        same(found, lake.sql(query, tables={"batch": batch}).to_arrow())
    spark.range(3).createOrReplaceTempView("own")
    assert spark_lake.sql("SELECT t.name FROM d.t t JOIN own ON t.id = own.id WHERE own.id >= :least", {"least": 1}).count() == 1
    assert len(spark_lake.sql("SHOW TABLES")) == 2
    with pytest.raises(TableNotFound):
        spark_lake.sql("SELECT * FROM d.nope")
    with pytest.raises(LakeError):
        spark_lake.sql("SELECT nope FROM d.t")
    spark.catalog.dropTempView("own")
