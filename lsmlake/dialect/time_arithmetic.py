"""+ and - of dates, timestamps and intervals; intervals times and by numbers.

An interval is the number of its months or microseconds, so that an overflow is an error of integers. A calendar interval is a
struct: see `interval_macros`.
"""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.interval_cast import of_kind
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.literals import decimal_of, unscaled
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import (
    BIGINT,
    DATE,
    DOUBLE,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    duck_name,
    is_dated,
    is_number,
)
from lsmlake.types.intervals import DAY_TIME, DAYS, is_interval
from lsmlake.types.type_text import format_type

_SCALE_MAX = 19
"""With this scale of a decimal, a result that an interval can hold is computed with at most 38 digits."""


def is_timely(kind: pa.DataType) -> bool:
    """Whether arithmetic with a value of this type is that of times."""
    return is_dated(kind) or is_interval(kind)


def computed(context: Context, node: exp.Binary, left: Typed, right: Typed) -> Typed:
    """The value of an operator of which one operand is a time or an interval."""
    made = None
    match node:
        case exp.Add():
            first, second = (right, left) if _shifts(left, right) else (left, right)
            nodes = (node.expression, node.this) if first is right else (node.this, node.expression)
            made = _sum(context, nodes[0], first, second, "+") or _null_time(left, right)
        case exp.Sub():
            made = _sum(context, node.this, left, right, "-") or _difference(context, node, left, right)
        case exp.Mul():
            swapped = is_interval(right.type)
            interval, factor, number = (right, left, node.this) if swapped else (left, right, node.expression)
            made = _scaled(context, number, interval, factor, "*")
        case exp.Div():
            made = _scaled(context, node.expression, left, right, "/")
        case exp.IntDiv() if _alike(left, right):
            made = Typed(f"spark_div(CAST({left.sql} AS BIGINT), CAST({right.sql} AS BIGINT))", BIGINT)
    return made or _refuse(context, node, left, right)


def _refuse(context: Context, node: exp.Binary, left: Typed, right: Typed) -> NoReturn:
    found = f"{format_type(left.type)} and {format_type(right.type)}"
    context.text.refuse(node, "this arithmetic is not supported", found=found, cure="cast one of the operands")


def _shifts(left: Typed, right: Typed) -> bool:
    """Whether the left operand is what is added to the right one, as in 1 + DATE '2026-01-31'."""
    if is_interval(left.type):
        return is_dated(right.type) or right.type == STRING
    return pa.types.is_integer(left.type) and right.type == DATE


def _alike(left: Typed, right: Typed) -> bool:
    return (
        is_interval(left.type)
        and is_interval(right.type)
        and left.type.storage_type == right.type.storage_type
        and not left.type.is_calendar
    )


def _sum(context: Context, node: exp.Expression, left: Typed, right: Typed, sign: str) -> Typed | None:
    """A time and days or an interval, or two intervals. `node`: the left operand."""
    if left.type == DATE and pa.types.is_integer(right.type) and right.type != BIGINT:
        return Typed(f"({left.sql} {sign} CAST({right.sql} AS INTEGER))", DATE)
    if not is_interval(right.type):
        nothing = right.type == NULL and is_interval(left.type) and not left.type.is_calendar
        return Typed(f"CAST(NULL AS {duck_name(left.type)})", left.type) if nothing else None
    step = right if sign == "+" else right._replace(sql=negative(right))
    if is_dated(left.type):
        return shifted(left, step)
    if left.type == STRING and not right.type.is_months:
        moment = Typed(context.converted(node, left, TIMESTAMP), TIMESTAMP)
        return Typed(cast(shifted(moment, step).sql, TIMESTAMP, STRING), STRING)
    if left.type == NULL and not right.type.is_calendar:
        return Typed(f"CAST(NULL AS {duck_name(right.type)})", right.type)
    kind = left.type.with_(right.type) if is_interval(left.type) else None
    if kind is None:
        return None
    if kind.is_calendar:
        return Typed(f"spark_calendar_sum({left.sql}, {step.sql})", kind)
    return Typed(f"CAST({left.sql} {sign} {right.sql} AS {duck_name(kind)})", kind)


def _null_time(left: Typed, right: Typed) -> Typed | None:
    """A time plus NULL."""
    kinds = {left.type, right.type}
    if NULL not in kinds or any(map(is_interval, kinds)):
        return None
    kind = TIMESTAMP_NTZ if TIMESTAMP_NTZ in kinds else TIMESTAMP
    return Typed(f"CAST(NULL AS {duck_name(kind)})", kind)


def negative(made: Typed) -> str:
    """An interval with the other sign."""
    return f"spark_calendar_negative({made.sql})" if made.type.is_calendar else f"CAST(-({made.sql}) AS {duck_name(made.type)})"


def shifted(made: Typed, step: Typed) -> Typed:
    """A date or timestamp plus an interval. Whole days are days of the calendar, which may have 23 or 25 hours."""
    kind = made.type
    if step.type.is_calendar:
        call = "spark_calendar_date" if kind == DATE else "spark_calendar_time"
        return Typed(f"CAST({call}({made.sql}, {step.sql}) AS {duck_name(kind)})", kind)
    if step.type.is_months:
        return Typed(f"CAST({made.sql} + to_months({step.sql}) AS {duck_name(kind)})", kind)
    if step.type == DAYS and kind == DATE:
        return Typed(f"({made.sql} + CAST({step.sql} // {DAY} AS INTEGER))", DATE)
    if kind == DATE:
        made, kind = Typed(cast(made.sql, DATE, TIMESTAMP), TIMESTAMP), TIMESTAMP
    return Typed(f"CAST(spark_after({made.sql}, {step.sql}) AS {duck_name(kind)})", kind)


def _difference(context: Context, node: exp.Sub, left: Typed, right: Typed) -> Typed | None:
    """The interval between two times. Text and NULL are times of the other side's type; timestamps are compared by the clock."""
    kinds = {left.type, right.type}
    if not kinds <= {DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, NULL}:
        return None
    sides = ((node.this, left), (node.expression, right))
    if kinds & {TIMESTAMP, TIMESTAMP_NTZ}:
        clocks = (
            made.sql if made.type == TIMESTAMP_NTZ else f"CAST({context.converted(side, made, TIMESTAMP)} AS TIMESTAMP)"
            for side, made in sides
        )
        last, first = (f"epoch_us({clock})" for clock in clocks)
        return Typed(of_kind(f"{last} - {first}", DAY_TIME), DAY_TIME)
    last, first = (context.converted(side, made, DATE) for side, made in sides)
    return Typed(of_kind(f"({last} - {first}) * {DAY}", DAYS), DAYS)


def _scaled(context: Context, node: exp.Expression, interval: Typed, number: Typed, op: str) -> Typed | None:
    """An interval times a number, or by a number, rounded half up. `node`: the number."""
    kind = interval.type
    if not is_interval(kind) or not (is_number(number.type) or number.type in (STRING, NULL)):
        return None
    if number.type in (STRING, NULL):
        number = Typed(context.converted(node, number, DOUBLE), DOUBLE)
    if kind.is_calendar:
        call = "spark_calendar_product" if op == "*" else "spark_calendar_quotient"
        return Typed(f"{call}({interval.sql}, CAST({number.sql} AS DOUBLE))", kind)
    made = _exact(context, node, interval, number, op) if not pa.types.is_floating(number.type) else None
    if made is None:
        call = "spark_interval_product" if op == "*" else "spark_interval_quotient"
        made = f"{call}(CAST({interval.sql} AS DOUBLE), CAST({number.sql} AS DOUBLE))"
    return Typed(of_kind(f"CAST({made} AS {duck_name(kind)})", kind.whole), kind.whole)


def _exact(context: Context, node: exp.Expression, interval: Typed, number: Typed, op: str) -> str:
    """A product or quotient by an integer or a decimal."""
    if pa.types.is_integer(number.type):
        a, b = f"CAST({interval.sql} AS HUGEINT)", f"CAST({number.sql} AS HUGEINT)"
        return f"{a} * {b}" if op == "*" else f"spark_quotient({a}, {b})"
    number = decimal_of(number)
    scale = number.type.scale
    if scale > _SCALE_MAX:
        what, cure = "the exact result of this arithmetic may have more than 38 digits", "cast the number to DOUBLE"
        context.text.refuse(node, what, found=format_type(number.type), cure=cure)
    one = f"CAST('1{'0' * scale}' AS HUGEINT)"
    if op == "*":
        return f"spark_whole_quotient(CAST({interval.sql} AS HUGEINT) * {unscaled(number)}, {one})"
    return f"spark_quotient(CAST({interval.sql} AS HUGEINT) * {one}, {unscaled(number)})"
