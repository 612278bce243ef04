"""`Lake.sql` with Spark attached: Spark executes queries, and gives what the lake gives in process."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from naive import unreferenced
from pyspark.errors import PySparkException
from spark_support import same

import lsmlake
from lsmlake.errors import InvalidData, LakeError, TableNotFound

pytestmark = pytest.mark.spark

QUERIES = [
    "SELECT * FROM d.t",
    "SELECT name, count(*) AS n FROM d.t WHERE d.t.id > 1 GROUP BY name ORDER BY n DESC, name",
    "WITH t AS (SELECT id FROM d.t VERSION AS OF 1) SELECT t.id, u.name FROM t LEFT JOIN d.t AS u ON t.id = u.id",
    "SELECT d.t.id, b.n FROM d.t JOIN batch b USING (id) WHERE name IN ('a', 'it''s')",
    "SELECT max(snapshot_id) AS s FROM d.t$snapshots",
    "SELECT rowkind, count(*) AS n FROM d.t$audit_log GROUP BY rowkind",
    "SELECT t.id FROM d.t JOIN d.t$ro AS r USING (id)",
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
    "SELECT size(collect_set(y)) AS a, array_max(collect_list(i) FILTER (WHERE b)) AS l, bit_or(y) AS o FROM d.n GROUP BY b",
    "SELECT percentile(y, 0.3) AS p, percentile_approx(i, 0.5) AS a, approx_percentile(y, 0.25, 100) AS q FROM d.n GROUP BY b",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY y) AS c, percentile_disc(0.3) WITHIN GROUP (ORDER BY y) AS d FROM d.n",
    "SELECT listagg(g, '-') WITHIN GROUP (ORDER BY g DESC, k) AS l, approx_count_distinct(g) AS a, kurtosis(y) AS u FROM d.n",
    "SELECT first(y, true) AS f, last_value(y) IGNORE NULLS AS v FROM d.n WHERE k = 3 OR k = 4",
    "SELECT x FROM d.n PIVOT (sum(i) AS s FOR g IN ('a' AS x, 'b'))",
    "SELECT v FROM d.n UNPIVOT (v FOR name IN (k, i))",
    "SELECT a.k, b.k AS l, c.g FROM d.n a LEFT JOIN (d.n b FULL JOIN d.n c ON b.k = c.i) ON a.k = b.k OR a.i = c.i",
    "SELECT k, x.g, y.i FROM (d.n AS x JOIN d.n AS y USING (k)) JOIN (SELECT k FROM d.n) USING (k)",
    "SELECT j.b FROM (d.n NATURAL JOIN (SELECT k FROM d.n)) AS j",
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


KINDS = {
    "key": "PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2')",
    "vectors": "PARTITIONED BY (k)",
    "copy on write": "TBLPROPERTIES ('deletion-vectors.enabled' = 'false')",
}
STATEMENTS = [
    "INSERT INTO d.t VALUES (1, 1, 10, 'a'), (2, NULL, 20, 'b'), (3, 2, NULL, 'c'), (4, 1, 40, NULL)",
    "INSERT INTO d.t (s, id) SELECT upper(s), id + 10 FROM d.t WHERE id < :n",
    "WITH x AS (SELECT max(id) AS m FROM d.t) INSERT INTO d.t BY NAME SELECT 'q' AS s, m + 1 AS id, 2 AS k FROM x",
    "UPDATE d.t SET v = (SELECT max(u.n) FROM d.u u WHERE u.id = d.t.id), s = concat(s, '!') WHERE id IN (SELECT id FROM d.u)",
    "UPDATE d.t AS o SET k = 2 WHERE EXISTS (SELECT 1 FROM d.t AS i WHERE i.id = o.id + 1 AND i.k = 1)",
    "DELETE FROM d.t WHERE v < (SELECT avg(v) FROM d.t VERSION AS OF 1) AND id NOT IN (SELECT id FROM d.u WHERE n > :n)",
    """MERGE INTO d.t AS x USING (SELECT u.id, u.n, t.v FROM d.u u LEFT JOIN d.t t ON u.id = t.id) AS y ON x.id = y.id
       WHEN MATCHED AND y.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = y.n + 1, s = 'm'
       WHEN NOT MATCHED THEN INSERT (id, v) VALUES (y.id + 100, y.n)""",
    "MERGE INTO d.t USING batch b ON d.t.id = b.id WHEN NOT MATCHED BY SOURCE AND d.t.v > 30 THEN UPDATE SET v = 0",
    """WITH c AS (SELECT id FROM d.u), e(m) AS (SELECT max(id) FROM c WHERE id < :n)
       UPDATE d.t SET v = (SELECT m FROM e), s = DEFAULT WHERE id IN (SELECT id FROM c) AND v IS NOT NULL""",
    "WITH c AS (SELECT id FROM d.u) DELETE FROM d.t WHERE id IN (SELECT id + 1 FROM c) AND NULL IS NULL",
    """WITH c AS (SELECT id + 200 AS id, n AS v FROM d.u) MERGE INTO d.t USING c ON t.id = c.id
       WHEN MATCHED AND NULL THEN DELETE WHEN NOT MATCHED AND c.id IN (SELECT id + 200 FROM d.u WHERE n > 7) THEN
       INSERT (id, v) VALUES (id, (SELECT max(id) FROM c))""",
    """MERGE WITH SCHEMA EVOLUTION INTO d.t USING (SELECT id, k, v, s, 'new' AS extra FROM d.t WHERE id = 202) e ON t.id = e.id
       WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "INSERT OVERWRITE d.t SELECT * FROM d.t WHERE s IS NOT NULL",
    "CREATE TABLE d.c TBLPROPERTIES ('primary-key' = 'id') AS SELECT t.id, u.n FROM d.t t JOIN d.u u ON t.id = u.id",
]


@pytest.mark.parametrize("kind", ["key", pytest.param("vectors", marks=pytest.mark.connect(short="connect")), "copy on write"])
def test_statements_hold_queries_that_spark_executes(spark_lake, lake, tmp_path, kind):
    """The same reports and rows as in process, on a copy."""
    end = KINDS[kind]
    lake.sql(f"CREATE TABLE d.t (id BIGINT NOT NULL, k INT, v BIGINT, s STRING{', ' if kind == 'key' else ') '}{end}")
    lake.sql("CREATE TABLE d.u AS SELECT * FROM VALUES (2L, 7L), (3L, 8L), (12L, NULL), (50L, 9L) AS u(id, n)")
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    copy, batch = lsmlake.connect(tmp_path / "copy"), {"id": [1, 12, 50]}
    for text in STATEMENTS if kind == "key" else STATEMENTS[:1] + STATEMENTS[3:12]:
        args = {"n": 8} if ":n" in text else None
        found, expected = (one.sql(text, args, tables={"batch": batch}).to_arrow() for one in (spark_lake, copy))
        assert found.to_pylist() == expected.to_pylist(), text
        for name in ("d.t", "d.c") if text.startswith("CREATE") else ("d.t",):
            same(lake.table(name).scan().to_arrow(), copy.table(name).scan().to_arrow())
    assert lake.table("d.t").verify() == [] and unreferenced(lake.table("d.t")) == []


REFUSED = {
    "INSERT INTO d.t SELECT 1.5, 'x'": "BIGINT without loss",
    "INSERT INTO d.t SELECT 'x', 'x'": "does not fit column 'id'",
    "INSERT INTO d.t SELECT 1": "the number of values does not fit",
    "INSERT INTO d.t SELECT 1 / 0, 'x'": "(?i)zero",
    "INSERT INTO d.t SELECT nope FROM own": "nope",
    "INSERT INTO d.t SELECT id, 'x' FROM nope": "nope",
    "DELETE FROM d.t WHERE id IN (SELECT nope FROM own)": "nope",
    "UPDATE d.t SET s = (SELECT id FROM own)": "(?i)more than one row",
    "MERGE INTO d.t USING own o ON t.id = o.id WHEN MATCHED AND o.id IN (SELECT nope FROM own) THEN DELETE": "nope",
    "UPDATE d.t SET id = (SELECT 'x')": "does not fit column 'id'",
    "MERGE INTO d.t USING (SELECT id DIV 2 AS id FROM own) o ON t.id = o.id WHEN MATCHED THEN UPDATE SET s = 'x'": "several",
    "MERGE INTO d.t USING own o ON t.id = o.id WHEN MATCHED THEN UPDATE SET s = nullif(uuid(), 'x')": "NULLIF twice in a MERGE",
    "MERGE INTO d.t USING own o ON t.id = o.id WHEN MATCHED THEN UPDATE SET s = rand() BETWEEN 0 AND 1": "BETWEEN twice in a",
    "MERGE INTO d.t USING own o ON t.id = o.id WHEN MATCHED THEN UPDATE SET id = nullif('x', uuid())": "does not fit column 'id'",
}


@pytest.mark.connect
def test_a_dataframe_is_data_by_name(spark, spark_lake, lake):
    """In every statement that reads, beside other data and a view of Spark of the same name, which stays."""
    spark_lake.sql("CREATE TABLE d.t (id BIGINT NOT NULL, s STRING, PRIMARY KEY (id))")
    spark.range(1).createOrReplaceTempView("news")
    news = {"news": spark.range(4).selectExpr("id", "concat('n', id) AS s"), "more": pa.table({"id": pa.array([7], pa.int64())})}
    for text in (
        "INSERT INTO d.t SELECT id, s FROM news UNION ALL SELECT id, 'm' FROM more",
        "UPDATE d.t SET s = 'u' WHERE id IN (SELECT id + 1 FROM news WHERE id < 1)",
        "MERGE INTO d.t USING news ON t.id = news.id WHEN MATCHED AND t.id = 2 THEN UPDATE SET s = news.s || '!'",
        "DELETE FROM d.t WHERE id = (SELECT max(id) FROM news)",
    ):
        spark_lake.sql(text, tables=news)
    assert lake.sql("SELECT id, s FROM d.t ORDER BY id").fetchall() == [(0, "n0"), (1, "u"), (2, "n2!"), (7, "m")]
    assert spark_lake.sql("SELECT count(*) FROM news", tables=news).first()[0] == 4
    assert spark.table("news").count() == 1
    with pytest.raises(LakeError, match="is no batch"):
        spark_lake.sql("INSERT INTO d.t SELECT value, 'x' FROM ticks", tables={"ticks": spark.readStream.format("rate").load()})
    with pytest.raises(LakeError, match="Spark attached"):
        lake.sql("SELECT * FROM news", tables=news)
    spark.catalog.dropTempView("news")


@pytest.mark.parametrize("text", ["VALUES (1, DEFAULT, upper('q')), (2, 1 + 1, DEFAULT)", "(id) VALUES (1), (2)"])
def test_the_word_default_is_a_value_with_spark_as_without(lake, spark_lake, text):
    found = []
    for number, one in enumerate((lake, spark_lake)):
        one.sql(f"CREATE TABLE d.defaults{number} (id INT, n INT DEFAULT 7, v STRING DEFAULT 'x', PRIMARY KEY (id))")
        one.sql(f"INSERT INTO d.defaults{number} {text}")
        found.append(sorted(map(tuple, (row.values() for row in one.table(f"d.defaults{number}").to_arrow().to_pylist()))))
    assert found[0] == found[1]
    assert {7, "x"} < {value for row in found[0] for value in row}


@pytest.mark.connect
def test_a_merge_does_not_choose_among_rows_of_a_new_key(spark_lake):
    spark_lake.sql("CREATE TABLE d.m (id BIGINT, v INT, PRIMARY KEY (id))")
    spark_lake.sql("CREATE TABLE d.several (id BIGINT, v INT)")
    merge = "MERGE INTO d.m USING d.several s ON m.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    spark_lake.sql("INSERT INTO d.several VALUES (1, 5), (1, 5), (2, 3)")
    spark_lake.sql(merge)  # by tasks: the table is empty
    same(spark_lake.table("d.m").df(), [(1, 5), (2, 3)])
    for key in (3, 4):
        spark_lake.sql(f"INSERT INTO d.several VALUES ({key}, 1), ({key}, 2)")
        with pytest.raises(InvalidData, match="rows of one key differ"):
            spark_lake.sql(merge)  # in the driver
        same(spark_lake.table("d.m").df(), [(1, 5), (2, 3)])


def test_views_of_spark_are_sources_and_nothing_happens_on_an_error(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT, s STRING")
    spark.range(4).createOrReplaceTempView("own")
    try:
        report = spark_lake.sql("INSERT INTO d.t SELECT id, transform(array(id), x -> string(x))[0] FROM own WHERE id > ?", [0])
        assert report.to_arrow()["num_affected_rows"].to_pylist() == [3]
        views = len(spark.catalog.listTables())
        assert (
            spark_lake.sql("DELETE FROM d.t WHERE EXISTS (SELECT 1 FROM own WHERE own.id = t.id + 1)").to_arrow()[0][0].as_py()
            == 2
        )
        spark_lake.sql("MERGE INTO d.t USING own ON t.id = own.id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (own.id, 'new')")
        same(table.df(), [(0, "new"), (1, "new"), (2, "new"), (3, "3")])
        spark_lake.sql("CREATE TABLE d.copy AS SELECT t.*, own.id AS other FROM d.t t JOIN own ON t.id = own.id")
        same(spark_lake.sql("SELECT other FROM d.copy"), [(i,) for i in range(4)])
        before = table.snapshots().num_rows
        for text, words in REFUSED.items():
            with pytest.raises(LakeError, match=words):
                spark_lake.sql(text)
            assert table.snapshots().num_rows == before, text
        assert len(spark.catalog.listTables()) <= views + 1, "views of statements do not stay"
    finally:
        spark.catalog.dropTempView("own")
    assert unreferenced(table) == []


EXPLAINED = {
    "DELETE FROM d.t WHERE id = 3": ["rows      found by Arrow, in the driver", "-> 1 (statistics)", "action    delete"],
    "UPDATE d.t SET s = upper(s) WHERE id = 3 AND id % 2 = 1": [
        "rows      found by Spark",
        "-> 1 (statistics)",
        "action    update s",
        "== Physical Plan ==",
    ],
    "DELETE FROM d.t WHERE id IN (SELECT id FROM own)": ["found by Spark", "files     4 (snapshot)", "LeftSemi"],
    "INSERT INTO d.t SELECT id, 'x' FROM own": ["columns   id, s", "writes    new rows", "Range"],
    "INSERT OVERWRITE d.t VALUES (1, 'x')": ["replaces  all rows", "files     4 (snapshot)"],
    "MERGE INTO d.t USING own o ON t.id = o.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (o.id)": [
        "on        t.id = o.id",
        "fewer     only files are read that can hold id as in id of the source",
        "matched: delete",
        "not matched: insert id",
        "Join",
    ],
}
"""A statement -> what EXPLAIN says of it."""


@pytest.mark.connect(short="classic")
def test_spark_explains_changes_and_nothing_is_written(spark, spark_lake):
    table = spark_lake.create_table("d.t", "id BIGINT, s STRING")
    for number in range(4):
        table.append([{"id": number, "s": "x"}])
    spark.range(4).createOrReplaceTempView("own")
    try:
        views = len(spark.catalog.listTables())
        for text, words in EXPLAINED.items():
            lines = spark_lake.sql(f"EXPLAIN {text}").to_arrow()["plan"].to_pylist()
            assert lines[0] == "d.t: snapshot 4, to be changed"
            for word in words:
                assert any(word in line for line in lines), (text, word, lines)
            longer = spark_lake.sql(f"EXPLAIN FORMATTED {text}").to_arrow()["plan"].to_pylist()
            assert any(line.startswith("  file      data-") for line in longer) == ("INTO d.t SELECT" not in text), longer
        for text, words in REFUSED.items():
            if not any(word in words for word in ("zero", "loss", "several", "row")):  # errors of values, which nobody computes
                with pytest.raises(LakeError, match=words):
                    spark_lake.sql(f"EXPLAIN {text}")
        with pytest.raises(LakeError, match="Spark has no EXPLAIN ANALYZE"):
            spark_lake.sql("EXPLAIN ANALYZE DELETE FROM d.t")
        assert table.version.number == 4 and len(spark.catalog.listTables()) == views
    finally:
        spark.catalog.dropTempView("own")
    assert unreferenced(table) == []


@pytest.mark.connect
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
    explained = spark_lake.sql("EXPLAIN SELECT name FROM d.t WHERE id = ?", [7]).first()[0]
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,7)]" in explained
    assert "ReadSchema: struct<id:bigint,name:string," in explained  # and the places of rows, of which one is dead
    assert len(spark_lake.sql("SHOW TABLES")) == 2
    with pytest.raises(TableNotFound):
        spark_lake.sql("SELECT * FROM d.nope")
    with pytest.raises(LakeError):
        spark_lake.sql("SELECT nope FROM d.t")
    spark.catalog.dropTempView("own")


FIELDS = [
    "INSERT INTO d.f SELECT 4, named_struct('a', 4S, 'b', named_struct('x', 1.5BD, 'y', 'q')), array(named_struct('p', 7))",
    "UPDATE d.f SET st.a = 7 WHERE id < (SELECT max(id) FROM d.f)",
    "UPDATE d.f AS o SET o.st.b.y = upper(o.st.b.y), st.a = o.st.a + (SELECT min(id) FROM d.f) WHERE o.st.b.x > 1",
    """MERGE INTO d.f AS o USING batch AS n ON o.id = n.id WHEN MATCHED AND n.id > 1 THEN UPDATE SET o.st.B.y = 'm', st.a = n.id
       WHEN MATCHED THEN UPDATE SET st.b.x = 2 WHEN NOT MATCHED BY SOURCE THEN UPDATE SET st.b = NULL""",
]


@pytest.mark.parametrize("kind", ["PRIMARY KEY (id)", "append-only"])
def test_fields_of_structs_are_assigned(spark_lake, lake, tmp_path, kind):
    key = f", {kind}" if kind.startswith("PRIMARY") else ""
    nested = "st STRUCT<a: BIGINT, b: STRUCT<x: DECIMAL(9,2), y: STRING>>, l ARRAY<STRUCT<p: BIGINT>>"
    lake.sql(f"CREATE TABLE d.f (id INT NOT NULL, {nested}{key})")
    lake.sql("""INSERT INTO d.f VALUES (1, named_struct('a', 1, 'b', named_struct('x', 1, 'y', 'p')), NULL), (2, NULL, NULL),
        (3, named_struct('a', NULL, 'b', NULL), array(NULL, named_struct('p', 1)))""")
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    copy, batch = lsmlake.connect(tmp_path / "copy"), pa.table({"id": pa.array([1, 2], pa.int32())})
    for text in FIELDS:
        for one in (spark_lake, copy):
            one.sql(text, tables={"batch": batch})
        same(lake.table("d.f").scan().to_arrow(), copy.table("d.f").scan().to_arrow())
    for one in (spark_lake, copy):
        with pytest.raises(LakeError, match="without loss"):
            one.sql("UPDATE d.f SET st.b.x = (SELECT 1.234)")


def test_views_and_names_without_a_database_are_those_of_the_lake(spark, spark_lake, tmp_path):
    spark_lake.sql("CREATE TABLE d.t (id INT, v STRING, PRIMARY KEY (id))")
    spark_lake.sql("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
    spark_lake.sql("CREATE VIEW d.v (k, w) AS SELECT * FROM d.t WHERE id > 1")
    spark_lake.sql("ALTER TABLE d.t ADD COLUMN n INT FIRST")
    spark_lake.sql("CREATE TEMPORARY VIEW tv AS SELECT k * 10 AS k FROM d.v")
    assert spark_lake.sql("SELECT v.k, v.w, tv.k FROM d.v JOIN tv ON tv.k > v.k").collect() == [(2, "b", 20)]
    spark_lake.sql("INSERT INTO d.t (id, v) SELECT k + 1, w FROM d.v")
    spark_lake.sql("DELETE FROM d.t WHERE id IN (SELECT k FROM d.v WHERE w = 'b') AND id < 3")
    assert spark_lake.sql("SELECT k FROM d.v").collect() == [(3,)]
    spark_lake.sql("CREATE TABLE d.assigned (k BIGINT NOT NULL, v STRING) AS SELECT id, v FROM d.t")
    assert spark_lake.table("d.assigned").schema.field("k").type == "int64"
    assert spark_lake.sql("SELECT * FROM d.assigned ORDER BY k").collect() == [(1, "a"), (3, "b")]
    spark_lake.sql("CREATE OR REPLACE TABLE d.assigned (v STRING NOT NULL) AS SELECT v FROM d.t")
    assert not spark_lake.table("d.assigned").schema.field("v").nullable and spark_lake.table("d.assigned").count() == 2
    spark_lake.drop_table("d.assigned")
    spark_lake.sql("CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) AS SELECT id + 1 AS id, v FROM d.t")
    assert spark_lake.sql("SELECT * FROM d.t ORDER BY id").collect() == [(2, "a"), (4, "b")]
    spark_lake.sql("USE d")
    assert spark_lake.sql("SELECT count(*) FROM t JOIN range(3, 9) r ON r.id = t.id").collect() == [(1,)]
    assert spark_lake.sql("SELECT table_name FROM information_schema.tables ORDER BY 1").collect() == [("t",), ("v",)]
    (tmp_path / "a.csv").write_text("1,x\n")
    assert spark_lake.sql(f"SELECT _c1 FROM csv.`{tmp_path}/a.csv`").collect() == [("x",)]
    spark.range(1).createOrReplaceTempView("only_spark")
    assert spark_lake.sql("SELECT * FROM only_spark").collect() == [(0,)]
    with pytest.raises(LakeError, match="only_spark"):
        spark_lake.sql("CREATE VIEW d.w AS SELECT * FROM only_spark")
