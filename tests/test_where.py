"""A condition means the same wherever it is given: in a query, in the scan of a table and in a statement that changes rows, and
whether Arrow or DuckDB evaluates it. What one of them accepts, all accept."""

from __future__ import annotations

import random

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from test_predicate import SCHEMA, conditions, rows, sql, table_of

import lsmlake
from lsmlake.errors import InvalidQuery
from lsmlake.predicate import evaluate
from lsmlake.predicate.spark_sql.parse import parse
from lsmlake.predicate.tree import Computed
from lsmlake.statements.where import computed

NOW = "2026-01-01 00:00:00+00:00"


@examples(30)
@given(conditions, st.lists(rows, max_size=6))
def test_a_predicate_is_the_expression_that_its_text_is(condition, content):
    text, table = sql(condition), table_of(content)
    try:
        expected = np.asarray(evaluate(parse(text, SCHEMA), table))
    except InvalidQuery:
        with pytest.raises(InvalidQuery):
            computed(text, SCHEMA, "UTC", NOW)
        return
    made = computed(text, SCHEMA, "UTC", NOW)
    last = made if isinstance(made, Computed) else made.children[-1]
    assert evaluate(last, table).tolist() == expected.tolist(), text
    assert evaluate(made, table).tolist() == expected.tolist(), text


PARTS = [
    "id % 3 = 1",
    "upper(s) = 'AB'",
    "length(s) > 2 * id",
    "v IS NULL",
    "v > 1",
    "coalesce(v, 0) + id < 7",
    "s LIKE '%b'",
    "s || 'x' > 'ab'",
    "id IN (1, 3, 5)",
    "nullif(v, 2) IS NOT NULL",
    "CASE WHEN v = 1 THEN id > 4 ELSE NULL END",
    "v BETWEEN id - 2 AND id + 2",
    "s RLIKE '^a'",
    "ts < current_timestamp()",
    "ts >= TIMESTAMP '2026-01-02 00:00:00'",
    "v <=> NULL",
    "NOT (v = 1)",
    "NULL",
    "true",
]
REFUSED = [
    "nope = 1",
    "id + s",
    "'a'",
    "id",
    "nope(id) = 1",
    "count(*) > 1",
    "id = 1 LIMIT 1",
    "s > ",
    "id IN (SELECT 1)",
    "sum(v) OVER () > 1",
]


def filled(tmp_path) -> tuple[lsmlake.Lake, lsmlake.Table]:
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "id INT NOT NULL, v INT, s STRING, ts TIMESTAMP", primary_key=["id"])
    for first in (0, 3):  # the newer rows stay at level 0
        rows = [(i, (i * first) % 4 or None, "ab" * (i % 3) or None, f"2026-01-0{i % 5 + 1} 00:00:00") for i in range(first, 9)]
        data = [dict(zip(("id", "v", "s", "ts"), row, strict=True)) for row in rows]
        table.upsert(data, cast=True, compact=first == 0)
    return lake, table


def test_a_scan_and_a_change_take_the_conditions_of_queries(tmp_path):
    lake, table = filled(tmp_path)
    draw = random.Random(7)
    texts = [*PARTS, *(f" {draw.choice(['AND', 'OR'])} ".join(draw.sample(PARTS, 2)) for _ in range(20))]
    for text in texts:
        expected = sorted(lake.sql(f"SELECT id FROM d.t WHERE {text}").to_arrow()["id"].to_pylist())
        scan = table.scan(where=text, columns=["id"])
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, text
        assert (scan.count(), scan.to_polars().collect().height) == (len(expected), len(expected)), text
        other = table.update({"v": "v"}, text)
        assert other.updated == len(expected), text


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_condition_is_refused_everywhere(tmp_path, text: str):
    _, table = filled(tmp_path)
    for run in (lambda: table.scan(where=text).to_arrow(), lambda: table.delete(text), lambda: table.update({"v": "1"}, text)):
        with pytest.raises(InvalidQuery):
            run()
    assert table.scan().count() == 9
