"""The operators that compute: + - * / % DIV, the sign, the bits of integers, ||, and times with an INTERVAL."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import unit
from lsmlake.dialect.cast import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.functions import INTERVALS, SECONDS, SECONDS_OF_A_DAY
from lsmlake.dialect.literals import decimal_of, literal_number
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BIGINT, DATE, DOUBLE, NULL, STRING, TIMESTAMP, arithmetic, common, duck_name, is_number, is_time
from lsmlake.schema.type_text import format_type

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITS = {exp.BitwiseAnd: "({} & {})", exp.BitwiseOr: "({} | {})", exp.BitwiseXor: "xor({}, {})"}
_MIXED = (*_BITS, exp.DPipe)
_INT64_DIGITS = 18


def computed(context: Context, node: exp.Expression) -> Typed:
    """+ - * / % DIV of numbers; + and - of dates with days and of times with an INTERVAL."""
    for side in (node.this, node.expression):
        if isinstance(side, _MIXED):
            context.text.refuse(node, "put the operators || & | ^ and their operands in parentheses")
    if isinstance(node.expression, exp.Interval) and isinstance(node, (exp.Add, exp.Sub)):
        return _shifted(context, node, node.this, node.expression)
    if isinstance(node.this, exp.Interval) and isinstance(node, exp.Add):
        return _shifted(context, node, node.expression, node.this)
    left, right = context.typed(node.this), context.typed(node.expression)
    if pa.types.is_date(left.type) and isinstance(node, (exp.Add, exp.Sub)):
        if pa.types.is_integer(right.type) and right.type != BIGINT:
            return Typed(f"({left.sql} {_ARITHMETIC[type(node)]} CAST({right.sql} AS INTEGER))", DATE)
        context.text.refuse(node, "this arithmetic on dates is not supported", cure="use date_add, date_sub or datediff")
    if pa.types.is_string(left.type) and is_number(right.type):
        left = _number_of(context, node.this, left, right.type)
    elif pa.types.is_string(right.type) and is_number(left.type):
        right = _number_of(context, node.expression, right, left.type)
    left = left._replace(type=right.type, sql=f"CAST(NULL AS {duck_name(right.type)})") if left.type == NULL else left
    right = right._replace(type=left.type, sql=f"CAST(NULL AS {duck_name(left.type)})") if right.type == NULL else right
    if not (is_number(left.type) and is_number(right.type)):
        found = f"{format_type(left.type)} and {format_type(right.type)}"
        context.text.refuse(node, "arithmetic needs numbers", found=found)
    return _whole_quotient(left, right) if isinstance(node, exp.IntDiv) else _numbers(context, node, left, right)


def negated(context: Context, node: exp.Neg) -> Typed:
    """A number with the sign -."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literal_number(context.text, node, f"-{node.this.this}")
    if isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Literal) and not node.this.this.is_string:
        signed = exp.Neg(this=node.this.this)  # -128Y: 128 is no TINYINT
        return context.typed(exp.Cast(this=signed, to=node.this.args.get("to")))
    made = context.typed(node.this)
    if not is_number(made.type):
        context.text.refuse(node, "only a number has a sign", found=format_type(made.type))
    return Typed(f"CAST(-({made.sql}) AS {duck_name(made.type)})", made.type)


def bits(context: Context, node: exp.Expression) -> Typed:
    """& | ^ ~ of integers."""
    if not isinstance(node, exp.BitwiseNot):
        _unmixed(context, node)
    sides = [side for side in (node.this, node.args.get("expression")) if side is not None]
    typed = [context.typed(side) for side in sides]
    if not all(pa.types.is_integer(made.type) for made in typed):
        context.text.refuse(node, "bitwise operators need integers")
    sqls, kind = context.unified(sides, typed)
    return Typed(f"(~{sqls[0]})" if isinstance(node, exp.BitwiseNot) else _BITS[type(node)].format(*sqls), kind)


def joined(context: Context, node: exp.DPipe) -> Typed:
    """Texts joined by ||."""
    _unmixed(context, node)
    return Typed(f"({context.operand(node.this, STRING, True)} || {context.operand(node.expression, STRING, True)})", STRING)


def _unmixed(context: Context, node: exp.Expression) -> None:
    """Refuses operators whose precedence Spark and sqlglot may see differently."""
    for side in (node.this, node.expression):
        if isinstance(side, (*_ARITHMETIC, *_MIXED, exp.IntDiv)) and type(side) is not type(node):
            context.text.refuse(node, "put the operators || & | ^ and their operands in parentheses")


def _number_of(context: Context, node: exp.Expression, made: Typed, other: pa.DataType) -> Typed:
    kind = BIGINT if pa.types.is_integer(other) else DOUBLE
    return Typed(context.converted(node, made, kind), kind)


def _whole_quotient(left: Typed, right: Typed) -> Typed:
    if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
        sides = [cast(side.sql, side.type, DOUBLE) for side in (left, right)]
        return Typed(f"CAST(trunc(spark_divide({sides[0]}, {sides[1]})) AS BIGINT)", BIGINT)
    return Typed(f"spark_div(CAST({left.sql} AS BIGINT), CAST({right.sql} AS BIGINT))", BIGINT)


def _numbers(context: Context, node: exp.Expression, left: Typed, right: Typed) -> Typed:
    op, t = _ARITHMETIC[type(node)], pa.types
    if (t.is_decimal(left.type) or t.is_decimal(right.type)) and not (t.is_floating(left.type) or t.is_floating(right.type)):
        return _decimals(context, node, op, decimal_of(left), decimal_of(right))
    kind = DOUBLE if op == "/" else common(left.type, right.type)
    a, b = (cast(side.sql, side.type, kind) for side in (left, right))
    if op in "/%":
        macro = "divide" if op == "/" else "whole_mod" if t.is_integer(kind) else "mod"
        return Typed(f"spark_{macro}({a}, {b})", kind)
    return Typed(f"CAST({a} {op} {b} AS {duck_name(kind)})", kind)


def _decimals(context: Context, node: exp.Expression, op: str, left: Typed, right: Typed) -> Typed:
    kind = arithmetic(op, left.type, right.type)
    if kind is None:
        found = f"{format_type(left.type)} {op} {format_type(right.type)}"
        what = "the exact result of this arithmetic may have more than 38 digits"
        context.text.refuse(node, what, found=found, cure="cast an operand to a DECIMAL with fewer digits, or to DOUBLE")
    if op == "/":
        return _decimal_quotient(left, right, kind, _may_be_zero(node.expression))
    if op == "%":
        return Typed(f"CAST(spark_mod({left.sql}, {right.sql}) AS {duck_name(kind)})", kind)
    if op in "+-":
        digits = kind.precision if kind.precision <= _INT64_DIGITS else 38
        left, right = (side._replace(sql=f"CAST({side.sql} AS DECIMAL({digits},{kind.scale}))") for side in (left, right))
    elif left.type.precision + right.type.precision > _INT64_DIGITS:  # DuckDB would compute 64 bits and raise an error
        digits = max(left.type.precision, _INT64_DIGITS + 1)
        digits = digits if digits + right.type.precision <= 38 else 38
        left = left._replace(sql=f"CAST({left.sql} AS DECIMAL({digits},{left.type.scale}))")
    return Typed(f"CAST({left.sql} {op} {right.sql} AS {duck_name(kind)})", kind)


def _decimal_quotient(left: Typed, right: Typed, kind: pa.DataType, checked: bool) -> Typed:
    """`checked`: the divisor may be 0."""

    def unscaled(side: Typed) -> str:
        return f"CAST(replace(CAST(CAST({side.sql} AS {duck_name(side.type)}) AS VARCHAR), '.', '') AS HUGEINT)"

    zeros = kind.scale + right.type.scale - left.type.scale
    numerator = f"{unscaled(left)} * CAST('1{'0' * zeros}' AS HUGEINT)"
    quotient = f"spark_{'' if checked else 'whole_'}quotient({numerator}, {unscaled(right)})"
    return Typed(f"CAST(CAST({quotient} AS DECIMAL(38,0)) * {unit(kind.scale)} AS {duck_name(kind)})", kind)


def _shifted(context: Context, node: exp.Expression, operand: exp.Expression, interval: exp.Interval) -> Typed:
    """A date or timestamp and an interval."""
    made, unit_node, amount = context.typed(operand), interval.args.get("unit"), interval.this
    name = unit_node.name.upper().removesuffix("S") if isinstance(unit_node, exp.Var) else ""
    if name not in INTERVALS or not isinstance(amount, (exp.Literal, exp.Neg)) or not is_time(made.type):
        expected = f"a date or timestamp, and INTERVAL number {'|'.join(INTERVALS)}"
        context.text.refuse(node, "this arithmetic is not supported", expected=expected)
    number = amount.sql("spark").strip("'").replace("'", "")
    passed_on(amount)  # the text is read here
    if not number.lstrip("+-").isdecimal():
        context.text.refuse(interval, "the number of an INTERVAL must be an integer")
    kind = made.type
    if pa.types.is_date(kind) and INTERVALS[name] == "time":
        made, kind = Typed(cast(made.sql, kind, TIMESTAMP), TIMESTAMP), TIMESTAMP
    signed = int(number) if isinstance(node, exp.Add) else -int(number)
    step = f"to_{name.lower()}s(CAST({signed} AS INTEGER))"
    if name in SECONDS:  # whole days of it are days of the calendar, which may have 23 or 25 hours
        days, seconds = divmod(abs(signed) * SECONDS[name], SECONDS_OF_A_DAY)
        sign = "-" if signed < 0 else ""
        step = f"to_days({sign}{days}) + to_seconds({sign}{seconds})"
    return Typed(f"CAST({made.sql} + {step} AS {duck_name(kind)})", kind)


def _may_be_zero(node: exp.Expression) -> bool:
    """Whether a divisor may be 0. Only a literal other than 0 cannot be."""
    return not (isinstance(node, exp.Literal) and not node.is_string and any(digit in "123456789" for digit in node.this))
