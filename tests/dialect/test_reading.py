"""A statement is read completely, or refused: no argument that the parser sets is ignored (`dialect.sql_text`)."""

from __future__ import annotations

import time

import pytest
from sqlglot import exp

import lsmlake
from lsmlake.dialect import sql_text as texts
from lsmlake.dialect.sql_text import Text
from lsmlake.errors import InvalidQuery, LakeError

STATEMENTS = (
    "SELECT DISTINCT a.id, b.v AS w, count(*) OVER (PARTITION BY a.k ORDER BY b.v DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) "
    "FROM d.t a LEFT JOIN d.t AS b ON a.id = b.id AND a.v > 1 WHERE a.k LIKE 'x%' ESCAPE '/' OR a.v IN (1, 2) ORDER BY 1 LIMIT 2",
    "SELECT k, sum(v) FILTER (WHERE v > 1) AS s FROM d.t VERSION AS OF 1 GROUP BY k HAVING count(*) > 0 ORDER BY s NULLS LAST",
    "WITH x AS (SELECT id FROM d.t) SELECT * EXCEPT (id) FROM x NATURAL JOIN d.t UNION ALL SELECT v, k FROM d.t OFFSET 1",
    "SELECT CASE WHEN v BETWEEN 1 AND 2 THEN 'a' ELSE CAST(v AS STRING) END, EXISTS (SELECT 1 FROM d.t) FROM d.t WHERE k IS NULL",
    "SELECT * FROM d.t LATERAL VIEW explode(array(1, 2)) e AS n",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) SELECT n FROM x",
    "INSERT INTO d.t (id, k) VALUES (1, 'a')",
    "INSERT OVERWRITE d.t PARTITION (k = 'a') SELECT id, v FROM d.t",
    "UPDATE d.t AS x SET v = x.v + 1 WHERE x.id = 1",
    "DELETE FROM d.t WHERE id IN (SELECT id FROM d.t WHERE v > 1)",
    "MERGE INTO d.t AS t USING d.t AS s ON t.id = s.id WHEN MATCHED AND s.v > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)",
    "CREATE TABLE d.u (id BIGINT NOT NULL COMMENT 'c', v INT DEFAULT 1, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2')",
    "TRUNCATE TABLE d.t",
)


@pytest.fixture
def lake(tmp_path) -> lsmlake.Lake:
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    return lake


def _fresh(lake: lsmlake.Lake) -> None:
    for name in lake.tables("d"):
        lake.drop_table(f"d.{name}")
    options = {"bucket": 1, "merge-engine": "deduplicate"}
    lake.create_table("d.t", "id BIGINT NOT NULL, v INT, k STRING", primary_key=["id", "k"], partition_by=["k"], options=options)


def _set(node: exp.Expression, key: str) -> bool:
    value = texts.peek(node, key)
    return bool(value) if not isinstance(value, exp.Expression) else True


@pytest.mark.parametrize("text", STATEMENTS)
def test_an_argument_that_nobody_reads_is_refused(text: str, lake: lsmlake.Lake, monkeypatch):
    """Each argument that a class of the parser has, and one that a later release may add, is set in a node of the statement: the
    statement is refused, and nothing has changed."""
    parsed = Text.parsed
    places: dict[tuple[type, str], int] = {}
    for number, node in enumerate(parsed(Text(text)).walk()):
        for key in (*type(node).arg_types, "of_a_later_release"):
            if not _set(node, key) and key not in (*texts.SAME.get(type(node), ()), "alias", "global_", "hint"):
                places[type(node), key] = number
    _fresh(lake)
    lake.table("d.t").upsert({"id": [1], "v": [1], "k": ["a"]})
    before = _state(lake)
    for (_, key), number in places.items():
        for made in ("SURPRISE", True) if key == "of_a_later_release" else (exp.Var(this="SURPRISE"),):

            def surprised(self: Text) -> exp.Expression:
                tree = parsed(self)
                if self.text == text:
                    list(tree.walk())[number].set(key, made)  # noqa: B023
                return tree

            monkeypatch.setattr(Text, "parsed", surprised)
            with pytest.raises(LakeError):
                lake.sql(text)
    assert _state(lake) == before


def _state(lake: lsmlake.Lake) -> tuple:
    table = lake.table("d.t")
    return lake.tables("d"), table.schema, table.scan().to_arrow().to_pylist(), table.snapshots().num_rows


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_translator_that_forgets_an_argument_is_found(text: str, lake: lsmlake.Lake, monkeypatch):
    """As long as an argument is not noted as read, the statement that sets it is refused."""
    made: set[tuple[type, str]] = set()
    for node in Text(text).parsed().walk():
        made.update((type(node), key) for key in node.args if _set(node, key) and key not in texts.SAME.get(type(node), ()))
    _fresh(lake)
    lake.table("d.t").upsert({"id": [1], "v": [1], "k": ["a"]})
    unread = texts.unread
    for kind, key in made:

        def forgetful(tree: exp.Expression):
            for node in tree.walk():
                if type(node) is kind and isinstance(node.args, texts._Args):  # noqa: B023
                    node.args.seen.discard(key)  # noqa: B023
                    node.args.words.discard(key)  # noqa: B023
            return unread(tree)

        monkeypatch.setattr(texts, "unread", forgetful)
        with pytest.raises(InvalidQuery):
            lake.sql(text)


REFUSED = (
    "DELETE FROM d.t JOIN d.s ON t.id = s.id",
    "DELETE FROM d.t VERSION AS OF 1",
    "DELETE FROM d.t TABLESAMPLE (10 PERCENT)",
    "DELETE FROM (SELECT * FROM d.t)",
    "UPDATE d.t JOIN d.s ON t.id = s.id SET v = 1",
    "UPDATE d.t, d.s SET v = 1",
    "UPDATE d.t TIMESTAMP AS OF '2026-01-01' SET v = 1",
    "MERGE INTO d.t VERSION AS OF 1 USING d.t s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * EXCEPT (v)",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * REPLACE (1 AS v)",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN NOT MATCHED THEN INSERT * EXCEPT (k)",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1) WHERE s.v > 1",
    "ALTER TABLE d.t DROP CONSTRAINT v",
    "ALTER TABLE d.t DROP INDEX v",
    "ALTER TABLE d.t DROP FOREIGN KEY v",
    "ALTER TABLE d.t RENAME COLUMN v TO st.q",
    "ALTER TABLE d.t ALTER COLUMN v SET DATA TYPE BIGINT USING v + 1",
    "ALTER TABLE d.t SET LOCATION 'x'",
    "ALTER TABLE d.t SET FILEFORMAT parquet",
    "ALTER TABLE d.t SET TAGS ('a' = 'b')",
    "TRUNCATE TABLE d.t, d.u",
    "SELECT * FROM d.t a ASOF JOIN d.t b ON a.id = b.id",
    "SELECT sum(v) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM d.t",
    "SELECT sum(v) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM d.t",
    "SELECT k COLLATE UTF8_LCASE FROM d.t",
    "SELECT count(*) FROM d.t GROUP BY DISTINCT ROLLUP (k), CUBE (k, v)",
    "SELECT * FROM d.t NATURAL CROSS JOIN d.t AS b",
    "WITH x AS NOT MATERIALIZED (SELECT 1) SELECT * FROM x",
    "SELECT count(DISTINCT *) FROM d.t",
    "SELECT id FROM d.t LIMIT 1 WHERE id = 1",
    "SELECT id FROM d.t ORDER BY id WHERE id = 1",
    "SELECT id FROM d.t HAVING id > 1 GROUP BY id",
    "SELECT id FROM d.t ORDER BY id ASC DESC",
    "SELECT id FROM d.t ORDER BY id NULLS FIRST NULLS LAST",
    "SELECT a.id FROM d.t a JOIN d.t b JOIN d.t c ON b.id = c.id ON a.id = b.id",
    "UPDATE d.t SET v = 2 SET k = 'b'",
    "UPDATE d.t SET v = 2 WHERE id = 99 WHERE id = 1",
    "UPDATE d.t SET v = 2 WHERE id = 1 SET v = 3",
    "DELETE d.t WHERE id = 1",
    "INSERT INTO d.t DEFAULT VALUES",
    "INSERT INTO d.t",
    "MERGE INTO d.t USING d.t s WHEN MATCHED THEN DELETE",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN MATCHED BY TARGET THEN DELETE",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN MATCHED THEN UPDATE",
    "MERGE INTO d.t USING d.t s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND s.v > 1 THEN DELETE",
    "SELECT id, , v FROM d.t",
    "SELECT id FROM d.t GROUP BY , id",
    "SELECT id FROM d.t, WHERE id = 1",
    "SELECT array(1, )",
    "SELECT CAST(1 AS DECIMAL(10, ))",
    "UPDATE d.t SET v = 2, WHERE id = 1",
    "INSERT INTO d.t (id, k, ) VALUES (2, 'b')",
    "CREATE TABLE d.u (id BIGINT, )",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_clause_that_is_not_obeyed_is_refused(text: str, lake: lsmlake.Lake):
    _fresh(lake)
    lake.table("d.t").upsert({"id": [1], "v": [1], "k": ["a"]})
    before = _state(lake)
    with pytest.raises(InvalidQuery):
        lake.sql(text)
    assert _state(lake) == before


# -- texts that take long to read -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "+".join(["1"] * 20_000),
        " UNION ALL ".join(["SELECT 1"] * 3_000),
        "SELECT " + "struct(" * 40 + "1" + ")" * 40,
        "SELECT " + "INTERVAL (" * 40 + "1" + ") DAY" * 40,
        "SELECT " + "(" * 300 + "1" + ")" * 300,
    ],
    ids=["operators", "queries", "readings of a call", "readings of an interval", "parentheses"],
)
def test_a_text_that_is_nested_too_deeply_is_refused_in_seconds(text: str, lake: lsmlake.Lake):
    begin = time.process_time()
    with pytest.raises(InvalidQuery, match="nested too deeply"):
        lake.sql(text)
    assert time.process_time() - begin < 30


@pytest.mark.parametrize("text", ["FROM t {} SELECT 1", "SELECT (SELECT count(*) FROM t {})", "SELECT * FROM (FROM t {})"])
def test_joins_without_on_are_read_once(text: str):
    joins = " ".join(f"JOIN (SELECT {number}) t{number}" for number in range(40))
    tree = Text(text.format(joins)).parsed()
    assert len([*tree.find_all(exp.Join)]) == 40 and not any(one.this.args.get("joins") for one in tree.find_all(exp.Join))


def test_conditions_may_be_many():
    tree = Text(" OR ".join(f"a = {number} AND b = 1" for number in range(5_000))).expression()
    assert len([*tree.find_all(exp.EQ)]) == 10_000


def test_joins_inside_of_joins_stay_where_they_belong():
    (outer,) = Text("SELECT 1 FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x").parsed().args["joins"]
    assert (outer.args["on"].sql(), outer.this.name) == ("a.x = b.x", "b")
    assert [(one.this.name, one.args["on"].sql()) for one in outer.this.args["joins"]] == [("c", "b.x = c.x")]
