"""Functions whose values no table of Spark's results can hold: drawn values, the time of the statement, arguments, errors."""

from __future__ import annotations

import pytest

import lsmlake
from lsmlake.errors import InvalidQuery


@pytest.fixture
def lake(tmp_path):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.sql("CREATE DATABASE d")
    lake.sql("CREATE TABLE d.t (id INT, u STRING) PRIMARY KEY (id)")
    lake.sql("INSERT INTO d.t VALUES (1, uuid()), (2, uuid())")
    return lake


def rows(lake, query: str, **more) -> list[tuple]:
    return [tuple(row.values()) for row in lake.sql(query, **more).to_arrow().to_pylist()]


def test_drawn_values_differ_from_row_to_row(lake):
    assert rows(lake, "SELECT count(DISTINCT u), max(length(u)), min(length(u)) FROM d.t") == [(2, 36, 36)]
    assert rows(lake, "SELECT count(DISTINCT rand()), count(DISTINCT randn()) FROM range(100)") == [(100, 100)]
    ((inside, low, high),) = rows(lake, "SELECT count(*), min(r), max(r) FROM (SELECT rand() AS r FROM range(1000)) WHERE r = r")
    assert inside == 1000 and 0 <= low < 0.1 and 0.9 < high < 1
    ((mean, spread),) = rows(lake, "SELECT avg(r), stddev(r) FROM (SELECT randn() AS r FROM range(5000))")
    assert abs(mean) < 0.1 and abs(spread - 1) < 0.1


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM d.t WHERE rand() < 0.5",
        "DELETE FROM d.t WHERE id IN (SELECT id FROM d.t WHERE rand() < 0.5)",
        "MERGE INTO d.t USING (SELECT 1 AS id) s ON t.id = s.id AND rand() < 0.5 WHEN MATCHED THEN DELETE",
        "SELECT rand() AS r, r + 1",
        "SELECT pmod(CAST(rand() * 10 AS INT), (SELECT 3))",
        "SELECT rand(5)",
    ],
)
def test_a_drawn_value_stands_only_where_one_draw_is_one_value(lake, statement: str):
    before = rows(lake, "SELECT * FROM d.t")
    with pytest.raises(InvalidQuery) as refused:
        lake.sql(statement)
    assert "volatile" not in str(refused.value) and rows(lake, "SELECT * FROM d.t") == before


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("rand() BETWEEN 0 AND 1", "x"),
        ("nullif(CAST(rand() * 2 AS INT), 0)", "x IS NULL OR x = 1"),
        ("pmod(CAST(rand() * 10 AS INT) - 5, 3)", "x IN (0, 1, 2)"),
        ("coalesce(try_divide(6, CAST(rand() * 3 AS INT)), 0)", "x IN (0, 3, 6)"),
        ("CAST(rand() AS STRING)", "CAST(x AS DOUBLE) BETWEEN 0 AND 1"),
        ("if(id < 0, '1', rand())", "CAST(x AS DOUBLE) BETWEEN 0 AND 1"),
        ("transform(array(round(rand() * 10, 1)), y -> y - y)[0]", "x = 0"),
        ("substring_index(uuid(), '-', 1)", "length(x) = 8"),
        ("width_bucket(rand(), 0D, 1D, 4)", "x IN (1, 2, 3, 4)"),
    ],
)
def test_a_drawn_argument_is_drawn_once(lake, value, holds):
    assert rows(lake, f"SELECT count(*) FROM (SELECT {value} AS x FROM range(2000)) WHERE {holds}") == [(2000,)]


def test_the_time_is_that_of_the_statement(lake):
    ((now, again, local, date, today),) = rows(
        lake, "SELECT now(), current_timestamp, localtimestamp, current_date, cast('today' AS DATE)"
    )
    assert now == again and now.replace(tzinfo=None) == local and date == today == local.date()


def test_lists_and_structs_are_arguments(lake):
    found = rows(
        lake,
        "SELECT array_contains(:ids, 2), :row.b[0], :row.a, size(:none), :nested[1][0]",
        args={"ids": [1, 2], "row": {"a": 1, "b": ("x", None)}, "none": [], "nested": [[1], [2, 3]]},
    )
    assert found == [(True, "x", 1, 0, 2)]
    with pytest.raises(InvalidQuery, match="type that SQL does not have"):
        lake.sql("SELECT :x", args={"x": {1: 2}})


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT 2147483647 + id FROM d.t", ["overflow", "INT", "try_add"]),
        ("SELECT cast(300 + id AS TINYINT) FROM d.t", ["range of TINYINT", "301", "try_cast"]),
        ("SELECT cast(u AS INT) FROM d.t", ["not an integer", "try_cast"]),
        ("SELECT 1 / (id - 1) FROM d.t", ["division by zero", "nullif"]),
        ("SELECT make_date(2026, 2, 29 + id) FROM d.t", ["no such date"]),
        ("SELECT (SELECT id FROM d.t)", ["more than one row"]),
        ("SELECT array(1)[id] FROM d.t", ["outside of an array of 1"]),
        ("SELECT map(id, 1, 1, 2) FROM d.t", ["a key twice"]),
        ("SELECT sum(9223372036854775807 - id + 1) FROM d.t", []),
        ("SELECT transform_keys(map('a', 1), (k, v) -> NULL)", ["key of a MAP"]),
        ("SELECT id /* a note */ + u /* more */ - zz FROM d.t", ["unknown column zz"]),
    ],
)
def test_errors_of_values_are_in_words_of_sql(lake, query: str, words: list[str]):
    with pytest.raises(InvalidQuery) as raised:
        lake.sql(query).to_arrow()
    message = str(raised.value)
    assert all(word in message for word in words), message
    foreign = ("INT32", "INT64", "INT8", "HUGEINT", "VARCHAR", "DuckDB", "spark_", "LINE 1", '"#', "volatile", "CAST(")
    assert not [word for word in foreign if word in message], message
    assert len(message) < 600
