"""The operators that compute: + - * / % DIV, the sign and the bits of numbers; + and - of dates, timestamps and intervals;
intervals times and by numbers.

An interval is the number of its months or microseconds, so that an overflow is an error of integers. A calendar interval is a
struct: see `interval_macros`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import unit
from lsmlake.dialect.calling import number_argument
from lsmlake.dialect.casts import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.interval_forms import DAY, of_kind
from lsmlake.dialect.literals import decimal_of, literal_number, unscaled
from lsmlake.dialect.scope import INT64_DIGITS, Narrow, Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    DATE,
    DIGITS_MAX,
    DOUBLE,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arithmetic,
    common,
    duck_name,
    is_dated,
    is_number,
)
from lsmlake.types.intervals import DAY_TIME, DAYS, is_interval
from lsmlake.types.type_text import format_type

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITS = {exp.BitwiseAnd: "({} & {})", exp.BitwiseOr: "({} | {})", exp.BitwiseXor: "xor({}, {})"}
_MIXED = (*_BITS, exp.DPipe)


def computed(context: Context, node: exp.Expression) -> Typed:
    """+ - * / % DIV of numbers, times and intervals."""
    for side in (node.this, node.expression):
        if isinstance(side, _MIXED):
            context.text.refuse(node, "put the operators || & | ^ and their operands in parentheses", cure="write (a | b) ^ c")
    left, right = context.typed(node.this), context.typed(node.expression)
    if is_timely(left.type) or is_timely(right.type):
        return _timely(context, node, left, right)
    if pa.types.is_string(left.type) and is_number(right.type):
        left = _number_of(context, node.this, left, right.type)
    elif pa.types.is_string(right.type) and is_number(left.type):
        right = _number_of(context, node.expression, right, left.type)
    left = left._replace(type=right.type, sql=f"CAST(NULL AS {duck_name(right.type)})") if left.type == NULL else left
    right = right._replace(type=left.type, sql=f"CAST(NULL AS {duck_name(left.type)})") if right.type == NULL else right
    if not (is_number(left.type) and is_number(right.type)):
        types = f"{format_type(left.type)} and {format_type(right.type)}"
        context.text.refuse(node, "arithmetic needs numbers", found=types, cure="cast the operands to numbers")
    return (_whole_quotient if isinstance(node, exp.IntDiv) else _numbers)(context, node, left, right)


def negated(context: Context, node: exp.Neg) -> Typed:
    """A number or an interval with the sign -."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literal_number(context.text, node, f"-{node.this.this}")
    suffixed = isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Literal) and not node.this.this.is_string
    if suffixed and not node.this.to.is_type(*exp.DataType.FLOAT_TYPES):
        signed = exp.Neg(this=node.this.this)  # -128Y: 128 is no TINYINT
        return context.typed(exp.Cast(this=signed, to=node.this.args.get("to")))
    made = context.typed(node.this)
    if is_interval(made.type):
        return made._replace(sql=negative(made))
    made = number_argument(context, node.this, made)
    return Typed(f"CAST(-({made.sql}) AS {duck_name(made.type)})", made.type)


def bits(context: Context, node: exp.Expression) -> Typed:
    """& | ^ ~ of integers."""
    if not isinstance(node, exp.BitwiseNot):
        unmixed(context, node)
    sides = [side for side in (node.this, node.args.get("expression")) if side is not None]
    typed = [context.typed(side) for side in sides]
    if not all(pa.types.is_integer(made.type) for made in typed):
        context.text.refuse(node, "bitwise operators need integers", cure="cast the operands to BIGINT")
    sqls, kind = context.unified(sides, typed)
    return Typed(f"(~{sqls[0]})" if isinstance(node, exp.BitwiseNot) else _BITS[type(node)].format(*sqls), kind)


def unmixed(context: Context, node: exp.Expression) -> None:
    """Refuses operators whose precedence Spark and sqlglot may see differently."""
    for side in (node.this, node.expression):
        if isinstance(side, (*_ARITHMETIC, *_MIXED, exp.IntDiv)) and type(side) is not type(node):
            context.text.refuse(node, "put the operators || & | ^ and their operands in parentheses", cure="write (a | b) ^ c")


def _number_of(context: Context, node: exp.Expression, made: Typed, other: pa.DataType) -> Typed:
    kind = BIGINT if pa.types.is_integer(other) else DOUBLE
    return Typed(context.converted(node, made, kind), kind)


def _whole_quotient(context: Context, node: exp.Expression, left: Typed, right: Typed) -> Typed:
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return Typed(f"spark_div(CAST({left.sql} AS BIGINT), CAST({right.sql} AS BIGINT))", BIGINT)
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        context.text.refuse(node, "DIV takes integers and decimals", cure="cast the operands to DECIMAL")
    sides = [decimal_of(side) for side in (left, right)]
    scale = max(side.type.scale for side in sides)
    if any(side.type.precision - side.type.scale + scale > DIGITS_MAX for side in sides):
        types = " and ".join(format_type(side.type) for side in sides)
        context.text.refuse(node, "DIV of these decimals needs more than 38 digits", found=types, cure="cast one of them")
    kind = pa.decimal128(DIGITS_MAX, scale)
    a, b = (unscaled(Typed(cast(side.sql, side.type, kind), kind)) for side in sides)
    return Typed(f"CAST(spark_div({a}, {b}) AS BIGINT)", BIGINT)


def _numbers(context: Context, node: exp.Expression, left: Typed, right: Typed) -> Typed:
    op, t = _ARITHMETIC[type(node)], pa.types
    if (t.is_decimal(left.type) or t.is_decimal(right.type)) and not (t.is_floating(left.type) or t.is_floating(right.type)):
        return _decimals(context, node, op, decimal_of(left), decimal_of(right))
    kind = DOUBLE if op == "/" else common(left.type, right.type)
    a, b = (cast(side.sql, side.type, kind) for side in (left, right))
    if op in "/%":
        macro = "divide" if op == "/" else "whole_mod" if t.is_integer(kind) else "mod"
        return Typed(f"spark_{macro}({a}, {b})", kind)
    made = f"CAST({a} {op} {b} AS {duck_name(kind)})"
    if t.is_integer(kind):
        made = f"greatest({made})"  # DuckDB would make n > 1 - 2147483647 of n + 2147483647 > 1, where nothing overflows
    return Typed(made, kind)


def _decimals(context: Context, node: exp.Expression, op: str, left: Typed, right: Typed) -> Typed:
    kind = arithmetic(op, left.type, right.type)
    if kind is None:
        types = f"{format_type(left.type)} {op} {format_type(right.type)}"
        what = "the exact result of this arithmetic may have more than 38 digits"
        context.text.refuse(node, what, found=types, cure="cast an operand to a DECIMAL with fewer digits, or to DOUBLE")
    if op == "/":
        return _decimal_quotient(left, right, kind, _may_be_zero(node.expression))
    if op == "%":
        return Typed(f"CAST(spark_mod({left.sql}, {right.sql}) AS {duck_name(kind)})", kind)
    if (narrow := _in_64_bits(op, left.in_64_bits, right.in_64_bits)) is not None:
        made = f"CAST({narrow.sql} AS {duck_name(kind)})"
        return Typed(made, kind, narrow=lambda: narrow._replace(of=made))
    if op in "+-":
        digits = kind.precision if kind.precision <= INT64_DIGITS else 38
        left, right = (side._replace(sql=f"CAST({side.sql} AS DECIMAL({digits},{kind.scale}))") for side in (left, right))
    elif left.type.precision + right.type.precision > INT64_DIGITS:  # DuckDB would compute 64 bits and raise an error
        digits = max(left.type.precision, INT64_DIGITS + 1)
        digits = digits if digits + right.type.precision <= 38 else 38
        left = left._replace(sql=f"CAST({left.sql} AS DECIMAL({digits},{left.type.scale}))")
    return Typed(f"CAST({left.sql} {op} {right.sql} AS {duck_name(kind)})", kind)


def _in_64_bits(op: str, left: Narrow | None, right: Narrow | None) -> Narrow | None:
    """The result of + - * if it has few digits, too."""
    if left is None or right is None:
        return None
    if op == "*":  # of operands of 64 bits DuckDB makes one of 64 bits, and an error of an overflow
        digits, scale = left.digits + right.digits, left.scale + right.scale
        width = min(left.width + right.width, INT64_DIGITS)
    else:  # DuckDB makes the result a digit wider
        scale = max(left.scale, right.scale)
        digits, width = (
            max(size(left) - left.scale, size(right) - right.scale) + 1 + scale
            for size in (attrgetter("digits"), attrgetter("width"))
        )
    if max(digits, scale) > INT64_DIGITS:
        return None
    sides = [left.sql, right.sql]
    if width > INT64_DIGITS:
        width, sides = INT64_DIGITS, [f"CAST({sql} AS DECIMAL({INT64_DIGITS - 1},{scale}))" for sql in sides]
    return Narrow("", f"({sides[0]} {op} {sides[1]})", width, digits, scale)


def _decimal_quotient(left: Typed, right: Typed, kind: pa.DataType, checked: bool) -> Typed:
    """The quotient of two decimals. `checked`: the divisor may be 0."""
    zeros = kind.scale + right.type.scale - left.type.scale
    numerator = f"{unscaled(left)} * CAST('1{'0' * zeros}' AS HUGEINT)"
    quotient = f"spark_{'' if checked else 'whole_'}quotient({numerator}, {unscaled(right)})"
    return Typed(f"CAST(CAST({quotient} AS DECIMAL(38,0)) * {unit(kind.scale)} AS {duck_name(kind)})", kind)


def _may_be_zero(node: exp.Expression) -> bool:
    """Whether a divisor may be 0. Only a literal other than 0 cannot be."""
    return not (isinstance(node, exp.Literal) and not node.is_string and any(digit in "123456789" for digit in node.this))


_SCALE_MAX = 19
"""With this scale of a decimal, a result that an interval can hold is computed with at most 38 digits."""


# -- times and intervals ----------------------------------------------------------------------------------------------


def is_timely(kind: pa.DataType) -> bool:
    """Whether arithmetic with this type follows the rules of times and intervals."""
    return is_dated(kind) or is_interval(kind)


def _timely(context: Context, node: exp.Binary, left: Typed, right: Typed) -> Typed:
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
    types = f"{format_type(left.type)} and {format_type(right.type)}"
    context.text.refuse(node, "this arithmetic is not supported", found=types, cure="cast one of the operands")


def _shifts(left: Typed, right: Typed) -> bool:
    """Whether the left operand is the step and the right one the time, as in 1 + DATE '2026-01-31'."""
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
    """A time plus or minus days or an interval, or one interval plus or minus another. `node`: the left operand."""
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
    """An interval times or by an integer or a decimal, without rounding on the way. `node`: the number."""
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
