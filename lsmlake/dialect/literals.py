"""Literals of SQL text: the types that Spark gives numbers, and values of Python as parts of a parsed statement."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from lsmlake.border import short
from lsmlake.dialect.grammar import SPAN, PlainSpark
from lsmlake.dialect.scope import UNKNOWN, Typed
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import BIGINT, DOUBLE, INT, as_decimal, duck_name
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.types.literal import number
from lsmlake.types.type_table import TABLE, of_value

_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,3}", re.ASCII)
_INT_MAX, _BIGINT_MAX = 2**31 - 1, 2**63 - 1


def literal_number(text: Text, node: exp.Expression, digits: str) -> Typed:
    """A number of the text with Spark's type: INT, BIGINT, a DECIMAL of its digits, or DOUBLE if it has an exponent."""
    negative, unsigned = digits.startswith("-"), digits.lstrip("-")
    try:
        value = number(unsigned)
    except ValueError as error:
        text.wrong(node, str(error))
    if isinstance(value, float):
        return Typed(f"CAST('{'-' if negative else ''}{value!r}' AS DOUBLE)", DOUBLE)
    value = value.copy_negate() if negative and isinstance(value, Decimal) else -value if negative else value
    if isinstance(value, int) and -_BIGINT_MAX - 1 <= value <= _BIGINT_MAX:
        kind = INT if -_INT_MAX - 1 <= value <= _INT_MAX else BIGINT
        return Typed(f"CAST('{value}' AS {duck_name(kind)})", kind, value)
    value = Decimal(value)
    kind = _decimal_type(value)
    return Typed(f"CAST('{value:f}' AS {duck_name(kind)})", kind)


def decimal_text(digits: str) -> str | None:
    """A number with an exponent, such as 12.3E-28BD, without the exponent; None for other text."""
    return f"{Decimal(digits):f}" if _EXPONENT.fullmatch(digits) else None


def has_suffix(node: exp.Expression) -> bool:
    """Whether a number of the text is written with its type, such as 1L, which the parser reads as a CAST."""
    place = node.meta if isinstance(node, exp.Literal) and not node.is_string else {}
    return "start" in place and "end" in place and place["end"] - place["start"] + 1 > len(node.this)


def _decimal_type(value: Decimal) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -exponent)
    return pa.decimal128(max(len(digits) + max(exponent, 0), scale, 1), scale)


def decimal_of(side: Typed) -> Typed:
    """An operand of decimal arithmetic as a DECIMAL; an integer literal has the digits that it is written with."""
    kind = as_decimal(side.type) if side.constant is None else _decimal_type(Decimal(side.constant))
    made = f"CAST({side.sql} AS {duck_name(kind)})"
    return side.written(made)._replace(type=kind, constant=None, known=UNKNOWN) if side.constant is None else Typed(made, kind)


def unscaled(side: Typed) -> str:
    """The digits of a DECIMAL without the point, as an integer."""
    return f"CAST(replace(CAST(CAST({side.sql} AS {duck_name(side.type)}) AS VARCHAR), '.', '') AS HUGEINT)"


def bind(statement: exp.Expression, args: Mapping[str, object] | Sequence[object] | None, text: Text) -> exp.Expression:
    """Replaces the parameters `:name` or `?` of a statement by literals. Raises InvalidQuery for a parameter without a value, or
    a value without a parameter."""
    named = dict(args) if isinstance(args, Mapping) else {}
    listed = [] if args is None or isinstance(args, Mapping) else list(args)
    used, position = set(), 0
    for node in sorted(statement.find_all(exp.Placeholder), key=lambda node: node.meta["start"]):
        name = node.name if node.this else None
        if name is None and position < len(listed):
            value, position = listed[position], position + 1
        elif name is not None and name in named:
            value = named[name]
            used.add(name)
        else:
            shown = f":{name}" if name is not None else f"? number {position + 1}"
            text.refuse(node, f"the parameter {shown} has no value", found=args, cure=_pass(name))
        made = literal(value, name or str(position))
        stand_in(made, node)
        node.replace(made)
        statement = made if node is statement else statement
    if unused := [*(set(named) - used), *listed[position:]]:
        what = Wording("args has values without a parameter in the text", command="--arg names no parameter of the text")
        cure = Wording("write :name or ? for them", command="write :NAME in the text, or leave --arg out")
        raise InvalidQuery(what, found=short(unused), cure=cure)
    return statement


def _pass(name: str | None) -> Wording:
    """The cure for a parameter without a value. `name`: None: it is a `?`."""
    command = f"add --arg {name}=VALUE" if name is not None else "write :NAME instead of ?, and add --arg NAME=VALUE"
    return Wording("pass its value in args", command=command)


_INSTEAD_OF = "instead"


def stand_in(made: exp.Expression, node: exp.Expression) -> None:
    """Notes that the value `made` stands in a tree instead of a node of the text."""
    if (span := node.meta.get(SPAN)) is not None:
        made.meta[_INSTEAD_OF] = span


def values_in(tree: exp.Expression) -> list[tuple[int, int, str]]:
    """The places of the text for which a tree has other values, from start to stop, and the values as text."""
    return [(*node.meta[_INSTEAD_OF], node.sql(PlainSpark)) for node in tree.walk() if _INSTEAD_OF in node.meta]


def literal(value: object, shown: str) -> exp.Expression:
    """A value of Python as a literal. `shown`: the name of the value, for errors. Raises InvalidQuery for other types."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            made = exp.Literal.number(abs(value))
            return exp.Paren(this=exp.Neg(this=made)) if value < 0 else made
        case float():
            return exp.cast(exp.Literal.string(_float_text(value)), "double")
        case Decimal() if value.is_finite():
            kind = _decimal_type(value)
            return exp.cast(exp.Literal.string(f"{value:f}"), f"decimal({kind.precision},{kind.scale})")
        case str():
            return exp.Literal.string(value)
        case bytes():
            return exp.HexString(this=value.hex())
        case dt.timedelta():
            return _interval(value)
        case list() | tuple():
            return exp.Anonymous(this="array", expressions=[literal(one, shown) for one in value])
        case dict() if value and all(isinstance(name, str) for name in value):
            parts = [part for name, one in value.items() for part in (exp.Literal.string(name), literal(one, shown))]
            return exp.Anonymous(this="named_struct", expressions=parts)
    if (row := of_value(value)) is not None:
        return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType(this=exp.DataType.Type[next(iter(row.ddl))]))
    times = ", ".join(dict.fromkeys(row.iso.__name__ for row in TABLE if row.iso is not None))
    known = f"None, a bool, int, float, Decimal, str, bytes, {times} without a zone, timedelta"
    expected = f"{known}, a list of these, or a dict as a STRUCT"
    raise InvalidQuery(f"the parameter {shown} has a type that SQL does not have", expected=expected, found=short(value))


def _interval(value: dt.timedelta) -> exp.Interval:
    """INTERVAL DAY TO SECOND, as PySpark reads a timedelta."""
    size = abs(value)
    text = f"{'-' if value < dt.timedelta() else ''}{size.days} {dt.timedelta(0, size.seconds)!s:0>8}.{size.microseconds:06}"
    span = exp.IntervalSpan(this=exp.Var(this="DAY"), expression=exp.Var(this="SECOND"))
    return exp.Interval(this=exp.Literal.string(text), unit=span)


def _float_text(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
