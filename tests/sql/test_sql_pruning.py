"""Conditions on views, queries of WITH and queries in FROM choose the files of their tables, where no answer needs the others."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from effort import scaled

import lsmlake
from lsmlake.dialect import relations, select

FILES = 5
VIEWS = {
    "plain": "SELECT * FROM t",
    "renamed (a, b)": "SELECT k, v FROM t",
    "filtered": "SELECT k AS x, v + 1 AS w, s FROM t WHERE v >= 0",
    "computed": "SELECT k + 0 AS k, v FROM t",
    "grouped": "SELECT k, max(v) AS v, count(*) AS n FROM t GROUP BY k",
    "ranked": "SELECT k, v, row_number() OVER (ORDER BY k, v) AS n FROM t",
    "first": "SELECT k, v FROM t ORDER BY k, v LIMIT 30",
    "both": "SELECT k, v FROM t UNION ALL SELECT j, v FROM u",
    "joined": "SELECT t.k, t.v, u.v AS w, j FROM t LEFT JOIN u ON k = j",
    "deep": "SELECT a AS c FROM renamed WHERE b < 1000",
}
READ = {
    # the condition stands inside the view: what the others are compared with
    "SELECT * FROM t WHERE k = 12": [1],
    "SELECT * FROM plain WHERE k = 12": [1],
    "SELECT * FROM plain WHERE k BETWEEN 12 AND 25": [2],
    "SELECT * FROM plain WHERE s.a = 12": [5],  # fields of structs have no statistics
    "SELECT * FROM plain WHERE k = 12 OR v = 25": [2],
    "SELECT * FROM plain WHERE k + 1 = 13": [5],
    "SELECT * FROM plain p JOIN u ON p.k = j WHERE p.k = 12 AND u.j > 30": [1, 2],
    "SELECT a FROM renamed WHERE a = 12": [1],
    "SELECT d FROM renamed AS r (c, d) WHERE r.c = 12": [1],
    "SELECT x FROM filtered WHERE x = 12": [1],
    "SELECT x FROM filtered WHERE w = 12": [5],
    "SELECT x FROM filtered WHERE x IS NULL": [1],
    "SELECT k FROM computed WHERE k = 12": [5],
    "SELECT k FROM grouped WHERE k = 12": [1],
    "SELECT k FROM grouped WHERE v = 12": [5],
    "SELECT k FROM ranked WHERE k = 12": [5],
    "SELECT k FROM first WHERE k = 12": [5],
    "SELECT k FROM both WHERE k = 12": [1, 1],
    "SELECT k FROM both WHERE k = 12 AND v = 31": [0, 0],
    "SELECT k FROM joined WHERE k = 12": [1, 5],
    "SELECT k FROM joined WHERE j = 12": [5, 5],
    "SELECT k FROM joined WHERE w IS NULL AND v = 12": [1, 5],
    "SELECT c FROM deep WHERE c = 12": [1],
    "SELECT * FROM (SELECT k AS x FROM t) WHERE x = 12": [1],
    "SELECT * FROM (SELECT k AS x FROM t ORDER BY k) AS q WHERE q.x = 12": [1],
    "SELECT * FROM (SELECT DISTINCT k AS x FROM t) WHERE x = 12": [1],
    "SELECT * FROM (SELECT k AS x FROM t ORDER BY k LIMIT 3) WHERE x = 12": [5],
    "SELECT * FROM (SELECT k, e FROM t LATERAL VIEW explode(array(v)) AS e) WHERE k = 12": [1],
    "SELECT * FROM (SELECT k, v FROM t GROUP BY GROUPING SETS ((k), (v))) WHERE k = 12": [5],
    "SELECT * FROM (SELECT k FROM t INTERSECT SELECT j FROM u) WHERE k = 12": [1, 1],
    "SELECT * FROM (SELECT k FROM t EXCEPT SELECT j FROM u) WHERE k = 12": [1, 1],
    "SELECT * FROM (SELECT k FROM t UNION SELECT CAST(j AS BIGINT) FROM u) WHERE k = 12": [5, 5],
    "SELECT * FROM ((SELECT k FROM t UNION ALL SELECT j FROM u) LIMIT 3) WHERE k = 12": [5, 5],
    "SELECT * FROM t JOIN (SELECT j AS k, v FROM u) AS q USING (k) WHERE k = 12": [1, 1],
    "SELECT * FROM t LEFT JOIN (SELECT j AS k, v FROM u) AS q USING (k) WHERE k = 12": [1, 5],
    "SELECT * FROM t RIGHT JOIN (SELECT j AS k, v FROM u) AS q USING (k) WHERE k = 12": [5, 1],
    "SELECT * FROM t FULL JOIN (SELECT j AS k, v FROM u) AS q USING (k) WHERE k = 12": [5, 5],
    "SELECT * FROM t LEFT JOIN (SELECT j FROM u) AS q ON k = j AND j > 30": [5, 2],
    "SELECT * FROM (SELECT j FROM u) AS q RIGHT JOIN t ON k = j AND j > 30 AND k < 5": [2, 5],
    "SELECT * FROM t SEMI JOIN (SELECT j FROM u) AS q ON k = j AND j > 30 WHERE k = 35": [1, 2],
    "SELECT * FROM t ANTI JOIN (SELECT j FROM u) AS q ON k = j AND j > 30 WHERE k = 12": [1, 2],
    "WITH x AS (SELECT k, v FROM t) SELECT * FROM x WHERE k = 12": [1],
    "WITH x (a) AS (SELECT k FROM t), y AS (SELECT a FROM x WHERE a > 0) SELECT * FROM y WHERE a = 12": [1],
    "WITH x AS (SELECT k FROM t) SELECT * FROM x a JOIN x b ON a.k = b.k + 10 WHERE a.k = 12 AND b.k = 2": [2],
    "WITH x AS (SELECT k FROM t) SELECT * FROM x a JOIN x b ON a.k = b.k WHERE a.k = 12": [5],
    "WITH x AS (SELECT k FROM t) SELECT (SELECT count(*) FROM x) AS n FROM x WHERE k = 12": [5],
    "WITH x AS (SELECT k FROM t), y AS (SELECT k FROM x WHERE k = 12) SELECT * FROM y UNION ALL SELECT k FROM x WHERE k = 35": [
        2
    ],
    "WITH x AS (SELECT k FROM plain) SELECT * FROM x WHERE k = 12": [1],
    "WITH RECURSIVE r AS (SELECT k, 0 n FROM t UNION ALL SELECT k + 1, n + 1 FROM r WHERE n < 2) SELECT * FROM r WHERE k = 1": [
        5
    ],
    "SELECT * FROM t PIVOT (max(v) FOR k IN (12, 13))": [5],
    "FROM t |> EXTEND v + 1 AS w |> WHERE k = 12 |> SELECT w": [1],
    "FROM t |> AGGREGATE max(v) AS m GROUP BY k |> WHERE k = 12": [1],
    "SELECT * FROM u WHERE EXISTS (SELECT 1 FROM plain WHERE plain.k = 12 AND plain.v = u.v)": [5, 1],
    "SELECT * FROM u WHERE j IN (SELECT k FROM plain WHERE k = 12)": [5, 1],
}
"""A query -> how many files of each table it reads, in the order of the text."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`t` and `u` have five files, each with ten numbers; some values are null."""
    folder = tmp_path_factory.mktemp("pruning")
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    lake.sql("USE d")
    lake.sql("CREATE TABLE t (k INT, v INT, s STRUCT<a: INT>)")
    lake.sql("CREATE TABLE u (j INT, v INT)")
    for number in range(FILES):
        ids = range(10 * number, 10 * number + 10)
        rows = [{"k": None if i == 44 else i, "v": i if i % 3 else None, "s": {"a": i}} for i in ids]
        lake.table("d.t").append(rows)
        lake.table("d.u").append([{"j": i if i % 4 else None, "v": i + 1} for i in ids])
    for name, query in VIEWS.items():
        lake.sql(f"CREATE VIEW {name} AS {query}")
    return folder


@pytest.fixture
def filled(planted, warehouse: Path) -> lsmlake.Lake:
    lake = planted(warehouse)
    lake.sql("USE d")
    return lake


def files_read(lake: lsmlake.Lake, query: str) -> list[int]:
    lines = lake.sql(f"EXPLAIN {query}").to_arrow()["plan"].to_pylist()
    return [int(re.findall(r"(\d+) \(", line)[-1]) for line in lines if line.startswith("  files ")]


def bag(rows) -> Counter:
    return Counter(map(str, rows))


@pytest.fixture
def unpruned(monkeypatch):
    """Answers a query without any condition on a table."""

    def answer(lake: lsmlake.Lake, query: str) -> Counter:
        with monkeypatch.context() as patch:
            for module in (relations, select):
                patch.setattr(module, "push", lambda condition, scope: None)
            assert set(files_read(lake, query)) == {FILES}
            return bag(lake.sql(query).fetchall())

    return answer


@pytest.mark.parametrize("query", READ)
def test_a_query_reads_the_files_that_its_conditions_leave(query: str, filled, unpruned):
    assert files_read(filled, query) == READ[query]
    assert bag(filled.sql(query).fetchall()) == unpruned(filled, query)


def test_statements_read_the_files_that_conditions_on_views_leave(filled):
    lines = filled.sql("EXPLAIN INSERT INTO u SELECT k, v FROM plain WHERE k = 12").to_arrow()["plan"].to_pylist()
    assert any(line.endswith("-> 1 (statistics)") for line in lines)
    delete = "WITH x AS (SELECT k FROM plain) DELETE FROM u WHERE j IN (SELECT k FROM x WHERE k = 13)"
    lines = filled.sql(f"EXPLAIN {delete}").to_arrow()["plan"].to_pylist()
    assert any(line.endswith("-> 1 (statistics)") for line in lines)
    assert filled.sql(delete).fetchall()[0][0] == 1


def test_limits_of_a_view_and_conditions_on_it_do_not_mix(filled):
    """A limit reaches a table only if no condition does."""
    filled.sql("CREATE VIEW few AS SELECT k FROM t LIMIT 3")
    assert files_read(filled, "SELECT k FROM few") == files_read(filled, "SELECT k FROM few WHERE k > 40") == [1]
    for query, rows in {
        "SELECT k FROM few WHERE k > 40": 0,
        "SELECT k FROM plain WHERE k > 40 LIMIT 3": 3,
        "SELECT k FROM (SELECT k FROM t WHERE k > 5) WHERE k < 8 LIMIT 10": 2,
    }.items():
        assert len(filled.sql(query)) == rows


class _Queries:
    """Random queries of two columns `a` and `b`."""

    def __init__(self, seed: int) -> None:
        self.draw, self.ctes = random.Random(seed), []

    def query(self, depth: int) -> str:
        made = self.body(depth)
        return f"WITH {', '.join(self.ctes)} {made}" if self.ctes else made

    def body(self, depth: int) -> str:
        draw = self.draw
        kind = draw.choice(("plain", "plain", "plain", "distinct", "group", "limit", "window", "union", "sets", "join", "join"))
        source = self.source(depth)
        where = f" WHERE {self.condition('a', 'b')}" if draw.random() < 0.7 else ""
        if kind == "group":
            return f"SELECT a, max(b) AS b FROM {source}{where} GROUP BY a"
        if kind == "sets":
            return f"SELECT a, b FROM {source}{where} GROUP BY CUBE (a, b)"
        if kind == "limit":
            return f"SELECT a, b FROM {source}{where} ORDER BY a, b LIMIT {draw.randrange(1, 30)}"
        if kind == "window":
            return f"SELECT a, CAST(row_number() OVER (ORDER BY a, b) AS INT) AS b FROM {source}{where}"
        if kind == "union" and depth:
            word = draw.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
            return f"SELECT a, b FROM {source}{where} {word} SELECT b, a FROM {self.source(depth - 1)}"
        if kind == "join" and depth:
            side = draw.choice(("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"))
            on = f"x.{draw.choice('ab')} = y.{draw.choice('ab')} AND {self.condition('x.a', 'y.b')}"
            right, left = self.source(depth - 1, "y"), self.source(depth, "x")
            if "LEFT " in side:
                return f"SELECT x.a, x.b FROM {left} {side} JOIN {right} ON {on}{self.behind('x.a', 'x.b')}"
            if draw.random() < 0.4:
                names = f"a, {draw.choice('xy')}.b"
                return f"SELECT {names} FROM {left} {side} JOIN {right} USING (a){self.behind('a', 'x.b', 'y.b')}"
            names = draw.choice(("x.a, y.b", "y.a, x.b", "x.a AS a, x.b AS b", "coalesce(x.a, y.a) AS a, y.b"))
            return f"SELECT {names} FROM {left} {side} JOIN {right} ON {on}{self.behind('x.a', 'y.b', 'y.a')}"
        word = "DISTINCT " if kind == "distinct" else ""
        names = draw.choice(("a, b", "b AS a, a AS b", "a, a AS b", "a + 0 AS a, b", "*"))
        return f"SELECT {word}{names} FROM {source}{where}"

    def behind(self, *names: str) -> str:
        return f" WHERE {self.condition(*names)}" if self.draw.random() < 0.7 else ""

    def source(self, depth: int, name: str = "q") -> str:
        draw = self.draw
        if not depth or draw.random() < 0.2:
            return f"{draw.choice(('t1', 't2', 'w1', 'w2'))} AS {name}"
        if draw.random() < 0.4:
            if len(self.ctes) < 2 or draw.random() < 0.3:
                made = self.body(depth - 1)
                self.ctes.append(f"c{len(self.ctes)} (a, b) AS ({made})")
            return f"c{draw.randrange(len(self.ctes))} AS {name}"
        return f"({self.body(depth - 1)}) AS {name}"

    def condition(self, *names: str) -> str:
        draw = self.draw

        def one() -> str:
            name, number = draw.choice(names), draw.randrange(50)
            forms = ("{0} = {1}", "{0} < {1}", "{0} >= {1}", "{0} IS NULL", "{0} IN ({1}, 7)", "{0} <=> {1}", "{0} % 5 = 1")
            return draw.choice((*forms, "NOT {0} < {1}", "coalesce({0}, {1}) = {1}")).format(name, number)

        return draw.choice((" AND ", " AND ", " OR ")).join(one() for _ in range(draw.randrange(1, 3)))


def test_random_queries_give_what_they_give_without_conditions_on_tables(filled, unpruned):
    filled.sql("CREATE VIEW t1 (a, b) AS SELECT k, v FROM t")
    filled.sql("CREATE VIEW t2 (a, b) AS SELECT j, v FROM u")
    filled.sql("CREATE VIEW w1 (b, a) AS SELECT k, max(v) FROM t WHERE v > 3 GROUP BY k")
    filled.sql("CREATE VIEW w2 (a, b) AS SELECT t.v, u.v FROM t LEFT JOIN u ON k = j")
    fewer = 0
    for seed in range(scaled(50)):
        query = _Queries(seed).query(3)
        found, expected = bag(filled.sql(query).fetchall()), unpruned(filled, query)
        assert found == expected, f"seed {seed}: {query}"
        fewer += min(files_read(filled, query), default=FILES) < FILES
    assert fewer > scaled(50) / 4, "many conditions choose files"
