"""Literals of intervals, their fields, and the functions that make them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.interval_forms import DAY, HOUR, MINUTE, SECOND, of_kind, typed, units, value
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import DOUBLE, INT, NULL, STRING, TINYINT, duck_name, is_number
from lsmlake.types.intervals import CALENDAR, DAY_TIME, KINDS, MONTHS, SIZES, YEAR_MONTH, Interval
from lsmlake.types.type_text import format_type

_NAMES = {
    "YEAR": ("Y", "YEARS", "YR", "YRS"),
    "MONTH": ("MON", "MONS", "MONTHS"),
    "DAY": ("D", "DAYS"),
    "HOUR": ("H", "HOURS", "HR", "HRS"),
    "MINUTE": ("M", "MIN", "MINS", "MINUTES"),
    "SECOND": ("S", "SEC", "SECONDS", "SECS"),
}
"""Field -> its other names in EXTRACT."""
_SECONDS = pa.decimal128(8, 6)
_SECONDS_GIVEN = pa.decimal128(18, 6)


def literal(context: Context, node: exp.Interval) -> Typed:
    """INTERVAL '1 day 2 hours', or INTERVAL '1 2' DAY TO HOUR."""
    kind, number = parsed(context, node)
    return Typed(of_kind(f"CAST({number} AS {duck_name(kind)})", kind), kind)


def parsed(context: Context, node: exp.Interval) -> tuple[Interval, int]:
    """The type of a literal, and its number of months or microseconds."""
    given, span = node.this.this, node.args.get("unit")
    try:
        if span is None:
            return typed(*units(given))
        name = f"INTERVAL {span.this.name} TO {span.expression.name}"
        if name not in KINDS:
            raise ValueError(f"there is no {name}")
        return KINDS[name], value(given, KINDS[name])
    except ValueError as error:
        context.text.refuse(node, f"this is no INTERVAL: {error}", cure="write such as INTERVAL '1 2:03:04' DAY TO SECOND")


def extracted(context: Context, node: exp.Expression, field: str, made: Typed) -> Typed:
    """A field of an interval, by one of its names in upper case."""
    kind = made.type
    known = _NAMES if kind == CALENDAR else kind.fields
    name = next((one for one in known if field == one or field in _NAMES[one]), None)
    if name is None:
        context.text.refuse(
            node,
            f"an {kind} does not have this field",
            expected=f"one of {', '.join(known)}",
            found=field,
            cure="take a field that it has",
        )
    number = made.sql
    if kind == CALENDAR:
        part = "months" if name in MONTHS else "days" if name == "DAY" else "microseconds"
        number = f"struct_extract({made.sql}, '{part}')"
        if name == "DAY":
            return Typed(number, INT)
    wide = {"YEAR": None, "MONTH": 12, "DAY": None, "HOUR": DAY, "MINUTE": HOUR, "SECOND": MINUTE}[name]
    rest = f"({number})" if wide is None else f"({number} % {wide})"
    if name == "SECOND":
        return Typed(f"CAST(CAST({rest} AS DECIMAL(8,0)) * CAST('0.000001' AS DECIMAL(7,6)) AS DECIMAL(8,6))", _SECONDS)
    result = TINYINT if wide is not None else INT
    return Typed(f"CAST({rest} // {SIZES[name]} AS {duck_name(result)})", result)


def no_field() -> Typed:
    """A field of an interval whose name is NULL."""
    return Typed("CAST(NULL AS DOUBLE)", DOUBLE)


def _amounts(context: Context, node: exp.Expression, arguments: Arguments, most: int, seconds: bool) -> list[str]:
    """The arguments as amounts of units, with 0 for those left out. `seconds`: the last amount can have a fraction."""
    made = counted(context, node, arguments, *range(most + 1))
    for argument, one in zip(arguments, made, strict=True):
        if not (is_number(one.type) or one.type in (STRING, NULL)):
            context.text.refuse(
                argument, "expected a number", found=format_type(one.type), cure="write CAST(... AS INT), or a number"
            )
    kinds: Sequence[pa.DataType] = [*([INT] * (most - 1)), _SECONDS_GIVEN if seconds else INT]
    given = [context.converted(*three) for three in zip(arguments, made, kinds, strict=False)]
    sqls = [*given, *("0" for _ in kinds[len(given) :])]
    return [f"CAST({sql} AS DECIMAL(25,6))" if kind == _SECONDS_GIVEN else sql for sql, kind in zip(sqls, kinds, strict=True)]


def _sum(parts: Sequence[str], sizes: Sequence[int]) -> str:
    """Amounts times the sizes of their units, exactly."""
    return " + ".join(f"CAST({part} AS HUGEINT) * {size}" for part, size in zip(parts, sizes, strict=True))


def _micros(parts: Sequence[str], sizes: Sequence[int]) -> str:
    """As `_sum`, in microseconds; the last amount is seconds with a fraction."""
    return f"{_sum(parts[:-1], sizes)} + CAST({parts[-1]} * CAST({SECOND} AS DECIMAL(7,0)) AS HUGEINT)"


def _make_day_time(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _micros(_amounts(context, node, arguments, 4, True), (DAY, HOUR, MINUTE))
    return Typed(of_kind(f"CAST({made} AS BIGINT)", DAY_TIME), DAY_TIME)


def _make_year_month(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _sum(_amounts(context, node, arguments, 2, False), (12, 1))
    return Typed(of_kind(f"CAST({made} AS INTEGER)", YEAR_MONTH), YEAR_MONTH)


def _make_calendar(safe: bool) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        years, months, weeks, days, *times = _amounts(context, node, arguments, 7, True)
        parts = (_sum((years, months), (12, 1)), _sum((weeks, days), (7, 1)), _micros(times, (HOUR, MINUTE)))
        calendar = f"spark_calendar_of({', '.join(parts)})"
        return Typed(f"TRY({calendar})" if safe else calendar, CALENDAR)

    return made


FUNCTIONS: dict[str, Function] = {
    "make_dt_interval": _make_day_time,
    "make_ym_interval": _make_year_month,
    "make_interval": _make_calendar(False),
    "try_make_interval": _make_calendar(True),
}
