"""The operators that compute: + - * / % DIV, the sign, the bits of integers. `time_arithmetic` has those of times."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import time_arithmetic
from lsmlake.dialect.aggregates import unit
from lsmlake.dialect.calling import number_argument
from lsmlake.dialect.cast import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.literals import decimal_of, literal_number, unscaled
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.time_arithmetic import is_timely
from lsmlake.dialect.types import BIGINT, DIGITS_MAX, DOUBLE, NULL, arithmetic, common, duck_name, is_number
from lsmlake.types.intervals import is_interval
from lsmlake.types.type_text import format_type

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITS = {exp.BitwiseAnd: "({} & {})", exp.BitwiseOr: "({} | {})", exp.BitwiseXor: "xor({}, {})"}
_MIXED = (*_BITS, exp.DPipe)
_INT64_DIGITS = 18


def computed(context: Context, node: exp.Expression) -> Typed:
    """+ - * / % DIV of numbers, times and intervals."""
    for side in (node.this, node.expression):
        if isinstance(side, _MIXED):
            context.text.refuse(node, "put the operators || & | ^ and their operands in parentheses", cure="write (a | b) ^ c")
    left, right = context.typed(node.this), context.typed(node.expression)
    if is_timely(left.type) or is_timely(right.type):
        return time_arithmetic.computed(context, node, left, right)
    if pa.types.is_string(left.type) and is_number(right.type):
        left = _number_of(context, node.this, left, right.type)
    elif pa.types.is_string(right.type) and is_number(left.type):
        right = _number_of(context, node.expression, right, left.type)
    left = left._replace(type=right.type, sql=f"CAST(NULL AS {duck_name(right.type)})") if left.type == NULL else left
    right = right._replace(type=left.type, sql=f"CAST(NULL AS {duck_name(left.type)})") if right.type == NULL else right
    if not (is_number(left.type) and is_number(right.type)):
        found = f"{format_type(left.type)} and {format_type(right.type)}"
        context.text.refuse(node, "arithmetic needs numbers", found=found, cure="cast the operands to numbers")
    return (_whole_quotient if isinstance(node, exp.IntDiv) else _numbers)(context, node, left, right)


def negated(context: Context, node: exp.Neg) -> Typed:
    """A number with the sign -."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literal_number(context.text, node, f"-{node.this.this}")
    suffixed = isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Literal) and not node.this.this.is_string
    if suffixed and not node.this.to.is_type(*exp.DataType.FLOAT_TYPES):
        signed = exp.Neg(this=node.this.this)  # -128Y: 128 is no TINYINT
        return context.typed(exp.Cast(this=signed, to=node.this.args.get("to")))
    made = context.typed(node.this)
    if is_interval(made.type):
        return made._replace(sql=time_arithmetic.negative(made))
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
        found = " and ".join(format_type(side.type) for side in sides)
        context.text.refuse(node, "DIV of these decimals needs more than 38 digits", found=found, cure="cast one of them")
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
    zeros = kind.scale + right.type.scale - left.type.scale
    numerator = f"{unscaled(left)} * CAST('1{'0' * zeros}' AS HUGEINT)"
    quotient = f"spark_{'' if checked else 'whole_'}quotient({numerator}, {unscaled(right)})"
    return Typed(f"CAST(CAST({quotient} AS DECIMAL(38,0)) * {unit(kind.scale)} AS {duck_name(kind)})", kind)


def _may_be_zero(node: exp.Expression) -> bool:
    """Whether a divisor may be 0. Only a literal other than 0 cannot be."""
    return not (isinstance(node, exp.Literal) and not node.is_string and any(digit in "123456789" for digit in node.this))
