"""EXISTS in its forms, also where it becomes IN, gives what DuckDB gives for the same text over the same rows."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from effort import scaled

import lsmlake
from lsmlake.errors import InvalidQuery
from lsmlake.sql import run_query

TYPES = {"id": "BIGINT NOT NULL", "k": "INT", "s": "STRING", "d": "DECIMAL(5,2)", "t": "DATE", "n": "INT", "f": "DOUBLE"}
MATCHES = ["b.k = a.k", "a.s = b.s", "b.d = a.d", "(b.t) = a.t", "b.id = a.id", "b.f = a.f", "b.k = a.id", "b.k = b.n"]
OTHERS = ["b.n > 1", "b.s LIKE 'x%'", "b.n = a.n", "b.n < a.n", "b.k IS NULL", "b.n IN (1, 2, NULL)", "(b.n > 1 OR b.s = 'y')"]
PLACES = [
    "SELECT a.id FROM a WHERE {}",
    "SELECT a.id FROM a WHERE NOT {}",
    "SELECT a.id FROM a WHERE {} OR a.n = 1",
    "SELECT a.id FROM a WHERE a.n > 0 AND ({} OR a.k IS NULL)",
    "SELECT a.id FROM a WHERE CASE WHEN {} THEN a.n > 1 ELSE a.k = 1 END",
    "SELECT a.id FROM a WHERE ({}) IS NOT TRUE",
    "SELECT a.id, {} AS found FROM a",
    "SELECT a.k, count(*) AS rows FROM a WHERE {} GROUP BY a.k HAVING count(*) > 1",
    "SELECT a.id FROM a LEFT JOIN c ON a.id = c.id WHERE {}",
    "SELECT a.id FROM a WHERE a.id IN (SELECT a.id FROM a WHERE {})",
]
SHAPES = [
    "EXISTS (SELECT * FROM b WHERE {})",
    "EXISTS (SELECT 1 FROM b JOIN c ON b.id = c.id WHERE {})",
    "EXISTS (SELECT b.n FROM b WHERE {} LIMIT 0)",
    "EXISTS (SELECT b.n FROM b WHERE {} GROUP BY b.n HAVING count(*) > 1)",
    "EXISTS (SELECT b.n FROM b WHERE {} UNION ALL SELECT c.n FROM c WHERE c.n > 2)",
    "EXISTS (WITH w AS (SELECT * FROM b WHERE b.n > 0) SELECT * FROM w AS b WHERE {})",
    "EXISTS (SELECT DISTINCT b.n FROM b WHERE {})",
]


def drawn(chance: random.Random, count: int) -> pa.Table:
    """Rows with few values, and nulls."""
    rows = [
        {
            "id": number,
            "k": chance.choice([None, 0, 1, 2, 3]),
            "s": chance.choice([None, "x", "y", "xy"]),
            "d": chance.choice([None, "1.50", "2.00"]),
            "t": chance.choice([None, "2026-01-01", "2026-01-02"]),
            "n": chance.choice([None, 0, 1, 2, 3]),
            "f": chance.choice([None, 0.0, 1.5]),
        }
        for number in range(count)
    ]
    kinds = [pa.int64(), pa.int32(), pa.string(), pa.string(), pa.string(), pa.int32(), pa.float64()]
    made = pa.Table.from_pylist(rows, pa.schema(list(zip(TYPES, kinds, strict=True))))
    for name, kind in (("d", pa.decimal128(5, 2)), ("t", pa.date32())):
        made = made.set_column(made.schema.get_field_index(name), name, made[name].cast(kind))
    return made


@pytest.mark.parametrize("seed", range(scaled(30)))
def test_exists_chooses_what_it_chooses(seed, tmp_path):
    chance, lake, database = random.Random(seed), lsmlake.connect(tmp_path), duckdb.connect()
    lake.create_database("d")
    lake.sql("USE d")
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    for name in "abc":
        rows = drawn(chance, 14)
        table = lake.create_table(f"d.{name}", columns, primary_key=["id"])
        table.upsert(rows)
        if chance.random() < 0.7:  # some are dead then
            changed = drawn(chance, 14).slice(3, 6)
            table.upsert(changed, compact=True)
            rows = pa.concat_tables([rows.slice(0, 3), changed, rows.slice(9)])
        database.register(name, rows)
    for _ in range(25):
        conditions = [chance.choice(MATCHES), *chance.sample(OTHERS, chance.randrange(3))]
        chance.shuffle(conditions)
        exists = chance.choice(SHAPES[:2] * 4 + SHAPES).format(" AND ".join(conditions))
        text = chance.choice(PLACES).format(exists)
        expected = sorted(database.sql(text.replace("rows", '"rows"')).fetchall(), key=repr)
        assert sorted(lake.sql(text).fetchall(), key=repr) == expected, text


@pytest.mark.parametrize(
    ("condition", "becomes"),
    [
        ("EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.k AND b.n > 1)", True),
        ("a.n > 0 AND EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.k)", True),
        ("NOT EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.k)", False),
        ("EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.k AND b.n = a.n)", False),
        ("EXISTS (SELECT * FROM d.t AS b WHERE b.f = a.f)", False),
        ("EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.id)", False),
        ("EXISTS (SELECT * FROM d.t AS b WHERE b.k = a.k LIMIT 1)", False),
    ],
)
def test_which_becomes_in(condition, becomes, tmp_path, monkeypatch):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    lake.create_table("d.t", ", ".join(f"{name} {kind}" for name, kind in TYPES.items()), primary_key=["id"])
    plain, said = run_query.run_sql, []
    monkeypatch.setattr(run_query, "run_sql", lambda query: said.append(plain(query)) or said[-1])
    lake.sql(f"SELECT * FROM d.t AS a WHERE {condition}").to_arrow()
    assert ("EXISTS" not in said[-1]) is becomes


QUERIES = [
    "(SELECT x FROM s WHERE s.x = r.id) LIMIT 0", "(SELECT x FROM s WHERE s.x = r.id) LIMIT 1",
    "(SELECT x FROM s WHERE s.x = r.id)",
    "((SELECT x FROM s WHERE s.x = r.id))", "(SELECT x FROM s) ORDER BY x", "(SELECT x FROM s) LIMIT 1 OFFSET 9",
    "VALUES (1)", "(VALUES (1)) LIMIT 0", "(SELECT x FROM s) UNION ALL (SELECT x FROM s) LIMIT 0", "FROM s SELECT x WHERE x > 9",
    "TABLE s", "(WITH q AS (SELECT 1) SELECT * FROM q) LIMIT 0",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("place", ["WHERE EXISTS ({})", "WHERE NOT EXISTS ({}) AND id < 3"])
def test_each_form_of_a_query_can_stand_in_exists(query, place, tmp_path):
    """DuckDB, running the same text, is the model. No word behind an inner parenthesis is lost."""
    data = {"r": pa.table({"id": [1, 2, 3]}), "s": pa.table({"x": [1, 2, 2]})}
    model = duckdb.connect()
    for name, rows in data.items():
        model.register(name, rows)
    text = f"SELECT id FROM r {place.format(query)} ORDER BY id"
    assert lsmlake.connect(tmp_path).sql(text, tables=data).fetchall() == model.sql(text).fetchall()


def test_exists_is_a_function_of_an_array_too(tmp_path):
    lake = lsmlake.connect(tmp_path)
    assert lake.sql("SELECT exists(array(1, 2), x -> x > 1), EXISTS((array(1)), v -> v > 1)").fetchall() == [(True, False)]
    with pytest.raises(InvalidQuery, match=r"found 1 arguments; write exists\(array, x -> ...\), or EXISTS \(SELECT"):
        lake.sql("SELECT EXISTS (array(1))")
    with pytest.raises(InvalidQuery, match=r"write filter\(array, x -> ...\)$"):
        lake.sql("SELECT filter(array(1))")
