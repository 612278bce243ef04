"""Random queries by `Lake.sql` in process give what DuckDB gives over plain copies of the tables."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
from effort import scaled


class Writer:
    """Writes queries that mean the same to Spark and DuckDB, over t(id, g, v, w) and u(k, h, x)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self, table: str, depth: int = 0) -> str:
        names = ("id", "v") if table[0] == "t" else ("k", "x")
        forms = [
            lambda: f"{table}.{self.one(*names)}",
            lambda: str(self.random.randint(0, 9)),
            lambda: f"({self.number(table, depth + 1)} {self.one('+', '-', '*')} {self.number(table, depth + 1)})",
            lambda: f"coalesce({self.number(table, depth + 1)}, {self.random.randint(0, 5)})",
            lambda: f"CASE WHEN {self.condition(table, depth + 1)} THEN {self.number(table, depth + 1)} ELSE 3 END",
        ]
        return self.random.choice(forms[:1] * 3 + (forms if depth < 3 else []))()

    def condition(self, table: str, depth: int = 0) -> str:
        text, inner = "g" if table[0] == "t" else "h", depth + 1
        queried = f"SELECT k FROM d.u u{inner} WHERE "
        forms = [
            lambda: f"{self.number(table, inner)} {self.one('=', '<', '>=', '<>')} {self.number(table, inner)}",
            lambda: f"{table}.{text} {self.one('=', '<>', '>')} '{self.one('a', 'b', 'c')}'",
            lambda: f"{self.number(table, inner)} IS {self.one('', 'NOT ')}NULL",
            lambda: f"{self.number(table, inner)} {self.one('', 'NOT ')}IN (1, 2, {self.one('NULL', '3')})",
            lambda: f"NOT ({self.condition(table, inner)})",
            lambda: f"({self.condition(table, inner)} {self.one('AND', 'OR')} {self.condition(table, inner)})",
            lambda: f"{self.number(table, inner)} {self.one('', 'NOT ')}IN ({queried}{self.condition(f'u{inner}', depth + 2)})",
            lambda: f"EXISTS ({queried}u{inner}.k = {self.number(table, 3)} AND {self.condition(f'u{inner}', depth + 2)})",
        ]
        return self.random.choice(forms if depth < 3 else forms[:4])()

    def query(self) -> str:
        where = f" WHERE {self.condition('t')}" if self.random.random() < 0.7 else ""
        join = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN")
        sets = self.one("ROLLUP (t.g, t.v)", "CUBE (t.g, t.v)", "GROUPING SETS ((t.g), (t.v), ())")
        sets += " HAVING count(*) > 0"  # to Spark an empty set of no rows is no group
        over = self.one("row_number()", "rank()", "sum(t.v)", "lag(t.v)", "count(*)")
        set_operation = self.one("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
        return self.one(
            f"SELECT t.id, {self.number('t')} AS a, {self.condition('t')} AS b FROM d.t t{where}",
            f"SELECT t.id, u.k, u.x FROM d.t t {join} d.u u ON t.id = u.k AND {self.condition(self.one('t', 'u'))}{where}",
            f"SELECT t.id, u.k FROM d.t t FULL JOIN d.u u ON t.id = u.k WHERE {self.condition(self.one('t', 'u'))}",
            f"SELECT t.g, count(*), sum({self.number('t')}), min(t.w), count(DISTINCT t.v) FROM d.t t{where} GROUP BY t.g",
            f"SELECT t.g, t.v, count(*), grouping(t.v) FROM d.t t{where} GROUP BY {sets}",
            f"SELECT t.id, {over} OVER (PARTITION BY t.g ORDER BY t.id) FROM d.t t{where}",
            f"SELECT {self.number('t')} FROM d.t t{where} {set_operation} SELECT {self.number('u')} FROM d.u u",
            f"WITH q AS (SELECT t.g, {self.number('t')} AS a FROM d.t t{where}) SELECT g, max(a), avg(a) FROM q GROUP BY g",
        )


def rows(ids: range, dice: random.Random) -> pa.Table:
    schema = pa.schema([("id", pa.int32()), ("g", pa.string()), ("v", pa.int32()), ("w", pa.float64())])
    columns = ([dice.choice(values) for _ in ids] for values in ("abc", (None, *range(10)), (None, 0.5, 1.25, -3.0, 7.0)))
    return pa.table(dict(zip(schema.names, (list(ids), *columns), strict=True)), schema=schema)


def bag(found: list[tuple]) -> list[str]:
    return sorted(repr(tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row)) for row in found)


def test_random_queries_give_what_duckdb_gives(lake):
    dice = random.Random(7)
    lake.sql("CREATE TABLE d.t (id INT, g STRING, v INT, w DOUBLE, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2')")
    lake.sql("CREATE TABLE d.u (k INT, h STRING, x INT)")
    t = lake.table("d.t")
    t.upsert(rows(range(60), dice))
    t.upsert(rows(range(0, 60, 3), dice))
    t.delete_keys({"id": [1, 2, 5]})
    t.upsert(rows(range(50, 75), dice), compact=False)
    u = rows(range(0, 80, 4), dice).select(["id", "g", "v"]).rename_columns(["k", "h", "x"])
    lake.table("d.u").append(u)
    model = duckdb.connect()
    model.execute("CREATE SCHEMA d; SET default_null_order = 'nulls_first'")
    for name in ("t", "u"):
        model.register("copied", lake.table(f"d.{name}").scan().to_arrow())
        model.execute(f"CREATE TABLE d.{name} AS SELECT * FROM copied")
    for seed in range(scaled(60)):
        query = Writer(seed).query()
        assert bag(lake.sql(query).fetchall()) == bag(model.sql(query).fetchall()), query
