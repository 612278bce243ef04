"""Statements that change rows are obeyed word by word, or refused by name before anything happens."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import lsmlake
from lsmlake.errors import InvalidQuery, LakeError

MERGE = "MERGE INTO d.t USING d.s ON t.id = s.id"
REFUSED = {
    "DELETE FROM d.t JOIN d.s ON t.id = s.id": "JOIN d.s",
    "UPDATE d.t JOIN d.s ON t.id = s.id SET v = 1": "JOIN d.s",
    "UPDATE d.t, d.s SET v = 1": "d.s",
    "UPDATE d.t SET v = 1 FROM d.s": "FROM is not supported",
    "DELETE FROM d.t VERSION AS OF 1": "VERSION",
    "UPDATE d.t TIMESTAMP AS OF '2026-01-01' SET v = 1": "TIMESTAMP",
    "MERGE INTO d.t VERSION AS OF 1 USING d.s ON t.id = s.id WHEN MATCHED THEN DELETE": "VERSION",
    "DELETE FROM d.t@v1": "newest version",
    "DELETE FROM d.t TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "DELETE FROM d.t PIVOT (sum(v) FOR id IN (1))": "PIVOT",
    "DELETE FROM d.t AS x(a, b)": "COLUMNS is not supported",
    "DELETE FROM d.t LIMIT 1": "LIMIT",
    "DELETE FROM d.t RETURNING id": "RETURNING",
    "DELETE FROM (SELECT * FROM d.t)": "only a table can be changed",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET * EXCEPT (v)": "EXCEPT",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT * EXCEPT (v)": "EXCEPT",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT * REPLACE (1 AS v)": "REPLACE",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT * RENAME (v AS w)": "RENAME",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v) WHERE s.v > 1": "WHERE",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET v = 1 WHERE s.v > 1": "WHERE",
    f"{MERGE} WHEN NOT MATCHED AND t.v > 1 THEN INSERT *": "t.v|`t`.`v`",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, t.v)": "t.v|`t`.`v`",
    f"{MERGE} WHEN MATCHED AND rand() < 2 THEN DELETE": "rand cannot choose rows",
    f"{MERGE} AND uuid() > '' WHEN MATCHED THEN DELETE": "uuid cannot choose rows",
    "DELETE FROM d.t WHERE rand() < 2": "rand cannot choose rows",
    "UPDATE d.t SET v = 1, V = 2": "assigned twice",
    "DELETE FROM d.t WHERE 'a'": "(?i)condition|mismatch|boolean",
    "WITH c AS (SELECT 1 AS id), c AS (SELECT 2 AS id) DELETE FROM d.t WHERE id IN (SELECT id FROM c)": "(?i)twice|duplicate",
}
NO_SQL = [
    f"{MERGE} WHEN MATCHED THEN UPDATE *",
    f"{MERGE} WHEN MATCHED THEN UPDATE ALL BY NAME",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET",
    f"{MERGE} WHEN MATCHED DELETE",
    f"{MERGE} WHEN NOT THEN INSERT *",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT ALL BY NAME",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id) VALUES s.id",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT id VALUES (s.id)",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id) (s.id)",
    MERGE.replace("INTO ", "") + " WHEN MATCHED THEN DELETE",
    MERGE.replace("INTO ", "INTO /*+ BROADCAST(s) */ ") + " WHEN MATCHED THEN DELETE",
    "INSERT d.t VALUES (9, 9)",
    "INSERT TABLE d.t VALUES (9, 9)",
    "INSERT INTO d.t SET id = 9",
    "INSERT INTO d.t VALUE (9, 9)",
    "INSERT INTO d.t ('id') VALUES (9)",
    "TRUNCATE d.t",
    "TRUNCATE TABLE (d.t)",
    "DELETE FROM d..t",
    "DELETE FROM.d.t",
    "DELETE FROM d.t 'x' WHERE id = 1",
    "DELETE FROM d.t WHERE id ISNULL",
    "DELETE FROM d.t WHERE id NOTNULL",
    "DELETE FROM d.t WHERE v BETWEEN 1 3",
    "DELETE FROM d.t WHERE CASE WHEN v = 1 true END",
    "DELETE FROM d.t WHERE CAST(v AS INT = 1",
    "DELETE FROM d.t WHERE id = BIGINT 1",
    "DELETE FROM d.t WHERE CAST(v AS STRING) LIKE ANY 'a'",
    "DELETE FROM d.t WHERE v = (FROM d.s WHERE id = 1)",
    "UPDATE d.t 'x' SET v = 1",
    "CREATE TABLE d.n (id INT) USING",
    "CREATE TABLE d.n (id INT) CLUSTERED BY (id) INTO 4",
    "CREATE TABLE d.n AS SELECT 1 AS 'id'",
    "CREATE TABLE d.'n' (id INT)",
    "TABLE d.t, d.s",
    "FROM d.t WHERE id = 1",
]
"""Statements that Spark's parser refuses, though sqlglot reads them."""
NO_ROWS = [
    "UPDATE d.t SET v = v + 1 WHERE NULL",
    f"{MERGE} WHEN MATCHED AND NULL THEN DELETE",
    f"{MERGE} WHEN NOT MATCHED AND NULL THEN INSERT *",
]


def filled(lake: lsmlake.Lake) -> lsmlake.Table:
    lake.sql("CREATE TABLE d.t (id INT NOT NULL, v INT, PRIMARY KEY (id))")
    lake.sql("CREATE TABLE d.s (id INT NOT NULL, v INT)")
    lake.sql("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    lake.sql("INSERT INTO d.s VALUES (1, 10), (3, 30)")
    return lake.table("d.t")


def check(lake: lsmlake.Lake, table: lsmlake.Table) -> None:
    before = table.version.number
    for text, words in REFUSED.items():
        with pytest.raises(InvalidQuery, match=words):
            lake.sql(text)
        assert table.version.number == before, text
    for text in NO_ROWS:
        assert lake.sql(text).to_arrow()["num_affected_rows"].to_pylist() == [0], text
    assert table.version.number == before


DRAWS = [
    "UPDATE d.x SET u = uuid(), r = rand(), n = nullif(CAST(rand() * 2 AS INT), 0)",
    "WITH w AS (SELECT max(id) AS m FROM d.s) UPDATE d.x SET u = uuid(), r = rand() WHERE id < (SELECT m FROM w) + 1000",
    """MERGE INTO d.x USING (SELECT id FROM range(150)) s ON x.id = s.id
       WHEN MATCHED THEN UPDATE SET u = concat('u', uuid()), r = randn()
       WHEN NOT MATCHED THEN INSERT (id, u, r) VALUES (s.id, uuid(), rand())""",
]
"""Statements that give each row values of its own."""
CHOOSES = [
    "DELETE FROM d.x WHERE id IN (SELECT id FROM d.random)",
    "UPDATE d.x SET r = 1 WHERE EXISTS (SELECT 1 FROM d.more)",
    "WITH w AS (SELECT 1 AS id WHERE rand() < 2) DELETE FROM d.x WHERE id IN (SELECT id FROM w)",
    "WITH v AS (SELECT id FROM d.more), w AS (SELECT * FROM v) DELETE FROM d.x WHERE id IN (SELECT id FROM w)",
    "MERGE INTO d.x USING d.s AS s ON x.id = s.id AND s.id IN (SELECT id FROM d.more) WHEN MATCHED THEN DELETE",
    "MERGE INTO d.x USING d.s AS s ON x.id = s.id WHEN MATCHED AND s.id IN (SELECT id FROM d.random) THEN DELETE",
]
"""Statements that draw which rows they change."""


def check_draws(lake: lsmlake.Lake, key: str) -> None:
    filled(lake)
    lake.sql(f"CREATE TABLE d.x (id BIGINT NOT NULL, u STRING, r DOUBLE, n INT{key})")
    lake.sql("INSERT INTO d.x SELECT id, 'x', 0.5D, 1 FROM range(100)")
    lake.sql("CREATE VIEW d.random AS SELECT 1 AS id WHERE rand() < 2")
    lake.sql("CREATE VIEW d.more AS SELECT * FROM d.random")
    for text, count in zip(DRAWS, (100, 100, 150), strict=True):
        assert lake.sql(text).to_arrow()["num_affected_rows"].to_pylist() == [count]
        found = lake.table("d.x").to_arrow()
        assert len(found) == len({*found["u"].to_pylist()}) == len({*found["r"].to_pylist()}) == count
        assert {*found["n"].to_pylist()} == {None, 1}
    before = lake.table("d.x").version.number
    for text in CHOOSES:
        with pytest.raises(InvalidQuery, match="rand cannot choose rows"):
            lake.sql(text)
        assert lake.table("d.x").version.number == before, text


KEYS = pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])


@KEYS
def test_values_of_changes_are_drawn_row_by_row_and_choose_no_rows(tmp_path, key):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    check_draws(lake, key)


@pytest.mark.spark
@KEYS
def test_spark_draws_as_the_process_does(spark_lake, key):
    check_draws(spark_lake, key)


def test_what_a_change_does_not_obey_is_refused_by_name(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    check(lake, filled(lake))


def test_the_words_of_a_statement_must_be_there(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    before = filled(lake).version.number
    for text in NO_SQL:
        with pytest.raises(InvalidQuery):
            lake.sql(text)
        assert lake.table("d.t").version.number == before and lake.tables() == ["d.s", "d.t"], text


@pytest.mark.spark
def test_spark_refuses_the_same(spark, spark_lake):
    table = filled(spark_lake)
    check(spark_lake, table)
    parser = getattr(spark, "_jsparkSession", None) and spark._jsparkSession.sessionState().sqlParser()
    for text in NO_SQL:
        if parser is not None:
            with pytest.raises(PySparkException):
                parser.parsePlan(text)
        with pytest.raises(LakeError):
            spark_lake.sql(text)
        assert table.version.number == 1, text


CHANGES = {
    "WITH c AS (SELECT max(id) AS id FROM d.s) INSERT INTO d.t SELECT id + 1, 0 FROM c": [(1, 1), (2, 2), (4, 0)],
    "WITH c AS (SELECT id FROM d.s) UPDATE d.t SET v = (SELECT max(id) FROM c) WHERE id IN (SELECT id FROM c)": [(1, 3), (2, 2)],
    "WITH c(k) AS (SELECT id FROM d.s), e AS (SELECT k + 1 AS k FROM c) DELETE FROM d.t WHERE id IN (SELECT k FROM e)": [(1, 1)],
    f"{MERGE} AND s.v IN (SELECT v FROM d.s WHERE id = 1) WHEN MATCHED THEN UPDATE SET v = (SELECT sum(v) FROM d.s)": [
        (1, 40),
        (2, 2),
    ],
    f"{MERGE} WHEN NOT MATCHED AND EXISTS (SELECT 1 FROM d.t WHERE t.id = s.id - 1) THEN INSERT (id, v) VALUES (id, v)": [
        (1, 1),
        (2, 2),
        (3, 30),
    ],
}


@pytest.mark.parametrize("text", CHANGES)
def test_queries_stand_before_and_inside_of_changes(tmp_path, text: str):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = filled(lake)
    lake.sql(text)
    assert sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) == CHANGES[text]


def test_a_merge_with_schema_evolution_adds_columns_and_is_checked_before(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table, source = filled(lake), "(SELECT id, v, 'x' AS note FROM d.s)"
    merge = (
        f"MERGE WITH SCHEMA EVOLUTION INTO d.t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED"
    )
    with pytest.raises(InvalidQuery, match="nope"):
        lake.sql(f"{merge} AND s.nope THEN INSERT *")
    assert table.schema.names == ["id", "v"]
    lake.sql(f"{merge} THEN INSERT *")
    found = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert found == [(1, 10, "x"), (2, 2, None), (3, 30, "x")]


def test_explain_of_a_change_says_what_it_would_read(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = filled(lake)
    before = table.version.number
    lines = (
        lake.sql("EXPLAIN DELETE FROM d.t WHERE id = 7 AND id IN (SELECT id FROM d.s WHERE v > 1)").to_arrow()["plan"].to_pylist()
    )
    assert lines[:2] == ["d.t: snapshot 1, to be changed", "  rows      found by DuckDB"]
    assert lines[2:4] == ["  where     id = 7 AND id IN (SELECT id FROM d.s WHERE v > 1)", lines[3]]
    assert lines[3].startswith("  files     ") and lines[3].split("-> ")[-1].startswith("0 ("), "no file holds the key 7"
    assert lines[4:6] == ["  action    delete", "  writes    rows and deletes by key"]
    assert "d.s: snapshot 1" in lines and "  where     `v` > 1" in lines
    assert lake.sql("EXPLAIN UPDATE d.t SET v = 1 WHERE id = 1").to_arrow()["plan"].to_pylist()[1] == "  rows      found by Arrow"
    for text, words in NOT_EXPLAINED.items():
        with pytest.raises(InvalidQuery, match=words):
            lake.sql(text)
    assert table.version.number == before


NOT_EXPLAINED = {
    "EXPLAIN ANALYZE DELETE FROM d.t": "of .EXPLAIN ANALYZE DELETE FROM d.t.: .*changes a table.*write EXPLAIN FORMATTED",
    f"EXPLAIN ANALYZE {MERGE} WHEN MATCHED THEN DELETE": "runs a statement",
    "EXPLAIN EXTENDED DELETE FROM d.t": "about plans of Spark",
    "EXPLAIN TRUNCATE TABLE d.t": "EXPLAIN takes a query, an INSERT, UPDATE, DELETE or MERGE",
    "EXPLAIN CREATE TABLE d.u AS SELECT 1 AS id": "EXPLAIN takes a query",
    "EXPLAIN UPDATE d.t SET id = 1": "a key column cannot be updated",
    "EXPLAIN DELETE FROM d.t WHERE nope = 1": "unknown column nope",
    f"EXPLAIN {MERGE} WHEN MATCHED THEN UPDATE SET id = s.id": "a key column cannot be updated",
    f"EXPLAIN {MERGE} WHEN MATCHED THEN UPDATE SET nope = 1": "nope",
    "EXPLAIN INSERT INTO d.t SELECT 1, 2, 3": "the number of values does not fit",
    "EXPLAIN INSERT INTO d.t SELECT 1, DATE '2026-01-01'": "a value does not fit column v",
}
"""What EXPLAIN refuses, as the statement would or because it would run it."""


def test_explain_of_every_change_names_what_it_reads_and_writes_nothing(tmp_path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    lake.sql("CREATE TABLE d.p (p INT, id INT, v INT) PARTITIONED BY (p)")
    for part in range(3):
        lake.sql(f"INSERT INTO d.p VALUES ({part}, 1, 1), ({part}, 2, 2)")
    lake.sql("CREATE TABLE d.q (id INT, v INT)")
    table = lake.table("d.p")
    before = table.version.number

    def explained(text: str) -> list[str]:
        return lake.sql(f"EXPLAIN {text}").to_arrow()["plan"].to_pylist()

    vectors = "  writes    deletion vectors of old rows, files with new ones"
    update = explained("FORMATTED UPDATE d.p SET v = id + 1 WHERE p = 1 AND v % 2 = 0")
    assert update[:4] == [
        "d.p: snapshot 3, to be changed",
        "  rows      found by DuckDB",
        "  where     p = 1 AND v % 2 = 0",
        "  files     3 (snapshot) -> 1 (keys) -> 1 (statistics)",
    ]
    assert update[4].startswith("  reads     2 rows, ") and update[5].startswith("  file      data-")
    assert update[6:] == ["  action    update v", vectors]
    assert explained("INSERT INTO d.q SELECT id, v FROM d.p WHERE p = 2")[:4] == [
        "d.q: snapshot none: the table is empty, to be changed",
        "  columns   id, v",
        "  writes    new rows",
        "d.p: snapshot 3",
    ]
    overwrite = explained("INSERT OVERWRITE d.p PARTITION (p = 1) SELECT id, v FROM d.q")
    assert overwrite[2:4] == ["  replaces  partitions", "  files     3 (snapshot) -> 1 (keys) -> 1 (statistics)"]
    assert explained("INSERT OVERWRITE d.p SELECT 1, id, v FROM d.q")[2] == "  replaces  the partitions of the new rows"
    assert explained("INSERT OVERWRITE d.q SELECT 1, 2")[2] == "  replaces  all rows"
    assert (
        explained("INSERT INTO d.p REPLACE WHERE p > 0 SELECT 1, 2, 3")[3]
        == "  files     3 (snapshot) -> 2 (keys) -> 2 (statistics)"
    )
    merge = "MERGE INTO d.p USING (SELECT * FROM d.q WHERE v > 1) AS s ON p.id = s.id WHEN MATCHED AND s.v = 3 THEN DELETE"
    lines = explained(f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (p, id) VALUES (0, s.id)")
    assert lines[:9] == [
        "d.p: snapshot 3, to be changed",
        "  rows      found by DuckDB",
        "  on        p.id = s.id",
        "  files     3 (snapshot)",
        "  fewer     only files are read that can hold id as in id of the source",
        "  matched and s.v = 3: delete",
        "  matched: update v",
        "  not matched: insert p, id",
        vectors,
    ]
    assert lines[9] == "d.q: snapshot none: the table is empty" and "  where     `v` > 1" in lines
    both = f"{merge} WHEN NOT MATCHED BY SOURCE THEN DELETE"
    assert not [line for line in explained(both) if line.startswith("  fewer")], "all rows of the table count"
    assert table.version.number == before and lake.table("d.q").version.number == 0
