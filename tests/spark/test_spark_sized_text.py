"""VARCHAR(n) and CHAR(n) with Spark: the answers of Spark's own tables, and of tables of the lake, which must be equal."""

from __future__ import annotations

import pytest
from effort import in_turn
from pyspark.errors import PySparkException
from sized_text_cases import CONDITIONS, KEPT, QUERIES, ROWS, STORED, TABLES, TOO_LONG

from lsmlake import change_type
from lsmlake.errors import InvalidData

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

OWN = "sized_text"
"""The database of Spark's own tables."""


@pytest.fixture(scope="module")
def own(spark):
    """Spark's own tables of the cases, in the current database."""
    spark.sql(f"CREATE DATABASE {OWN}")
    spark.catalog.setCurrentDatabase(OWN)
    for name, columns in TABLES.items():
        spark.sql(f"CREATE TABLE {name} ({columns.replace(': ', ':')}) USING parquet")
        spark.sql(f"INSERT INTO {name} VALUES {', '.join(ROWS[name])}")
    yield spark
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE {OWN} CASCADE")


@pytest.fixture
def filled(spark_lake):
    spark_lake.sql("USE d")
    for name, columns in TABLES.items():
        spark_lake.sql(f"CREATE TABLE {name} ({columns})")
        for row in ROWS[name]:  # some files have deleted rows, some none
            spark_lake.sql(f"INSERT INTO {name} VALUES {row}")
    return spark_lake


def plain(rows) -> list[tuple]:
    return [tuple(value.asDict() if hasattr(value, "asDict") else value for value in row) for row in rows]


def ids(rows) -> list[int]:
    return sorted(row[0] for row in rows)


def test_the_cases_are_the_answers_of_spark(own):
    assert plain(own.sql("SELECT * FROM t ORDER BY id").collect()) == STORED
    for row in TOO_LONG:
        with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
            own.sql(f"INSERT INTO t VALUES {row}")
    assert {one: ids(own.sql(f"SELECT id FROM t WHERE {one}").collect()) for one in CONDITIONS} == CONDITIONS
    answers = {one: sorted(plain(own.sql(one).collect()), key=str) for one in QUERIES}
    assert answers == QUERIES
    query, types = KEPT
    own.sql(f"CREATE TABLE made USING parquet AS {query}")
    described = {row.col_name: row.data_type for row in own.sql("DESCRIBE made").collect()}
    assert described == {name: type_.lower().replace(": ", ":").replace(", ", ",") for name, type_ in types.items()}


def test_tables_of_the_lake_answer_alike(filled):
    assert plain(filled.sql("SELECT * FROM t ORDER BY id").collect()) == STORED
    for row in TOO_LONG:
        with pytest.raises(InvalidData, match="shorten the value, or write"):
            filled.sql(f"INSERT INTO t VALUES {row}")
    table = filled.table("d.t")
    filled.sql("CREATE VIEW w AS SELECT * FROM t")
    ways = (
        lambda one: table.scan(where=one).to_spark("native"),
        lambda one: table.scan(where=one).to_spark("arrow"),
        lambda one: filled.sql(f"SELECT id FROM t WHERE {one}"),
        lambda one: filled.sql(f"SELECT id FROM w AS t WHERE {one}"),
    )
    for number, way in enumerate(ways):
        tried = [one for one in CONDITIONS if in_turn(one, number, len(ways)) and ("SELECT" not in one or number > 1)]
        assert {one: ids(way(one).collect()) for one in tried} == {one: CONDITIONS[one] for one in tried}
    assert {one: sorted(plain(filled.sql(one).collect()), key=str) for one in QUERIES} == QUERIES
    query, types = KEPT
    filled.sql(f"CREATE TABLE made AS {query}")
    assert {row[0]: row[1] for row in filled.sql("DESCRIBE made").fetchall()} == types
    for one in ("c = 'a'", "c IN ('a', 'ab')", "c > 'a  x'", "c = concat('a', '')", "c BETWEEN 'a' AND 'a'"):
        assert filled.sql(f"UPDATE t SET v = 'hit' WHERE {one}").fetchall()[0][0] == len(CONDITIONS[one])


def test_files_of_older_columns_are_compared_alike(filled):
    table = filled.table("d.t")
    table.alter(change_type("id", "BIGINT"))
    filled.sql("ALTER TABLE t RENAME COLUMN c TO d")
    filled.sql("ALTER TABLE t ADD COLUMN e CHAR(4) DEFAULT 'x'")
    filled.sql("INSERT INTO t VALUES (9, 'a', 'a', NULL, NULL, NULL, 'y')")
    assert ids(filled.sql("SELECT id FROM t WHERE d = 'a'").collect()) == [1, 9]
    assert ids(filled.sql("SELECT id FROM t WHERE e = 'x'").collect()) == [1, 2, 3, 4, 5]
    assert ids(filled.sql("SELECT id FROM t WHERE e = 'y' AND d = 'a'").collect()) == [9]


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_tasks_are_placed_by_their_stored_texts(keyed: bool, spark, spark_lake):
    key = ["p", "k"] if keyed else []
    options = {"bucket": 4, "write.collect-rows": 0, **({} if keyed else {"bucket-key": "k"})}
    table = spark_lake.create_table("d.t", "p CHAR(2), k VARCHAR(3), n INT", primary_key=key, partition_by=["p"], options=options)
    write = table.upsert if keyed else table.append
    ends = ("", " ", "     ")
    for number, end in enumerate(ends):
        rows = spark.range(40).selectExpr(
            f"concat(string(id % 2), '{end[:1]}') as p", f"rpad(string(id), 3 + {len(end)}, ' ') as k", f"{number} as n"
        )
        write(rows.repartition(3))
    found = table.scan().to_arrow().to_pylist()
    assert len(found) == 40 * (1 if keyed else 3)
    assert {(row["p"], row["k"]) for row in found} == {(f"{id % 2} ", f"{id:<3}") for id in range(40)}
    assert table.verify() == []
    assert ids(spark_lake.sql("SELECT n FROM d.t WHERE p = '1' AND k = '7  '").collect()) == ([2] if keyed else [0, 1, 2])
    if keyed:
        assert table.get({"p": "1", "k": "7  "})["n"] == 2
    for bad in ("'abc'", "'a'"):
        rows = spark.sql(f"SELECT {bad} AS p, 'abcd' AS k, 1 AS n")
        with pytest.raises(InvalidData, match=r"(expected CHAR\(2\), found 'abc'|expected VARCHAR\(3\), found 'abcd')"):
            write(rows)
        with pytest.raises(InvalidData, match="shorten the value"):
            write(rows, cast=True)


def test_streams_check_the_lengths(spark, spark_lake, tmp_path):
    table = spark_lake.create_table("d.t", "k CHAR(3), v VARCHAR(3)", primary_key=["k"])
    source = tmp_path / "in"
    for number, value in enumerate(("ok    ", "toolong")):
        (source).mkdir(exist_ok=True)
        (source / f"{number}.json").write_text(f'{{"k": "a", "v": "{value}"}}\n')
        rows = spark.readStream.schema("k string, v string").json(str(source))
        query = table.write_stream(rows, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
        if number == 0:
            query.awaitTermination()
            assert table.scan().to_arrow().to_pylist() == [{"k": "a  ", "v": "ok "}]
        else:
            with pytest.raises(PySparkException, match=r"expected VARCHAR\(3\)"):
                query.awaitTermination()
    changes = table.changes(0).to_spark()
    assert changes.where("k = 'a'").count() == 1


def test_the_catalog_of_spark_knows_the_lengths(spark, spark_lake):
    spark_lake.sql("CREATE TABLE d.t (k CHAR(3), v VARCHAR(3), PRIMARY KEY (k))")
    table = spark_lake.table("d.t")
    table.upsert([{"k": "a", "v": "x"}])
    try:
        spark_lake.register_tables(spark)
        assert spark.sql("SELECT v FROM d.t WHERE k = 'a'").collect() == [("x",)]
        with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
            spark.sql("INSERT INTO d.t VALUES ('b', 'abcd')")
        table.alter(change_type("v", "VARCHAR(4)"))
        spark_lake.register_tables(spark)
        spark.sql("INSERT INTO d.t VALUES ('b ', 'abcd    ')")
        assert table.get({"k": "b"}) == {"k": "b  ", "v": "abcd"}
        spark.createDataFrame([("c", "y     ")], "k string, v string").write.insertInto("d.t")
        assert table.get({"k": "c"}) == {"k": "c  ", "v": "y   "}
    finally:
        spark.sql("DROP DATABASE IF EXISTS d CASCADE")


def test_types_of_spark_make_columns(spark, spark_lake):
    from pyspark.sql import types as st

    schema = st.StructType(
        [
            st.StructField("v", st.VarcharType(3)),
            st.StructField("a", st.ArrayType(st.CharType(2))),
            st.StructField("m", st.MapType(st.StringType(), st.StructType([st.StructField("c", st.CharType(1))]))),
        ]
    )
    table = spark_lake.create_table("d.t", schema)
    assert spark_lake.sql("DESCRIBE d.t").to_arrow()["data_type"].to_pylist() == [
        "VARCHAR(3)",
        "ARRAY<CHAR(2)>",
        "MAP<STRING, STRUCT<c: CHAR(1)>>",
    ]
    made = spark_lake.create_table_from("d.u", table.df())
    assert made.schema.equals(table.schema, check_metadata=True)
