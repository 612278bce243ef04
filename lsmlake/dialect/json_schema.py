"""The type that Spark infers for a JSON text."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import reduce

import pyarrow as pa

from lsmlake.dialect.types import BIGINT, BOOLEAN, DIGITS_MAX, DOUBLE, NULL, STRING, array_of
from lsmlake.types.type_text import backticked, format_type

_LONG_MAX = 2**63 - 1


def schema_of(given: str) -> pa.DataType:
    """The type of a JSON text. Raises ValueError for other text."""
    try:
        value = json.loads(given, parse_float=Decimal, parse_constant=_refused)
    except ValueError as error:
        raise ValueError(f"the text is no JSON: {error}") from error
    found = _inferred(value)
    empty = array_of(pa.struct([])) if pa.types.is_list(found) and pa.types.is_struct(found.value_type) else STRING
    return _shown(found) or (pa.struct([]) if pa.types.is_struct(found) else empty)


def written(kind: pa.DataType) -> str:
    """A type as Spark writes it in SQL. It puts a name in backticks only if it has other characters than letters and digits."""
    t = pa.types
    if t.is_list(kind):
        return f"ARRAY<{written(kind.value_type)}>"
    if not t.is_struct(kind):
        return format_type(kind)
    names = (name if re.fullmatch(r"(?!\d+$)\w+", name, re.ASCII) else backticked(name) for name in kind.names)
    fields = ", ".join(f"{name}: {written(field.type)}" for name, field in zip(names, kind, strict=True))
    return f"STRUCT<{fields}>"


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _inferred(value: object) -> pa.DataType:
    match value:
        case None | "":
            return NULL if value is None else STRING
        case bool():
            return BOOLEAN
        case int():
            digits = len(str(abs(value)))
            return BIGINT if -_LONG_MAX - 1 <= value <= _LONG_MAX else pa.decimal128(digits) if digits <= DIGITS_MAX else DOUBLE
        case Decimal():
            return DOUBLE
        case str():
            return STRING
        case list():
            return array_of(reduce(_common, map(_inferred, value), NULL))
    return pa.struct([pa.field(name, _inferred(one)) for name, one in sorted(value.items())])


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of values of both types."""
    t = pa.types
    if a == b or t.is_null(b):
        return a
    if t.is_null(a):
        return b
    if t.is_list(a) and t.is_list(b):
        return array_of(_common(a.value_type, b.value_type))
    if t.is_struct(a) and t.is_struct(b):
        fields = {field.name: field.type for field in a}
        for field in b:
            fields[field.name] = _common(fields.get(field.name, NULL), field.type)
        return pa.struct([pa.field(name, kind) for name, kind in sorted(fields.items())])
    numbers = all(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind) for kind in (a, b))
    if numbers:
        return DOUBLE if DOUBLE in (a, b) else a if t.is_decimal(a) and (not t.is_decimal(b) or a.precision >= b.precision) else b
    return STRING


def _shown(kind: pa.DataType) -> pa.DataType | None:
    """With STRING for values that are all null, without fields that have no name or no fields; None if nothing is left."""
    t = pa.types
    if t.is_null(kind):
        return STRING
    if t.is_list(kind):
        element = _shown(kind.value_type)
        return element and array_of(element)
    if t.is_struct(kind):
        shown = [(field.name, _shown(field.type)) for field in kind if field.name]
        fields = [pa.field(name, type_) for name, type_ in shown if type_ is not None]
        return pa.struct(fields) if fields else None
    return kind
