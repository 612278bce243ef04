"""Views: queries under names, kept in the folder of their database or temporary, evaluated with the columns of then."""

from __future__ import annotations

import pytest

import lsmlake
from lsmlake.errors import Corrupt, InvalidQuery, LakeError, TableExists, TableNotFound


@pytest.fixture
def t(lake):
    lake.sql("CREATE TABLE d.t (id INT, v STRING, n BIGINT, PRIMARY KEY (id))")
    lake.sql("INSERT INTO d.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)")
    return lake


def test_a_view_keeps_its_columns_while_the_table_gets_others(t, tmp_path):
    t.sql("CREATE VIEW d.v AS SELECT * FROM d.t WHERE id > 1")
    t.sql("ALTER TABLE d.t ADD COLUMN m INT FIRST")
    t.sql("INSERT INTO d.t (id, v) VALUES (4, 'd')")
    other = lsmlake.connect(tmp_path / "warehouse")
    assert other.sql("SELECT * FROM d.v ORDER BY id").fetchall() == [(2, "b", 20), (3, "c", None), (4, "d", None)]
    assert other.sql("DESCRIBE d.v").fetchall() == [("id", "INT", None), ("v", "STRING", None), ("n", "BIGINT", None)]
    t.sql("ALTER TABLE d.t RENAME COLUMN v TO w")
    with pytest.raises(InvalidQuery, match=r"view d\.v: the query of the view gives no column v any more"):
        t.sql("SELECT id FROM d.v")
    t.sql("CREATE OR REPLACE VIEW d.v AS SELECT id, w FROM d.t")
    assert t.sql("SELECT w FROM d.v WHERE id = 1").fetchall() == [("a",)]


def test_a_column_that_is_wider_now_has_the_type_of_then(t):
    t.sql("CREATE VIEW d.v AS SELECT id, n FROM d.t")
    t.sql("CREATE TABLE d.s (k INT)")
    t.sql("CREATE VIEW d.w AS SELECT k FROM d.s")
    t.sql("ALTER TABLE d.s ALTER COLUMN k TYPE BIGINT")
    t.sql("INSERT INTO d.s VALUES (7)")
    assert t.sql("SELECT k FROM d.w").to_arrow().schema.field("k").type == "int32"
    t.sql("INSERT INTO d.s VALUES (7000000000)")
    with pytest.raises(InvalidQuery):
        t.sql("SELECT k FROM d.w")


def test_a_view_has_names_comments_and_properties(t):
    t.sql("CREATE VIEW d.v (a COMMENT 'key', b) COMMENT 'about' TBLPROPERTIES ('x' = 'y') AS SELECT id, upper(v) FROM d.t")
    assert t.sql("SELECT q.b FROM d.v AS q WHERE a = 2").fetchall() == [("B",)]
    assert t.sql("SELECT x FROM d.v AS q(x, y) WHERE x = 3").fetchall() == [(3,)]
    assert t.sql("DESCRIBE d.v").fetchall()[0] == ("a", "INT", "key")
    (statement,) = t.sql("SHOW CREATE TABLE d.v").fetchall()[0]
    before = t.sql("DESCRIBE EXTENDED d.v").fetchall()
    t.sql("DROP VIEW d.v")
    t.sql(statement)
    assert [row for row in t.sql("DESCRIBE EXTENDED d.v").fetchall() if row[0] != "Created Time"] == [
        row for row in before if row[0] != "Created Time"
    ]
    assert t.sql("SHOW TBLPROPERTIES d.v").fetchall() == [("x", "y")]
    t.sql("ALTER VIEW d.v SET TBLPROPERTIES ('z' = '1')")
    t.sql("ALTER VIEW d.v UNSET TBLPROPERTIES ('x')")
    t.sql("ALTER VIEW d.v RENAME TO d.w")
    assert t.sql("SHOW TBLPROPERTIES d.w").fetchall() == [("z", "1")] and t.sql("SELECT count(b) FROM d.w").fetchall() == [(3,)]
    t.sql("ALTER VIEW d.w AS SELECT 1 AS one")
    assert t.sql("SELECT * FROM d.w").to_arrow().to_pylist() == [{"one": 1}]


def test_views_are_listed_where_spark_lists_them(t):
    t.sql("CREATE VIEW d.v AS SELECT 1 AS a")
    t.sql("CREATE TEMPORARY VIEW tv AS SELECT 2 AS a")
    assert t.sql("SHOW VIEWS IN d").fetchall() == [("", "tv", True), ("d", "v", False)]
    assert t.sql("SHOW TABLES IN d LIKE '*v'").fetchall() == [("", "tv", True), ("d", "v", False)]
    assert t.tables("d") == ["t"]
    with pytest.raises(InvalidQuery, match="not empty"):
        t.sql("DROP TABLE d.t") or t.sql("DROP DATABASE d")
    t.sql("DROP DATABASE d CASCADE")
    t.create_database("d")
    assert t.sql("SHOW VIEWS IN d").fetchall() == [("", "tv", True)]


def test_temporary_views_belong_to_the_session(t, tmp_path):
    t.sql("CREATE TEMP VIEW Tv AS SELECT id + 1 AS k FROM d.t")
    assert t.sql("SELECT max(k) FROM tV").fetchall() == [(4,)]
    t.sql("CREATE OR REPLACE TEMPORARY VIEW tv AS SELECT k + 1 AS k FROM (SELECT id AS k FROM d.t)")
    assert t.sql("WITH x AS (SELECT * FROM tv) SELECT min(k) FROM x JOIN tv USING (k)").fetchall() == [(2,)]
    with pytest.raises(TableExists):
        t.sql("CREATE TEMPORARY VIEW tv AS SELECT 1 AS a")
    with pytest.raises(LakeError, match="tv"):
        lsmlake.connect(tmp_path / "warehouse").sql("SELECT * FROM tv")
    with pytest.raises(InvalidQuery, match="no table tv"):
        t.sql("CREATE VIEW d.kept AS SELECT * FROM tv")
    t.sql("DROP VIEW tv")
    t.sql("DROP VIEW IF EXISTS tv")
    with pytest.raises(InvalidQuery, match="no table tv"):
        t.sql("SELECT * FROM tv")


def test_views_of_views_in_every_place_of_a_statement(t):
    t.sql("USE d")
    t.sql("CREATE VIEW v AS SELECT id, n FROM t")
    t.sql("CREATE VIEW w AS WITH t AS (SELECT id FROM v) SELECT t.id AS k FROM t JOIN v ON t.id = v.id WHERE n > 5")
    t.sql("CREATE DATABASE e")
    t.sql("USE e")
    assert t.sql("SELECT k FROM d.w ORDER BY k").fetchall() == [(1,), (2,)]  # names mean what they meant
    t.sql("INSERT INTO d.t SELECT k + 10, 'x', NULL FROM d.w")
    t.sql("MERGE INTO d.t USING d.w ON t.id = w.k WHEN MATCHED THEN UPDATE SET v = 'm'")
    t.sql("UPDATE d.t SET n = (SELECT max(k) FROM d.w) WHERE id IN (SELECT k FROM d.w)")
    t.sql("DELETE FROM d.t WHERE id NOT IN (SELECT id FROM d.v WHERE n IS NOT NULL)")
    assert t.sql("SELECT * FROM d.t ORDER BY id").fetchall() == [(1, "m", 2), (2, "m", 2)]
    assert t.sql("SELECT (SELECT count(*) FROM d.w) AS c, EXISTS (SELECT 1 FROM d.v) AS e").fetchall() == [(0, True)]


def test_a_statement_reads_each_table_once_also_by_views(t):
    t.sql("CREATE VIEW d.v AS SELECT id FROM d.t")
    found = t.sql("EXPLAIN SELECT * FROM d.v JOIN d.t USING (id)").to_arrow()["plan"].to_pylist()
    assert [line for line in found if line.startswith("d.t: snapshot")] == ["d.t: snapshot 1"] * 2
    assert [line for line in found if line.startswith("  columns")] == ["  columns   id", "  columns   id, v, n"]


REFUSED = {
    "CREATE OR REPLACE VIEW d.a AS SELECT * FROM d.b": "would read itself, found d.a, d.b",
    "CREATE VIEW d.v AS SELECT id, id FROM d.t": "two columns of the view have the same name",
    "CREATE VIEW d.v (x) AS SELECT id, n FROM d.t": "another number of columns",
    "CREATE VIEW d.v AS SELECT nope FROM d.t": "unknown column nope",
    "CREATE VIEW d.v AS SELECT * FROM d.nope": "no table 'd.nope'",
    "CREATE VIEW d.v AS SELECT id FROM d.t WHERE id = :x": "parameter :x has no value",
    "CREATE VIEW d.v AS DELETE FROM d.t": "this is not a query",
    "CREATE VIEW d.v AS": "expected a query",
    "CREATE VIEW d.t AS SELECT 1 AS a": "a table has the name",
    "CREATE VIEW d.a AS SELECT 1 AS a": "view 'd.a' exists",
    "CREATE OR REPLACE VIEW IF NOT EXISTS d.a AS SELECT 1 AS a": "exclude each other",
    "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1 AS a": "no global temporary views",
    "CREATE TEMPORARY VIEW d.v AS SELECT 1 AS a": "in no database",
    "CREATE TEMPORARY VIEW v USING csv OPTIONS (path 'x')": "found USING",
    "CREATE VIEW d.v WITH SCHEMA EVOLUTION AS SELECT 1 AS a": "a view has the columns of then",
    "CREATE VIEW v AS SELECT 1 AS a": "lacks its database",
    "CREATE VIEW nowhere.v AS SELECT 1 AS a": "no database 'nowhere'",
    "SELECT * FROM d.a VERSION AS OF 1": "a view has no versions",
    "INSERT INTO d.a VALUES (1)": "d.a is a view",
    "UPDATE d.a SET id = 1": "d.a is a view",
    "DELETE FROM d.a": "d.a is a view",
    "DROP TABLE d.a": "write DROP VIEW d.a",
    "DROP VIEW d.nope": "no view 'd.nope'",
    "ALTER VIEW d.a SET LOCATION 'x'": "this ALTER VIEW is not supported",
    "ALTER TABLE d.a ADD COLUMN x INT": "no table 'd.a'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_view_cannot_be_is_refused(text: str, t):
    t.sql("CREATE VIEW d.a AS SELECT id FROM d.t")
    t.sql("CREATE VIEW d.b AS SELECT id FROM d.a")
    before = t.sql("SHOW TABLES IN d").fetchall(), t.sql("SELECT * FROM d.t ORDER BY id").fetchall()
    with pytest.raises(LakeError, match=REFUSED[text]):
        t.sql(text)
    assert (t.sql("SHOW TABLES IN d").fetchall(), t.sql("SELECT * FROM d.t ORDER BY id").fetchall()) == before
    assert t.sql("SELECT count(*) FROM d.b").fetchall() == [(3,)]


def test_a_damaged_view_is_reported(t, tmp_path):
    t.sql("CREATE VIEW d.v AS SELECT id FROM d.t")
    path = tmp_path / "warehouse/d.db/.views/v.json"
    path.write_bytes(path.read_bytes().replace(b"SELECT", b"DELETE"))
    with pytest.raises(Corrupt, match=r"\.views/v\.json"):
        t.sql("SELECT * FROM d.v")
    path.unlink()
    with pytest.raises(TableNotFound):
        t.sql("SELECT * FROM d.v")
