"""Statements that define tables and databases: each word is obeyed, or refused by its name before anything happens."""

from __future__ import annotations

import re

import pytest
import sqlglot

import lsmlake
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.errors import InvalidQuery, InvalidSchema, LakeError, TableExists, TableNotFound
from lsmlake.sql.token_reader import first_word

TABLE = "CREATE TABLE d.t (id INT, n INT, st STRUCT<a: INT, b: STRING>, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2')"


@pytest.fixture
def t(lake):
    lake.sql(TABLE)
    lake.sql("INSERT INTO d.t VALUES (1, 1, named_struct('a', 1, 'b', 'x'))")
    return lake


def state(lake: lsmlake.Lake) -> tuple:
    names = lake.tables()
    tables = [(lake.table(name).version.schema, lake.table(name).scan().to_arrow().to_pylist()) for name in names]
    return names, tables, lake.databases(), lake.sql("SHOW VIEWS").fetchall(), lake.session.database


OBEYED = (
    "ALTER TABLE d.t RENAME TO d.u",
    "ALTER TABLE d.t RENAME COLUMN st.a TO st.c",
    "ALTER TABLE d.t RENAME COLUMN IF EXISTS n TO m",
    "ALTER TABLE d.t ADD COLUMN IF NOT EXISTS e DECIMAL(5, 2) DEFAULT 1.5 COMMENT 'x' AFTER n",
    "ALTER TABLE d.t ADD COLUMNS (st.e INT FIRST, f ARRAY<STRUCT<a: INT>> COMMENT 'y')",
    "ALTER TABLE d.t DROP COLUMN IF EXISTS n",
    "ALTER TABLE d.t DROP COLUMNS (n, st.a)",
    "ALTER TABLE d.t ALTER COLUMN n TYPE BIGINT, st.a COMMENT 'x'",
    "ALTER TABLE d.t ALTER COLUMN n SET DATA TYPE BIGINT",
    "ALTER TABLE d.t ALTER COLUMN n SET DEFAULT 1 + 1",
    "ALTER TABLE d.t ALTER COLUMN n FIRST",
    "ALTER TABLE d.t CHANGE COLUMN n m BIGINT COMMENT 'x' AFTER st",
    "ALTER TABLE d.t SET TBLPROPERTIES ('write-only' = true, 'snapshot.num-retained.max' = 50)",
    "ALTER TABLE d.t UNSET TBLPROPERTIES IF EXISTS ('write-only')",
    "COMMENT ON TABLE d.t IS 'x'",
    "COMMENT ON COLUMN d.t.st.a IS NULL",
    "DROP TABLE IF EXISTS d.t, d.u PURGE",
    "DROP DATABASE IF EXISTS e RESTRICT",
    "CREATE DATABASE IF NOT EXISTS e COMMENT 'x' WITH DBPROPERTIES ('a' = 'b')",
    "CREATE OR REPLACE VIEW d.v (a COMMENT 'x', b) COMMENT 'y' TBLPROPERTIES ('a' = 'b') AS SELECT id, n FROM d.t",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "USE DATABASE d",
    "SHOW TABLE EXTENDED IN d LIKE '*'",
    "SHOW TBLPROPERTIES d.t ('bucket')",
    "DESCRIBE TABLE EXTENDED d.t n",
    "DESCRIBE HISTORY d.t LIMIT 2",
    "CALL compact(table => 'd.t', full => true)",
)


@pytest.mark.parametrize("text", OBEYED)
def test_a_word_more_is_refused_wherever_it_stands(text: str, t):
    _, start = first_word(text)
    tokens = sqlglot.tokenize(" " * start + text[start:], dialect=PlainSpark)
    before, query = state(t), text.find("SELECT")  # a query reads text behind a column as its alias
    for place in [place for place in (*(token.start for token in tokens), len(text)) if place <= query or query < 0]:
        with pytest.raises(LakeError):
            t.sql(f"{text[:place]} 'surprise' {text[place:]}")
    assert state(t) == before
    t.sql(text)


REFUSED = {
    "ALTER TABLE d.t DROP CONSTRAINT n": "DROP CONSTRAINT is not supported",
    "ALTER TABLE d.t DROP INDEX n": "DROP INDEX is not supported",
    "ALTER TABLE d.t DROP FOREIGN KEY n": "DROP FOREIGN KEY is not supported",
    "ALTER TABLE d.t DROP PRIMARY KEY": "create another table",
    "ALTER TABLE d.t DROP n": "this ALTER TABLE is not supported",
    "ALTER TABLE d.t DROP COLUMN n CASCADE": "found CASCADE",
    "ALTER TABLE IF EXISTS d.t DROP COLUMN n": "character 13 .* IF EXISTS is not supported here",
    "ALTER TABLE ONLY d.t DROP COLUMN n": "found ONLY",
    "ALTER TABLE d.t RENAME COLUMN n TO st.q": "cannot move a field",
    "ALTER TABLE d.t RENAME COLUMN st.a TO other.q": "cannot move a field, expected a name in st",
    "ALTER TABLE d.t ALTER COLUMN n SET DATA TYPE BIGINT USING n + 1": "USING is not supported",
    "ALTER TABLE d.t ALTER COLUMN n TYPE BIGINT COLLATE x": "found COLLATE",
    "ALTER TABLE d.t ALTER COLUMN n TYPE BIGINT COMMENT 'x'": "found COMMENT",
    "ALTER TABLE d.t SET LOCATION '/x'": "SET LOCATION is not supported",
    "ALTER TABLE d.t SET FILEFORMAT PARQUET": "SET FILEFORMAT is not supported",
    "ALTER TABLE d.t SET TAGS ('a' = 'b')": "SET TAGS is not supported",
    "ALTER TABLE d.t SET SERDE 'x'": "files of a table are Parquet",
    "ALTER TABLE d.t SET TBLPROPERTIES ('bucket' = '2', 'bucket' = '3')": "bucket is given twice",
    "ALTER TABLE d.t UNSET TBLPROPERTIES ('write-only')": "write-only is not set, expected one of bucket",
    "ALTER TABLE d.t ADD CONSTRAINT pk PRIMARY KEY (n)": "ADD CONSTRAINT is not supported",
    "ALTER TABLE d.t REPLACE COLUMNS (a INT)": "CREATE OR REPLACE TABLE",
    "ALTER TABLE d.t RECOVER PARTITIONS": "RECOVER PARTITIONS is not supported",
    "ALTER TABLE d.t ADD COLUMN m INT DEFAULT n": "unknown column n",
    "ALTER TABLE d.t ADD COLUMN n.x INT": "only a struct can get fields",
    "ALTER DATABASE d SET LOCATION '/x'": "only tables and views can be altered",
    "ALTER TABLE `d.t` DROP COLUMN n": "a name has a point in it",
    "ALTER TABLE t DROP COLUMN n": "character 13 .* lacks its database.*write d.t",
    "COMMENT ON DATABASE d IS 'x'": "this COMMENT is not supported",
    "COMMENT ON VIEW d.v IS 'x'": "ALTER VIEW name SET TBLPROPERTIES",
    "COMMENT ON COLUMN d.t IS 'x'": "lacks its table",
    "CREATE DATABASE e LOCATION '/x'": "leave LOCATION out",
    "CREATE DATABASE e COMMENT 'x' COMMENT 'y'": "given twice",
    "CREATE DATABASE information_schema": "cannot be created",
    "CREATE TABLE d.x (a INT) LOCATION '/x'": "LOCATION out",
    "CREATE TABLE d.x (a INT) CLUSTERED BY (a) SORTED BY (a) INTO 4 BUCKETS": "SORTED BY",
    "CREATE TEMPORARY TABLE d.x (a INT)": "CREATE TEMPORARY VIEW",
    "CREATE EXTERNAL TABLE d.x (a INT)": "EXTERNAL",
    "CREATE TABLE d.x (a INT) STORED AS PARQUET": "only tables of lsmlake",
    "CREATE TABLE d.x (a INT) ROW FORMAT DELIMITED": "ROW FORMAT",
    "CREATE TABLE d.x (a INT) COMMENT 'x' COMMENT 'y'": "COMMENT is given twice",
    "CREATE TABLE d.x (a INT) TBLPROPERTIES ('bucket' = '1', 'bucket' = '2')": "bucket is given twice",
    "CREATE TABLE d.x (a INT PRIMARY KEY, b INT PRIMARY KEY)": "primary key is given twice",
    "CREATE TABLE d.x (a INT PRIMARY KEY) TBLPROPERTIES ('primary-key' = 'a')": "primary key is given twice",
    "CREATE TABLE d.x (a INT, PRIMARY KEY (a) NOT ENFORCED)": "is enforced, found NOT ENFORCED",
    "CREATE TABLE d.x (a INT, CONSTRAINT pk PRIMARY KEY (a))": "this is not a column",
    "CREATE TABLE d.x (a INT, CHECK (a > 1))": "this is not a column",
    "CREATE TABLE d.x (a INT GENERATED ALWAYS AS (1))": "unsupported column attribute",
    "CREATE TABLE d.x (a INT NULL PRIMARY KEY)": "column a of the primary key cannot be null",
    "CREATE TABLE d.x (a INT NULL, b INT NULL, PRIMARY KEY (b))": "column b of the primary key cannot be null",
    "CREATE TABLE d.x (a INT NULL) TBLPROPERTIES ('primary-key' = 'a')": "cannot be null, found NULL",
    "CREATE TABLE d.x (a INT8)": "found 'INT8'",
    "CREATE TABLE d.x (a DATETIME)": "found DATETIME",
    "CREATE TABLE d.x (a ARRAY<TIMESTAMP(3)>)": "found TIMESTAMP\\(3\\)",
    "CREATE TABLE d.x (a STRING(5))": "found STRING\\(5\\)",
    "CREATE TABLE d.x (a FLOAT(53))": "found FLOAT\\(53\\)",
    "CREATE TABLE d.x (a VARCHAR(MAX))": "found VARCHAR\\(MAX\\)",
    "CREATE TABLE d.x (a TEXT)": "found 'TEXT'",
    "CREATE TABLE d.x (a VARCHAR)": "found VARCHAR; write its length",
    "CREATE TABLE d.x (a CHAR(5, 2))": "expected CHAR\\(n\\)",
    "ALTER TABLE d.t ADD COLUMN e VARCHAR(3) DEFAULT 'abcd'": "does not fit the type, expected VARCHAR\\(3\\)",
    "CREATE TABLE d.x (a INT) LIKE d.t": "LIKE takes all from the other table",
    "CREATE TABLE d.x (a INT) AS SELECT 1 AS a, 2 AS b": "number of values does not fit the columns",
    "CREATE TABLE d.x (a INT) AS SELECT 'x' AS a": "does not fit column a, expected INT",
    "CREATE TABLE d.x (a INT NOT NULL) AS SELECT CAST(NULL AS INT) AS a": "null in a NOT NULL column",
    "CREATE OR REPLACE TABLE d.t (id INT, n INT NOT NULL, PRIMARY KEY (id)) AS VALUES (1, NULL)": "null in a NOT NULL column",
    "CREATE TABLE d.x PARTITIONED BY (p STRING) AS SELECT 1 AS a, 'x' AS p": "AS takes the columns of its query",
    "CREATE TABLE d.x CLONE d.t": "CLONE is not supported",
    "CREATE OR REPLACE TABLE IF NOT EXISTS d.x (a INT)": "exclude each other",
    "CREATE OR REPLACE TABLE d.t AS SELECT 1 AS id": "keeps its primary key, expected PRIMARY KEY .id., found none",
    "CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) AS SELECT 'x' AS id": "keeps the columns of its key.*expected id INT",
    "CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) AS SELECT 1 / 0 AS id": "division by zero",
    "CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) AS SELECT CAST(NULL AS INT) AS id": "id",
    "CREATE TABLE d.t AS SELECT 1 AS id": "table 'd.t' exists",
    "CREATE FUNCTION f AS 'x'": "FUNCTION is not supported here",
    "DROP TABLE d.t, d.u": "no table 'd.u'",
    "DROP TABLE d.t CASCADE": "leave the word out",
    "DROP VIEW d.t": "d.t is a table",
    "DROP DATABASE d": "not empty",
    "DROP FUNCTION f": "cannot be dropped",
    "USE nowhere": "no database 'nowhere'",
    "SHOW FUNCTIONS": "functions are those of Spark",
    "SHOW TABLES d": "found d",
    "DESCRIBE d.t nope": "no column 'nope'",
    "DESCRIBE FUNCTION f": "no functions but those of Spark",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_obeyed_is_refused_by_name(text: str, t):
    before = state(t)
    with pytest.raises(LakeError, match=REFUSED[text]):
        t.sql(text)
    assert state(t) == before


CALLS = re.compile(r"\w\((?!s\b|p\b|\d)|=True|=False|\blsmlake\.|\b[a-z]+_[a-z]+=")
IN_PYTHON = {
    "SELECT * FROM d.nope": "CREATE TABLE creates it; SHOW TABLES lists the tables",
    "SELECT * FROM nope.t": "CREATE DATABASE creates it",
    "CREATE TABLE d.t (a INT)": "write IF NOT EXISTS",
    "DROP DATABASE d": "write CASCADE",
    "SELECT * FROM d.t VERSION AS OF 9": "DESCRIBE HISTORY lists",
    "SELECT * FROM d.t VERSION AS OF 'nope'": "tags lists the tags",
    "SELECT * FROM d.t$branch_nope": "branches lists the branches",
    "ALTER TABLE d.t SET TBLPROPERTIES ('nope' = '1')": r"SELECT name FROM table\$options lists all options",
    "SHOW CREATE TABLE d.t$branch_nope": "branches lists the branches",
    "CALL create_tag('d.t', 'kept')": "write CALL create_tag with replace => true",
    "CALL create_branch('d.t', 'kept')": "or delete that branch",
}


@pytest.mark.parametrize("text", IN_PYTHON)
def test_errors_speak_sql(text: str, t):
    t.sql("CALL create_tag('d.t', 'kept')")
    t.sql("CALL create_branch('d.t', 'kept')")
    with pytest.raises(LakeError, match=IN_PYTHON[text]) as found:
        t.sql(text)
    assert not CALLS.search(str(found.value))


def test_a_comment_names_a_table_of_the_current_database(t):
    t.sql("USE d")
    t.sql("COMMENT ON COLUMN t.n IS 'how many'")
    t.sql("COMMENT ON COLUMN `d`.`t`.`st`.`a` IS 'inner'")
    described = {row[0]: row for row in t.sql("DESCRIBE t").fetchall()}
    assert described["n"][2] == "how many" and "COMMENT 'inner'" in described["st"][1]


def test_values_for_parameters_of_a_definition_are_refused(t):
    with pytest.raises(InvalidQuery, match="only queries and changes of rows have parameters"):
        t.sql("ALTER TABLE d.t ADD COLUMN m INT", {"m": 1})
    assert t.table("d.t").schema.names == ["id", "n", "st"]


def test_fields_of_structs_are_added_renamed_and_dropped(t):
    t.sql("ALTER TABLE d.t ADD COLUMN st.e INT COMMENT 'x' FIRST")
    t.sql("ALTER TABLE d.t RENAME COLUMN st.a TO st.c")
    t.sql("ALTER TABLE d.t DROP COLUMN st.b")
    assert t.sql("SELECT st FROM d.t").fetchall() == [({"e": None, "c": 1},)]
    t.sql("ALTER TABLE d.t CHANGE COLUMN n m BIGINT COMMENT 'c' FIRST")
    assert t.sql("DESCRIBE d.t").fetchall()[0] == ("m", "BIGINT", "c")
    t.sql("COMMENT ON TABLE d.t IS 'about'")
    assert t.table("d.t").comment == "about"


def test_a_table_is_replaced_as_one_commit_that_keeps_its_history(t):
    table = t.table("d.t")
    t.sql("CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) TBLPROPERTIES ('bucket' = '3') AS SELECT id + 1 AS id, 'x' AS n FROM d.t")
    assert t.sql("SELECT * FROM d.t").fetchall() == [(2, "x")] and table.options == {"bucket": "3"}
    assert t.sql("SELECT id, n FROM d.t VERSION AS OF 1").fetchall() == [(1, 1)] and len(table.snapshots()) == 2
    t.sql("INSERT INTO d.t VALUES (2, 'y'), (3, 'z')")
    t.sql("CALL compact('d.t', true)")
    assert t.sql("SELECT * FROM d.t ORDER BY id").fetchall() == [(2, "y"), (3, "z")] and not table.verify()
    t.sql("CALL rollback('d.t', 1)")
    assert t.sql("SELECT id, n FROM d.t").fetchall() == [(1, 1)] and not table.verify()
    t.sql("CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY, z DOUBLE DEFAULT 0.5)")
    assert t.sql("SELECT * FROM d.t").fetchall() == [] and table.schema.names == ["id", "z"]
    t.sql("CREATE OR REPLACE TABLE d.u AS SELECT 1 AS a")
    assert t.sql("SELECT a FROM d.u").fetchall() == [(1,)]


def test_the_rows_of_a_query_are_assigned_to_the_columns_of_a_new_table(t):
    columns = "(k BIGINT NOT NULL COMMENT 'x', c CHAR(3), v DECIMAL(5,2) DEFAULT 1, PRIMARY KEY (k))"
    t.sql(f"CREATE TABLE d.x {columns} TBLPROPERTIES ('bucket' = '1') COMMENT 'y' AS SELECT id, 'a', n FROM d.t")
    made = t.table("d.x")
    assert (made.comment, made.primary_key, len(made.snapshots())) == ("y", ("k",), 1)
    assert made.to_arrow().to_pylist() == [{"k": 1, "c": "a  ", "v": 1}]
    described = t.sql("DESCRIBE d.x").fetchall()
    assert described == [("k", "BIGINT NOT NULL", "x"), ("c", "CHAR(3)", None), ("v", "DECIMAL(5,2)", None)]
    t.sql("CREATE OR REPLACE TABLE d.x (k BIGINT NOT NULL, w STRING NOT NULL, PRIMARY KEY (k)) AS VALUES (7, 'w'), (8, 'x')")
    assert [one[:2] for one in t.sql("DESCRIBE d.x").fetchall()] == [("k", "BIGINT NOT NULL"), ("w", "STRING NOT NULL")]
    assert made.to_arrow().to_pylist() == [{"k": 7, "w": "w"}, {"k": 8, "w": "x"}]
    assert made.scan(snapshot=1).to_arrow().num_rows == 1


def test_an_append_only_table_is_replaced_with_other_partitions(lake):
    lake.sql("CREATE TABLE d.a (x INT, dt STRING) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO d.a VALUES (1, 'p'), (2, 'q')")
    lake.sql("CREATE OR REPLACE TABLE d.a PARTITIONED BY (truncate(1, dt)) AS SELECT x * 10 AS x, dt FROM d.a")
    assert lake.sql("SELECT * FROM d.a ORDER BY x").fetchall() == [(10, "p"), (20, "q")]
    assert lake.sql("SELECT x FROM d.a VERSION AS OF 1 ORDER BY x").fetchall() == [(1,), (2,)]
    assert lake.table("d.a").partition_by == ("truncate(1, dt)",) and not lake.table("d.a").verify()
    with pytest.raises(InvalidSchema, match=r"keeps the columns .* dt STRING"):
        lake.sql("CREATE OR REPLACE TABLE d.a AS SELECT 1 AS x")


def test_a_replacement_that_another_commit_overtakes_replaces_that_one_too(t, monkeypatch):
    puts = type(t.table("d.t").meta.schemas).put
    table = t.table("d.t")

    def late(self, schema):
        monkeypatch.undo()
        table.upsert({"id": [9], "n": [9], "st": [None]})
        return puts(self, schema)

    monkeypatch.setattr(type(table.meta.schemas), "put", late)
    t.sql("CREATE OR REPLACE TABLE d.t PRIMARY KEY (id) AS SELECT 5 AS id")
    assert t.sql("SELECT * FROM d.t").fetchall() == [(5,)] and not table.verify()
    assert len(table.snapshots()) == 3


def test_a_table_is_made_like_another_one(t):
    t.sql("CREATE TABLE d.u LIKE d.t TBLPROPERTIES ('write-only' = 'true')")
    made, other = t.table("d.u").version.schema, t.table("d.t").version.schema
    assert (made.plain_columns, made.primary_key) == (other.plain_columns, other.primary_key)
    assert made.options == {"bucket": "2", "write-only": "true"} and not t.sql("SELECT * FROM d.u").fetchall()


def test_hives_clauses_that_have_a_meaning_here_are_obeyed(lake):
    lake.sql("CREATE TABLE d.c (a INT, b INT, PRIMARY KEY (a, b)) CLUSTERED BY (a) INTO 4 BUCKETS")
    assert lake.table("d.c").options == {"bucket": "4", "bucket-key": "a"}
    lake.sql("CREATE TABLE d.p (a INT) PARTITIONED BY (b STRING COMMENT 'x')")
    assert lake.table("d.p").schema.names == ["a", "b"] and lake.table("d.p").partition_by == ("b",)


def test_several_tables_are_dropped_all_or_none(t):
    t.sql("CREATE TABLE d.u LIKE d.t")
    with pytest.raises(TableNotFound):
        t.sql("DROP TABLE d.t, d.u, d.w")
    assert t.tables("d") == ["t", "u"]
    t.sql("DROP TABLE IF EXISTS d.t, d.u, d.w PURGE")
    assert t.tables("d") == []


def test_a_database_has_a_comment_and_becomes_the_current_one(t):
    t.sql("CREATE DATABASE e COMMENT 'about' WITH DBPROPERTIES ('owner' = 'me')")
    described = dict(t.sql("DESCRIBE DATABASE EXTENDED e").fetchall())
    assert (described["Comment"], described["Properties"], described["Tables"]) == ("about", "owner=me", "0")
    t.sql("USE d")
    assert t.sql("SELECT id FROM t").fetchall() == [(1,)] and t.sql("SELECT t.n FROM d.t").fetchall() == [(1,)]
    t.sql("UPDATE t SET n = 7 WHERE id = (SELECT max(id) FROM t)")
    t.sql("INSERT INTO t (id) VALUES (2)")
    t.sql("CREATE TABLE u AS SELECT n FROM t WHERE id = 1")
    assert t.sql("SHOW TABLES").fetchall() == [("d", "t", False), ("d", "u", False)]
    assert t.sql("SELECT n FROM u").fetchall() == [(7,)] and t.sql("SHOW CURRENT NAMESPACE").fetchall() == [("lsmlake", "d")]
    t.sql("USE e")
    with pytest.raises(TableNotFound, match=r"e\.t"):
        t.sql("SELECT * FROM t")
    t.sql("DROP DATABASE e")
    with pytest.raises(InvalidQuery, match=r"write d\.t"):
        t.sql("SELECT * FROM t")


def test_a_table_is_described_in_full(t):
    detail = t.sql("DESCRIBE DETAIL d.t").to_arrow().to_pylist()[0]
    assert (detail["name"], detail["primaryKey"], detail["numRows"], detail["numFiles"]) == ("d.t", ["id"], 1, 1)
    t.sql("INSERT INTO d.t (id) VALUES (2)")
    assert t.sql("DESCRIBE HISTORY d.t").to_arrow()["snapshot_id"].to_pylist() == [2, 1]
    assert t.sql("DESCRIBE HISTORY d.t LIMIT 1").to_arrow()["snapshot_id"].to_pylist() == [2]
    t.sql("CALL analyze('d.t')")
    assert {("data_type", "INT NOT NULL"), ("min", "1"), ("num_nulls", "0")} <= {*t.sql("DESCRIBE EXTENDED d.t id").fetchall()}
    assert t.sql("DESCRIBE QUERY SELECT id, n * 0.5 AS h FROM d.t").fetchall()[1] == ("h", "DECIMAL(12,1)", None)
    ((*_, text),) = t.sql("SHOW TABLE EXTENDED LIKE 't'").fetchall()
    assert "Primary Key: id\n" in text and " |-- st STRUCT<a: INT, b: STRING>\n" in text
    assert t.sql("SHOW TBLPROPERTIES d.t ('bucket')").fetchall() == [("bucket", "2")]


def test_information_schema_describes_the_lake(t):
    t.sql("CREATE VIEW d.v COMMENT 'c' AS SELECT id FROM d.t")
    query = """SELECT c.table_name, c.column_name, c.data_type, t.table_type FROM information_schema.columns c
        JOIN information_schema.tables t USING (table_schema, table_name) WHERE c.ordinal_position = 1 ORDER BY 1"""
    assert t.sql(query).fetchall() == [("t", "id", "INT", "MANAGED"), ("v", "id", "INT", "VIEW")]
    assert t.sql("SELECT view_definition FROM information_schema.views").fetchall() == [("SELECT id FROM d.t",)]
    keys = """SELECT k.table_name, k.column_name, k.ordinal_position FROM information_schema.key_column_usage k
        JOIN information_schema.table_constraints USING (constraint_schema, constraint_name)"""
    assert t.sql(keys).fetchall() == [("t", "id", 1)]
    assert t.sql("SELECT schema_name FROM INFORMATION_SCHEMA.schemata").fetchall() == [("d",)]
    with pytest.raises(TableNotFound, match="one of schemata"):
        t.sql("SELECT * FROM information_schema.nope")
    with pytest.raises(LakeError):
        t.sql("INSERT INTO information_schema.tables VALUES (1)")


def test_a_table_cannot_have_the_name_of_a_view(t):
    t.sql("CREATE VIEW d.v AS SELECT 1 AS a")
    for text in ("CREATE TABLE d.v (a INT)", "CREATE TABLE d.v AS SELECT 1 AS a", "CREATE OR REPLACE TABLE d.v (a INT)"):
        with pytest.raises(TableExists, match="a view has the name"):
            t.sql(text)
    with pytest.raises(TableExists, match="a view has the name"):
        t.sql("ALTER TABLE d.t RENAME TO d.v")
    assert t.tables("d") == ["t"]
