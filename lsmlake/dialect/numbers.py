"""Functions of numbers whose result has the type of an argument."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Column, Relation, Scope, Typed
from lsmlake.dialect.types import BIGINT, DOUBLE, NULL, STRING, duck_name, is_number
from lsmlake.schema.type_text import format_type

_ROUND_DIGITS_MAX = 10


def _abs(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _number(context, node, counted(context, node, arguments, 1)[0])
    return Typed(f"CAST(abs({made.sql}) AS {duck_name(made.type)})", made.type)


def _positive(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """`+ value`: text becomes a DOUBLE."""
    (made,) = counted(context, node, arguments, 1)
    if made.type == STRING:
        return Typed(context.converted(arguments[0], made, DOUBLE), DOUBLE)
    return _number(context, node, made)


def _to_whole(call: str) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        value = _number(context, node, counted(context, node, arguments, 1)[0])
        if pa.types.is_integer(value.type):
            return Typed(f"CAST({value.sql} AS BIGINT)", BIGINT)
        if pa.types.is_decimal(value.type):
            kind = pa.decimal128(max(1, min(38, value.type.precision - value.type.scale + 1)), 0)
            return Typed(f"CAST({call}({value.sql}) AS {duck_name(kind)})", kind)
        return Typed(f"CASE WHEN isnan({value.sql}) THEN 0 ELSE CAST({call}({value.sql}) AS BIGINT) END", BIGINT)

    return made


def _round(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 1, 2)
    value = _number(context, node, typed[0])
    digits = typed[1].constant if len(typed) > 1 else 0
    if digits is None or not 0 <= digits <= _ROUND_DIGITS_MAX:
        context.text.refuse(node, "round takes a literal number of digits", expected=f"0 to {_ROUND_DIGITS_MAX}")
    if pa.types.is_integer(value.type):
        return Typed(value.sql, value.type)
    if pa.types.is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(38, max(1, value.type.precision - value.type.scale + 1 + scale)), scale)
        return Typed(f"CAST({value.sql} AS {duck_name(kind)})", kind)
    return Typed(f"CAST(spark_round({value.sql}, {digits}) AS {duck_name(value.type)})", value.type)


def _mod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.Mod(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))


def _pmod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2)
    (left, right), kind = context.unified(arguments, typed)
    if not pa.types.is_integer(kind):
        context.text.refuse(node, "pmod is supported for integers only", found=format_type(kind))
    rest = f"spark_whole_mod({left}, {right})"
    return Typed(f"CASE WHEN {rest} < 0 THEN spark_whole_mod({rest} + {right}, {right}) ELSE {rest} END", kind)


def _tried(operator: type[exp.Binary]) -> Function:
    """Arithmetic with NULL instead of an overflow."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, 2)
        if not all(is_number(one.type) for one in typed):
            context.text.refuse(node, "arithmetic needs numbers", found=", ".join(format_type(one.type) for one in typed))
        if operator in (exp.Div, exp.Mod):
            divisor = exp.Anonymous(this="nullif", expressions=[arguments[1], exp.Literal.number(0)])
            return context.typed(operator(this=exp.Paren(this=arguments[0]), expression=divisor))
        places = Relation(
            (), tuple(Column(name, one.type, f"struct_extract(o, '{name}')") for name, one in zip("ab", typed, strict=True))
        )
        inside = context.inside(Scope((places,)))
        literals = zip("ab", typed, arguments, strict=True)  # a literal in decimal arithmetic has the digits of the text
        sides = [exp.column(name) if one.constant is None else given for name, one, given in literals]
        found = inside.typed(operator(this=sides[0], expression=sides[1]))
        operands = f"{{'a': {typed[0].sql}, 'b': {typed[1].sql}}}"  # what an operand refuses is an error outside of TRY
        return Typed(f"list_transform([{operands}], lambda o: TRY({found.sql}))[1]", found.type)

    return made


def _number(context: Context, node: exp.Expression, made: Typed) -> Typed:
    if made.type == NULL:
        return Typed("CAST(NULL AS DOUBLE)", DOUBLE)
    if not is_number(made.type):
        context.text.refuse(node, "expected a number", found=format_type(made.type))
    return made


FUNCTIONS: dict[str, Function] = {
    "abs": _abs,
    "positive": _positive,
    "ceil": _to_whole("ceil"),
    "ceiling": _to_whole("ceil"),
    "floor": _to_whole("floor"),
    "round": _round,
    "mod": _mod,
    "pmod": _pmod,
    "try_add": _tried(exp.Add),
    "try_subtract": _tried(exp.Sub),
    "try_multiply": _tried(exp.Mul),
    "try_divide": _tried(exp.Div),
    "try_mod": _tried(exp.Mod),
}
