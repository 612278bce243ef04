"""`Lake.sql` with Spark attached: Spark executes queries, and gives what the lake gives in process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
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

NUMBERS = """CREATE TABLE d.n TBLPROPERTIES ('primary-key' = 'k') AS SELECT * FROM VALUES
    (1, 'a', CAST(-3 AS TINYINT), 10, 1.50BD, CAST(0.5 AS DOUBLE), true), (2, 'a', 5Y, -4, 2.25BD, DOUBLE('NaN'), false),
    (3, 'b', NULL, 7, NULL, -1.0D, NULL), (4, NULL, 7Y, NULL, -9.99BD, NULL, true), (5, 'b', 1Y, 2147483647, 0.01BD, 1e300D, true)
    AS n(k, g, y, i, c, d, b)"""
MEANINGS = [
    "SELECT g, count(i) AS n, sum(y) AS sy, sum(i) AS si, sum(c) AS sc, avg(c) AS ac, avg(i) AS ai FROM d.n GROUP BY g",
    "SELECT b, min(d) AS md, max(d) AS xd, sum(c) / count(*) AS q, avg(c) + 1 AS a, round(avg(d), 2) AS r FROM d.n GROUP BY b",
    "SELECT c / 3 AS t, c * 1.5 AS m, i / y AS q, c % 2 AS r FROM d.n",
    "SELECT count(DISTINCT d) AS a, count(DISTINCT g, b) AS b, stddev(y) AS s, median(y) AS m, bool_and(b) AS e FROM d.n",
    "SELECT k, lag(y, 1, 0L) OVER (ORDER BY k) AS l, rank() OVER (ORDER BY g) AS r FROM d.n",
    "SELECT k, sum(c) OVER (PARTITION BY g ORDER BY k) AS s, last_value(i) IGNORE NULLS OVER (ORDER BY k) AS v FROM d.n",
    "SELECT k, sum(y) OVER (ORDER BY y RANGE BETWEEN 4 PRECEDING AND CURRENT ROW) AS s FROM d.n",
    "SELECT row_number() OVER (ORDER BY d, k) AS a, row_number() OVER (ORDER BY d DESC, k) AS b, k FROM d.n",
    "SELECT g, b, count(*) AS n FROM d.n GROUP BY ROLLUP (g, b)",
    "SELECT a.k, b.k AS o FROM d.n a JOIN d.n b ON a.d = b.d OR a.g <=> b.g",
    "SELECT k FROM d.n WHERE i NOT IN (SELECT i FROM d.n WHERE k < 5)",
    "SELECT y AS v FROM d.n UNION SELECT k FROM d.n",
    "SELECT g, b, grouping(g) AS x, grouping_id() AS i, sum(k) AS s FROM d.n GROUP BY GROUPING SETS ((g, b), (b), ())",
    "SELECT g, b, grouping_id(g, b) AS i, count(*) AS n FROM d.n GROUP BY g, b WITH CUBE HAVING grouping(b) = 0",
    "SELECT k, sum(k) OVER w AS s, rank() OVER (w) AS r FROM d.n WINDOW w AS (PARTITION BY g ORDER BY k)",
    "SELECT k, p, e FROM d.n LATERAL VIEW OUTER posexplode(split(nullif(g, 'b'), 'x')) q AS p, e WHERE k > 1",
    "SELECT k, x, e FROM d.n LATERAL VIEW inline(array(struct(y, g))) AS x, s LATERAL VIEW explode(array(s, 'z')) AS e",
    "SELECT explode(array(k, i)), k FROM d.n WHERE k < 4",
    "SELECT stack(2, k, g, i) AS (a, b) FROM d.n",
    "SELECT * FROM (SELECT k, g FROM d.n) NATURAL JOIN (SELECT k, b FROM d.n WHERE b)",
    "SELECT id, e FROM range(1, 8, 3), LATERAL (SELECT id * 2 AS e)",
    "SELECT k FROM d.n WHERE (k, g) IN (SELECT k + 1, 'a' FROM d.n)",
    "SELECT struct(k, g).g AS a, (array(struct(g)))[0].g AS b FROM d.n ORDER BY ALL",
    "SELECT sum(y) FILTER (WHERE b) AS s, first(k) FILTER (WHERE k = 3) AS f, max_by(g, k) AS m FROM d.n",
]
ERRORS = [
    "SELECT i + 1 FROM d.n",
    "SELECT sum(x) FROM VALUES (9223372036854775807L), (1L) t(x)",
    "SELECT g + 1 FROM d.n",
    "SELECT g, k FROM d.n GROUP BY g",
]


def test_both_engines_mean_the_same(spark_lake, lake):
    lake.sql(NUMBERS)
    for query in MEANINGS:
        found, expected = lake.sql(query).to_arrow(), spark_lake.sql(query).toArrow()
        assert found.schema.types == expected.schema.types, query
        same(found, expected)
    for query in ERRORS:
        for engine in (lake, spark_lake):
            with pytest.raises((LakeError, PySparkException)):
                list(engine.sql(query).toArrow() if engine is spark_lake else engine.sql(query))


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
