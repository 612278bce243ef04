"""Decimals of few digits are computed in 64 bits: the same values as exact arithmetic, whatever the statistics say."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from pathlib import Path

import duckdb
import pytest
from effort import scaled

import lsmlake
from lsmlake import Table
from lsmlake.errors import LakeError
from lsmlake.read.digits import most_digits
from lsmlake.sql import run_query

COLUMNS = "id BIGINT NOT NULL, a DECIMAL(15,2), b DECIMAL(15,4), c INT, d DECIMAL(18,0), e DECIMAL(30,3)"
SCALES = {"a": 2, "b": 4, "c": 0, "d": 0, "e": 3}


def opened(folder: Path) -> lsmlake.Lake:
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    return lake


def made(lake: lsmlake.Lake, name: str, rows: list[dict[str, object]], **options: object) -> Table:
    table = lake.create_table(f"d.{name}", COLUMNS, primary_key=["id"], options={"bucket": 1, **options})
    table.upsert(rows, cast=True)
    return table


def drawn(chance: random.Random, digits: int, number: int) -> dict[str, object]:
    """A row whose values have up to so many digits."""
    row: dict[str, object] = {"id": number}
    for name, scale in SCALES.items():
        limit = min(digits, 9) if name == "c" else digits
        value = Decimal(chance.randrange(-(10**limit) + 1, 10**limit)).scaleb(-scale)
        row[name] = None if chance.random() < 0.1 else int(value) if name == "c" else value
    return row


Value = Callable[[Mapping[str, object]], Decimal | None]


def expression(chance: random.Random, depth: int) -> tuple[str, Value]:
    """An expression, and its exact value for a row."""
    if depth == 0:
        text = chance.choice([*SCALES, "a", "b", "1", "0.05", "-2.5"])
        return text, lambda row: None if row.get(text, text) is None else Decimal(row.get(text, text))
    (left, of_left), (right, of_right) = expression(chance, depth - 1), expression(chance, chance.randrange(depth))
    if chance.random() < 0.2:
        text = f"CASE WHEN c > 0 THEN {left} WHEN c IS NULL THEN NULL ELSE {right} END"
        return text, lambda row: None if row["c"] is None else (of_left if row["c"] > 0 else of_right)(row)
    sign = chance.choice("+-*")
    compute = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]

    def value(row: Mapping[str, object]) -> Decimal | None:
        sides = of_left(row), of_right(row)
        return None if None in sides else compute(*sides)

    return f"({left} {sign} {right})", value


def answers(lake: lsmlake.Lake, table: str, text: str) -> tuple[list[object], list[tuple]]:
    """The value of each row, and aggregates."""
    rows = lake.sql(f"SELECT {text} AS x FROM d.{table} ORDER BY id").to_arrow()
    totals = lake.sql(f"SELECT c, sum({text}), avg(CAST({text} AS DOUBLE)) FROM d.{table} GROUP BY c ORDER BY c")
    return rows["x"].to_pylist(), totals.fetchall()


@pytest.mark.parametrize("seed", range(scaled(40)))
def test_random_arithmetic_is_exact_and_does_not_depend_on_statistics(seed, tmp_path):
    """Without CASE, whose type may have fewer digits after the point than a branch, Python knows the values."""
    chance = random.Random(seed)
    digits, lake = chance.choice([2, 4, 9, 14, 15]), opened(tmp_path)
    rows = [drawn(chance, digits, number) for number in range(30)]
    for name, mode in (("known", "full"), ("unknown", "none")):
        made(lake, name, rows, **{"metadata.stats-mode": mode})
    computed = 0
    for _ in range(12):
        text, value = expression(chance, chance.choice([1, 2, 2, 3]))
        try:
            found, totals = answers(lake, "unknown", text)
        except LakeError as refused:  # the type, or a value, has more than 38 digits
            assert "38 digits" in str(refused) or "out of the range" in str(refused), (text, refused)
            continue
        assert answers(lake, "known", text) == (found, totals), text
        computed += 1
        if "CASE" in text:
            continue
        with localcontext(prec=200):
            expected = [value(row) for row in rows]
            valid = [one for one in expected if one is not None]
            assert found == expected, text
            assert sum(one for _, one, _ in totals if one is not None) == sum(valid), text
    assert computed


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN c > 0 THEN b * b ELSE d * d END",  # with 37 digits before the point, one is left after it
        "d + d",
        "-d - d",
        "d * c",
        "(a - 1) * (b + 1)",
    ],
)
@pytest.mark.parametrize("nines", [3, 17, 18])
def test_the_greatest_digits_and_types(text, nines, tmp_path):
    lake = opened(tmp_path)
    values = {"a": "9999999.99", "b": "0.2", "d": "9" * nines, "e": 1}
    for name, mode in (("known", "full"), ("unknown", "none")):
        rows = [{"id": n, "c": c, **values} for n, c in enumerate((1, 0, 9, None, 9, 9, 9, 9))]
        made(lake, name, rows, **{"metadata.stats-mode": mode})
    assert answers(lake, "known", text) == answers(lake, "unknown", text)


def statement(monkeypatch: pytest.MonkeyPatch, lake: lsmlake.Lake, text: str) -> str:
    """The statement that DuckDB runs for a query."""
    plain, said = run_query.run_sql, []
    monkeypatch.setattr(run_query, "run_sql", lambda query: said.append(plain(query)) or said[-1])
    lake.sql(text).to_arrow()
    return said[-1]


def test_statistics_decide_how_products_are_computed(monkeypatch, tmp_path):
    lake, text = opened(tmp_path), "SELECT sum(a * (1 - b)) FROM d.t"
    table = made(lake, "t", [{"id": 1, "a": "104949.50", "b": "0.1000", "c": 1, "d": 1, "e": 1}])
    narrow = 'CAST(r1."a" AS DECIMAL(15,2)) * (CAST('
    assert narrow in statement(monkeypatch, lake, text)
    table.upsert([{"id": 2, "a": "9999999999999.99", "b": "99999999999.9999", "c": 1, "d": 1, "e": 1}], cast=True)
    assert narrow not in statement(monkeypatch, lake, text)
    assert lake.sql(text).fetchall() == [(Decimal("-999999999989997999905545.460001"),)]
    assert narrow in statement(monkeypatch, lake, text.replace("d.t", "d.t VERSION AS OF 1"))


@pytest.mark.parametrize("text", ["a + d", "a * 1.05 + d", "CASE WHEN c > 0 THEN a END - d", "(a + a) * c - 1"])
def test_results_of_few_digits_have_a_narrow_type(text, tmp_path, monkeypatch):
    lake = opened(tmp_path)
    made(lake, "t", [{"id": n, "a": "12.34", "b": 1, "c": n, "d": 99, "e": 1} for n in range(3)])
    said = statement(monkeypatch, lake, f"SELECT sum({text}) FROM d.t")
    begin = end = said.index("sum(") + len("sum(")
    while said[begin:end].count("(") >= said[begin:end].count(")"):
        end += 1
    row = "SELECT 12.34::DECIMAL(15,2) AS a, 1::INTEGER AS c, 99::DECIMAL(18,0) AS d"
    ((kind,),) = duckdb.sql(f"SELECT typeof({said[begin : end - 1]}) FROM ({row}) AS r1").fetchall()
    assert int(kind.removeprefix("DECIMAL(").partition(",")[0]) <= 18, kind


def test_conditions_in_many_levels_are_translated_at_once(tmp_path):
    lake, text = opened(tmp_path), "a"
    made(lake, "t", [{"id": n, "a": "12.34", "b": 1, "c": n, "d": 99, "e": 1} for n in range(3)])
    for level in range(40):  # each part is asked once for its digits: asked twice at each level it would take for ever
        text = f"CASE WHEN c > {level} THEN a ELSE {text} END"
    assert lake.sql(f"SELECT sum({text}) FROM d.t").fetchall() == [(Decimal("37.02"),)]


def test_digits_are_those_of_all_files_of_the_version(tmp_path):
    lake = opened(tmp_path)
    table = made(lake, "t", [{"id": 1, "a": "-0.05", "b": 0, "c": -700, "d": 1, "e": None}])
    digits = {name: most_digits(table.version, name) for name in SCALES}
    assert digits == {"a": 1, "b": 1, "c": 3, "d": 1, "e": None}
    table.upsert([{"id": 2, "a": "10.00", "b": 1, "c": None, "d": 1, "e": 1}], cast=True, compact=False)
    assert (most_digits(table.version, "a"), most_digits(table.version, "c")) == (4, None)
    table.alter(lsmlake.add_column("f", "DECIMAL(10,2)", default=Decimal("12345678.90")))
    assert most_digits(table.version, "f") is None  # the rows of older files have the default
    assert most_digits(table.version, "id") == 1 and most_digits(table.version, "e") is None


def test_engines_that_compute_values_at_reads_say_nothing(tmp_path):
    lake = opened(tmp_path)
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    rows = [{"id": 1, "a": "9999999999999.99", "b": 1, "c": 1, "d": 1, "e": 1}]
    table = made(lake, "t", rows, **options)
    table.upsert([{**rows[0], "a": "-9999999999999.98"}], cast=True, compact=False)
    assert most_digits(table.version, "a") is None
    assert lake.sql("SELECT a * a FROM d.t").fetchall() == [(Decimal("0.0001"),)]


@pytest.mark.parametrize("most", [10**17, 10**18 - 1, 10**18, 2**63 - 1, -(2**63)])
def test_integers_of_nineteen_digits_are_added_up(most: int, tmp_path):
    lake = opened(tmp_path)
    table = lake.create_table("d.t", "id INT NOT NULL, v BIGINT", primary_key=["id"])
    table.upsert([{"id": 1, "v": most}, {"id": 2, "v": -1 if most > 0 else 1}], cast=True)
    found = lake.sql("SELECT sum(v), avg(v), max(v), sum(v * CAST(1 AS DECIMAL(1,0))) FROM d.t").fetchall()
    total = most + (-1 if most > 0 else 1)
    assert found == [(total, total / 2, max(most, -1 if most > 0 else 1), Decimal(total))]
