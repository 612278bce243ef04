"""Functions of numbers whose result has the type of an argument."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.arithmetic import is_timely
from lsmlake.dialect.calling import Arguments, Function, counted, number_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.literals import decimal_of
from lsmlake.dialect.scope import Relation, Scope, ScopeColumn, Typed
from lsmlake.dialect.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, TINYINT, duck_name, is_number
from lsmlake.types.intervals import is_calendar, is_interval
from lsmlake.types.type_text import format_type


def _abs(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _signed(context, node, arguments)
    return Typed(f"CAST(abs({made.sql}) AS {duck_name(made.type)})", made.type)


def _positive(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """`+ value`: text becomes a DOUBLE."""
    (made,) = counted(context, node, arguments, 1)
    return made if is_interval(made.type) else number_argument(context, arguments[0], made)


def _negative(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 1)
    return context.typed(exp.Neg(this=arguments[0]))


def _sign(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = _signed(context, node, arguments)
    sign = f"CAST(sign(CAST({made.sql} AS DOUBLE)) AS DOUBLE)"
    if pa.types.is_floating(made.type):  # the sign of -0.0 is -0.0
        sign = f"CASE WHEN {made.sql} = 0 THEN CAST({made.sql} AS DOUBLE) ELSE {sign} END"
    return Typed(sign, DOUBLE)


def _signed(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The one argument, a number or an interval that has a sign as a whole."""
    (made,) = counted(context, node, arguments, 1)
    whole = is_interval(made.type) and not is_calendar(made.type)
    return made if whole else number_argument(context, arguments[0], made)


def _div(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.IntDiv(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))


def _mod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 2)
    return context.typed(exp.Mod(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))


def _pmod(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The remainder, which is positive for a positive divisor."""
    _, divisor = counted(context, node, arguments, 2)
    rest, kind = context.typed(exp.Mod(this=exp.Paren(this=arguments[0]), expression=exp.Paren(this=arguments[1])))[:2]
    if pa.types.is_decimal(kind):
        added = decimal_of(divisor)
        again = f"CAST(spark_mod({rest} + {added.sql}, {added.sql}) AS {duck_name(kind)})"
    else:
        by = context.converted(arguments[1], divisor, kind)
        again = f"spark_{'whole_' if pa.types.is_integer(kind) else ''}mod({rest} + {by}, {by})"
    return Typed(f"CASE WHEN {rest} < 0 THEN {again} ELSE {rest} END", kind)


def _getbit(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, place = counted(context, node, arguments, 2)
    value = value if value.type != NULL else Typed("CAST(NULL AS BIGINT)", BIGINT)
    if not pa.types.is_integer(value.type):
        context.text.refuse(arguments[0], "expected an integer", found=format_type(value.type), cure="write CAST(... AS BIGINT)")
    at = context.converted(arguments[1], place, INT)
    return Typed(f"spark_getbit(CAST({value.sql} AS BIGINT), {at}, {value.type.bit_width})", TINYINT)


def _bit_count(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    (made,) = counted(context, node, arguments, 1)
    if not (pa.types.is_integer(made.type) or made.type in (BOOLEAN, NULL)):
        context.text.refuse(
            arguments[0], "expected an integer or a BOOLEAN", found=format_type(made.type), cure="write CAST(... AS BIGINT)"
        )
    wide = f"CAST({made.sql} AS {'INTEGER' if made.type == BOOLEAN else 'BIGINT'})"
    return Typed(f"CAST(bit_count({wide}) AS INTEGER)", INT)


def _tried(operator: type[exp.Binary]) -> Function:
    """Arithmetic with NULL instead of an overflow."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, 2)
        timely = any(is_timely(one.type) for one in typed)
        if timely:  # what an operand refuses is NULL, too
            typed = [_refusing_nothing(*both) for both in zip(arguments, typed, strict=True)]
        elif not all(is_number(one.type) for one in typed):
            context.text.refuse(
                node,
                "arithmetic needs numbers",
                found=", ".join(format_type(one.type) for one in typed),
                cure="cast the operands to numbers",
            )
        if operator in (exp.Div, exp.Mod) and not timely:
            divisor = exp.Anonymous(this="nullif", expressions=[arguments[1], exp.Literal.number(0)])
            return context.typed(operator(this=exp.Paren(this=arguments[0]), expression=divisor))
        places = Relation(
            (), tuple(ScopeColumn(name, one.type, f"struct_extract(o, '{name}')") for name, one in zip("ab", typed, strict=True))
        )
        inside = context.inside(Scope((places,)))
        literals = zip("ab", typed, arguments, strict=True)  # a literal in decimal arithmetic has the digits of the text
        sides = [exp.column(name) if one.constant is None else given for name, one, given in literals]
        found = inside.typed(operator(this=sides[0], expression=sides[1]))
        operands = f"{{'a': {typed[0].sql}, 'b': {typed[1].sql}}}"  # what an operand refuses is an error outside of TRY
        return Typed(f"list_transform([{operands}], lambda o: TRY({found.sql}))[1]", found.type)

    return made


def _refusing_nothing(node: exp.Expression, made: Typed) -> Typed:
    """An operand with NULL where it would fail. DuckDB tries no queries and windows."""
    whole = isinstance(node, (exp.Column, exp.Literal, exp.Interval)) or node.find(exp.Query, exp.Window)
    return made if whole else made._replace(sql=f"TRY({made.sql})")


FUNCTIONS: dict[str, Function] = {
    "abs": _abs,
    "positive": _positive,
    "negative": _negative,
    "sign": _sign,
    "signum": _sign,
    "div": _div,
    "mod": _mod,
    "pmod": _pmod,
    "getbit": _getbit,
    "bit_get": _getbit,
    "bit_count": _bit_count,
    "try_add": _tried(exp.Add),
    "try_subtract": _tried(exp.Sub),
    "try_multiply": _tried(exp.Mul),
    "try_divide": _tried(exp.Div),
    "try_mod": _tried(exp.Mod),
}
