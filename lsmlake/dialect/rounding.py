"""Functions that round numbers: the result has the type of the number, or a DECIMAL with other digits."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import unit
from lsmlake.dialect.calling import Arguments, Function, counted, number_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BIGINT, DIGITS_MAX, DOUBLE, FLOAT, STRING, as_decimal, duck_name

_FLOATING_AS = {DOUBLE: pa.decimal128(30, 15), FLOAT: pa.decimal128(14, 7)}
_TEXT_AS = pa.decimal128(38, 18)
"""The DECIMALs that Spark takes other types for, where it needs one."""


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
    """`ceil` and `floor`, of a number and of one with digits after the point."""

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
    """The number of digits after the point; a negative one counts from it to the left."""
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
    """A DECIMAL rounded to so many digits. It may need one digit more."""
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


FUNCTIONS: dict[str, Function] = {
    "round": _rounded("up", "spark_round"),
    "bround": _rounded("even", "spark_round_even"),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "floor": _whole("floor"),
}
