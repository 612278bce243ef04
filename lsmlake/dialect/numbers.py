"""Functions of numbers, and those that round them: the result has the type of the number, or a DECIMAL with other digits. `conv`
shows a whole number of 64 bits in another base.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import unit
from lsmlake.dialect.arithmetic import is_timely
from lsmlake.dialect.calling import Arguments, Function, counted, number_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.literals import decimal_of
from lsmlake.dialect.scope import Relation, Scope, ScopeColumn, Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    BOOLEAN,
    DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    STRING,
    TINYINT,
    as_decimal,
    duck_name,
    is_number,
)
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
        if timely:  # an operand that fails is NULL, too
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
        result = inside.typed(operator(this=sides[0], expression=sides[1]))
        operands = f"{{'a': {typed[0].sql}, 'b': {typed[1].sql}}}"  # outside of TRY, an operand that fails is an error
        return Typed(f"list_transform([{operands}], lambda o: TRY({result.sql}))[1]", result.type)

    return made


def _refusing_nothing(node: exp.Expression, made: Typed) -> Typed:
    """An operand with NULL where it would fail. DuckDB has no TRY of queries and windows."""
    whole = isinstance(node, (exp.Column, exp.Literal, exp.Interval)) or node.find(exp.Query, exp.Window)
    return made if whole else made._replace(sql=f"TRY({made.sql})")


# -- rounding ---------------------------------------------------------------------------------------------------------

_FLOATING_AS = {DOUBLE: pa.decimal128(30, 15), FLOAT: pa.decimal128(14, 7)}
_TEXT_AS = pa.decimal128(38, 18)
"""The DECIMALs to which Spark converts floating-point numbers and text where it needs a DECIMAL."""


def _rounded(mode: str, macro: str) -> Function:
    """`mode`: `up` for a half away from zero, `even` for a half to the even digit."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, 1, 2)
        value = number_argument(context, arguments[0], typed[0])
        digits = _digits(context, node, typed[1] if len(typed) > 1 else None)
        if pa.types.is_floating(value.type):
            return Typed(f"CAST({macro}(CAST({value.sql} AS DOUBLE), {digits}) AS {duck_name(value.type)})", value.type)
        if pa.types.is_decimal(value.type):
            return _decimal(context, node, value, mode, digits)
        if digits >= 0:
            return Typed(value.sql, value.type)
        units = f"spark_units_{mode}(CAST({value.sql} AS HUGEINT), {_power(-digits)})"
        return Typed(f"CAST({units} * {_power(-digits)} AS {duck_name(value.type)})", value.type)

    return made


def _whole(mode: str) -> Function:
    """`ceil` and `floor`, to a whole number or to a number of digits after the point."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = counted(context, node, arguments, 1, 2)
        value = number_argument(context, arguments[0], typed[0])
        if len(typed) > 1:
            kind = _TEXT_AS if typed[0].type == STRING else _FLOATING_AS.get(value.type) or as_decimal(value.type)
            exact = Typed(context.converted(arguments[0], typed[0], kind), kind)
            return _decimal(context, node, exact, mode, _digits(context, node, typed[1]))
        if pa.types.is_integer(value.type):
            return Typed(f"CAST({value.sql} AS BIGINT)", BIGINT)
        if pa.types.is_decimal(value.type):
            kind = pa.decimal128(max(1, min(38, value.type.precision - value.type.scale + 1)), 0)
            return Typed(f"CAST({mode}({value.sql}) AS {duck_name(kind)})", kind)
        return Typed(f"CASE WHEN isnan({value.sql}) THEN 0 ELSE CAST({mode}({value.sql}) AS BIGINT) END", BIGINT)

    return made


def _digits(context: Context, node: exp.Expression, given: Typed | None) -> int:
    """The number of digits after the point; a negative number counts digits before it."""
    digits = 0 if given is None else given.constant
    if digits is None or abs(digits) > DIGITS_MAX:
        name = node.name.lower()
        context.text.refuse(
            node,
            f"{name} takes a literal number of digits",
            expected=f"{-DIGITS_MAX} to {DIGITS_MAX}",
            cure="write the number itself",
        )
    return digits


def _decimal(context: Context, node: exp.Expression, value: Typed, mode: str, digits: int) -> Typed:
    """A DECIMAL rounded to a number of digits after the point. The result may need one digit more."""
    precision, scale = value.type.precision, value.type.scale
    if scale - digits > DIGITS_MAX:
        context.text.refuse(
            node,
            "the number of digits is too far from the number's own",
            expected=f"at least {scale - DIGITS_MAX}",
            cure="write a number nearer to it",
        )
    kept = min(scale, max(digits, 0))
    needed = max(precision - scale + 1, 1 - digits) if digits < 0 else precision - scale + 1 + kept
    kind = pa.decimal128(min(DIGITS_MAX, needed), kept)
    if digits >= scale or (mode == "up" and digits >= 0):
        return Typed(f"CAST({value.sql} AS {duck_name(kind)})", kind)
    unscaled = f"CAST(replace(CAST(CAST({value.sql} AS {duck_name(value.type)}) AS VARCHAR), '.', '') AS HUGEINT)"
    units = f"spark_units_{mode}({unscaled}, {_power(scale - digits)}) * {_power(max(0, -digits))}"
    return Typed(f"CAST(CAST({units} AS DECIMAL(38,0)) * {unit(kept)} AS {duck_name(kind)})", kind)


def _power(digits: int) -> str:
    return f"CAST('1{'0' * digits}' AS HUGEINT)"


# -- bases ------------------------------------------------------------------------------------------------------------

_BITS = 2**64
_TOO_LONG = refused("'the number has more than 64 bits; shorten it'")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

MACROS = {
    # the digits of s as numbers, up to the first that is none in base b; their value, or -1 if it has more than 64 bits
    "spark_digit_values(s)": f"list_transform(range(1, length(s) + 1), lambda i: instr('{_DIGITS}', upper(s[i])) - 1)",
    "spark_leading(a, b)": "list_slice(a, 1, coalesce(list_position(list_transform(a, lambda d: d < 0 OR d >= b), true) - 1, "
    "len(a)))",
    "spark_whole_of(s, b)": "list_reduce(list_transform(spark_leading(spark_digit_values(s), b), lambda d: CAST(d AS HUGEINT)), "
    f"lambda v, d: CASE WHEN v < 0 OR v * b + d >= {_BITS} THEN -1 ELSE v * b + d END, CAST(0 AS HUGEINT))",
    "spark_based(v, b)": "list_reduce(list_transform(range(65), lambda i: {'v': v, 's': ''}), lambda a, i: "
    "CASE WHEN a['v'] = 0 THEN a ELSE {'v': a['v'] // b, "
    f"'s': substr('{_DIGITS}', CAST(a['v'] % b + 1 AS BIGINT), 1) || a['s']}} END)['s']",
    "spark_shown(v, b)": "CASE WHEN v = 0 THEN '0' ELSE spark_based(v, b) END",
    # n: the number is negative. Of its 64 bits the highest is a sign only if the new base is negative
    "spark_unsigned(v, n)": f"CASE WHEN NOT n OR v = 0 THEN v WHEN v >= {_BITS // 2} THEN {_BITS - 1} ELSE {_BITS} - v END",
    "spark_signed(v)": f"CASE WHEN v >= {_BITS // 2} THEN {_BITS} - v ELSE v END",
    "spark_in_base(v, n, t)": f"CASE WHEN t IS NULL OR v IS NULL THEN NULL WHEN v < 0 THEN {_TOO_LONG} "
    f"WHEN t < 0 THEN CASE WHEN n OR v >= {_BITS // 2} THEN '-' ELSE '' END || spark_shown(spark_signed(v), -t) "
    "ELSE spark_shown(spark_unsigned(v, n), t) END",
    "spark_conv_trimmed(s, f, t)": "list_transform([{'v': spark_whole_of(ltrim(regexp_replace(s, '^-', ''), '0'), f), "
    "'n': starts_with(s, '-'), 't': t}], lambda o: spark_in_base(o['v'], o['n'], o['t']))[1]",
    "spark_conv(s, f, t)": "CASE WHEN f NOT BETWEEN 2 AND 36 OR abs(t) NOT BETWEEN 2 AND 36 OR trim(s, ' ') = '' THEN NULL "
    "ELSE spark_conv_trimmed(trim(s, ' '), f, t) END",
}
"""Head -> body."""


def _conv(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, *bases = counted(context, node, arguments, 3)
    digits = context.converted(arguments[0], value, STRING)
    old, new = (context.converted(*pair, INT) for pair in zip(arguments[1:], bases, strict=True))
    return Typed(f"spark_conv({digits}, {old}, {new})", STRING)


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
    "round": _rounded("up", "spark_round"),
    "bround": _rounded("even", "spark_round_even"),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "floor": _whole("floor"),
    "conv": _conv,
}
