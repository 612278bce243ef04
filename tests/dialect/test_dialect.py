"""Expressions of Spark SQL evaluated by DuckDB: same types, values and errors as Spark; the rest is refused by name."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from spark_expressions import ERROR, ROWS, outcome, table, zoned

from lsmlake.dialect.casts import cast
from lsmlake.dialect.connection import translated_errors
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.row_evaluation import columns_of, condition_of
from lsmlake.dialect.scope import Scope, Typed
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import STRING
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.types.intervals import is_interval
from lsmlake.types.type_text import format_type

TOGETHER = 20
ONLY_HERE = {"case when NULL then 1 else 2L end": "Spark wants CAST(NULL AS BOOLEAN)"}


def test_expressions_mean_what_they_mean_to_spark():
    """All expressions that the dialect takes, on one connection."""
    expected = {expression: line for expression, line in table().items() if expression not in ONLY_HERE}
    with spark_connected("UTC") as connection:
        connection.register("rows", ROWS)
        assert by_duckdb(connection, expected) == expected


def test_times_mean_what_they_mean_to_spark_in_any_zone():
    for zone, expressions in zoned().items():
        with spark_connected(zone) as connection:
            connection.register("rows", ROWS)
            assert by_duckdb(connection, expressions) == expressions, zone


def by_duckdb(connection, expected: dict[str, str]) -> dict[str, str]:
    """What DuckDB makes of expressions. Those that should have values share queries; after an error each has its own."""
    found, made = {}, {}
    for expression in expected:
        try:
            made[expression] = translated(expression)
        except LakeError:
            found[expression] = ERROR
    good = [expression for expression in made if expected[expression] != ERROR]
    for first in range(0, len(good), TOGETHER):
        some = {expression: made.pop(expression) for expression in good[first : first + TOGETHER]}
        try:
            found |= values(connection, some)
        except LakeError:
            made |= some
    for expression, one in made.items():
        try:
            found |= values(connection, {expression: one})
        except LakeError:
            found[expression] = ERROR
    return {expression: found[expression] for expression in expected}


def translated(expression: str) -> Typed:
    text = Text(expression)
    with text.read() as node:
        return Translator(text, Scope.of(ROWS.schema)).typed(node)


def values(connection, made: dict[str, Typed]) -> dict[str, str]:
    sql = [cast(one.sql, one.type, STRING) if is_interval(one.type) else one.sql for one in made.values()]
    columns = ", ".join(f"{one} AS x{number}" for number, one in enumerate(sql))
    with translated_errors():
        rows = connection.sql(f"SELECT {columns} FROM rows").to_arrow_table()
    kinds = [format_type(one.type) if one.type != pa.null() else "void" for one in made.values()]
    return dict(zip(made, map(outcome, kinds, (column.to_pylist() for column in rows.columns)), strict=True))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("frobnicate(i)", ["function frobnicate"]),
        ("uper(s)", ["did you mean upper?"]),
        ("i + nope", ["unknown column nope", "character 5"]),
        ("cast(tags as int)", ["ARRAY<STRING>", "cannot become INT"]),
        ("s rlike '(?=x)'", ["may mean something else", "(?="]),
        ("s rlike s", ["must be a literal"]),
        ("regexp_extract_all(s, '[^,]$', 0)", ["must not match line ends"]),
        ("i & 1 + 2", ["parentheses"]),
        ("s || i + 1", ["parentheses"]),
        ("c * c * c * c", ["38 digits"]),
        ("sum(i)", ["aggregate function is not allowed"]),
        ("rank() over (order by i)", ["window function is not allowed"]),
        ("(select 1)", ["query is not supported"]),
        ("i = :x", ["parameter has no value"]),
        ("current_date", ["current time"]),
        ("substring(tags, 1)", ["do not fit", "substring(STRING, INT)"]),
        ("i +", ["not SQL"]),
        ("i; i", ["exactly one"]),
        ("interval 1 day", ["INTERVAL"]),
        ("st.nope", ["no field nope", "Inner"]),
        ("i > 1 or nullif(1)", ["number of arguments"]),
    ],
)
def test_what_has_no_equal_translation_is_refused_with_its_place(expression: str, words: list[str]):
    with pytest.raises(InvalidQuery) as refused:
        columns_of({"i": expression}, Scope.of(ROWS.schema), ROWS.schema)
    assert all(word in str(refused.value) for word in words), refused.value


LOST = "lost"
ASSIGNED = [
    ("i", "l", [5, None, LOST]),
    ("i", "l % 2", [1, None, 0]),
    ("i", "1.0", [1, 1, 1]),
    ("i", "1.5", [LOST] * 3),
    ("i", "d", [LOST, None, LOST]),
    ("l", "2e3", [2000] * 3),
    ("c", "1.234", [LOST] * 3),
    ("c", "0.25D", [Decimal("0.25")] * 3),
    ("c", "1e10", [LOST] * 3),
    ("s", "i", ["1", None, "-2147483648"]),
    ("s", "dt", ["2026-11-22", None, "1969-12-31"]),
    ("dt", "ts", [LOST, None, LOST]),
    ("dt", "date_trunc('day', ts)", ROWS["dt"].to_pylist()),
    ("b", "NULL", [None] * 3),
]


@pytest.mark.parametrize(("column", "expression", "expected"), ASSIGNED)
def test_an_assignment_that_loses_something_raises(column: str, expression: str, expected: list):
    """Each row alone: one bad value fails, the others are right."""
    values = columns_of({column: expression}, Scope.of(ROWS.schema), ROWS.schema)
    for number, wanted in enumerate(expected):
        row = ROWS.slice(number, 1)
        if wanted == LOST:
            with pytest.raises(InvalidQuery):
                values.over(row)
        else:
            assert values.over(row)[column].to_pylist() == [wanted]


@pytest.mark.parametrize(
    ("column", "expression"), [("i", "'5'"), ("dt", "'2026-01-01'"), ("b", "1"), ("i", "b"), ("x", "1"), ("st", "i")]
)
def test_an_assignment_of_another_kind_is_refused_before_rows_are_read(column: str, expression: str):
    with pytest.raises(InvalidQuery):
        columns_of({column: expression}, Scope.of(ROWS.schema), ROWS.schema)


def test_a_joined_row_has_columns_of_both_sides():
    target = pa.schema([("k", pa.int64()), ("v", pa.int32())])
    source = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("op", pa.string())])
    scope = Scope.joined(target, source)
    rows = pa.table(
        {"t.k": [1, 2], "t.v": pa.array([10, 20], pa.int32()), "s.v": pa.array([1, None], pa.int32()), "s.op": ["U", "D"]}
    )
    values = columns_of({"V": "t.v + coalesce(s.v, 0)", "k": "t.k"}, scope, target)
    assert values.needs == ("t.v", "s.v", "t.k")
    assert values.over(rows).to_pydict() == {"v": [11, 20], "k": [1, 2]}
    assert condition_of("s.op = 'U' AND op <> 'D'", scope).over(rows).to_pylist() == [True, False]
    with pytest.raises(InvalidQuery, match="several columns"):
        columns_of({"v": "v"}, scope, target)
    with pytest.raises(InvalidQuery, match="not a condition"):
        condition_of("t.v", scope)


def test_rows_keep_their_order():
    rows = pa.table({"i": pa.array(range(300_000), pa.int64())})
    values = columns_of({"i": "i * 2"}, Scope.of(rows.schema), rows.schema)
    assert values.over(rows)["i"].to_pylist() == list(range(0, 600_000, 2))
    assert columns_of({"i": "7"}, Scope.of(rows.schema), rows.schema).over(rows)["i"].to_pylist() == [7] * 300_000


def test_times_without_a_zone_are_in_the_zone_of_the_session():
    rows, schema = pa.table({"i": [1]}), pa.schema([("ts", pa.timestamp("us", "UTC"))])
    values = columns_of({"ts": "TIMESTAMP '2026-07-01 12:00:00'"}, Scope.of(rows.schema), schema, zone="Europe/Berlin")
    assert str(values.over(rows)["ts"][0].as_py()) == "2026-07-01 10:00:00+00:00"
