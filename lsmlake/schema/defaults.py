"""Defaults of columns, in the metadata of their fields: the two defaults of Iceberg's specification.

`initial`: the value of a row in a file that was written before the column existed. `write`: the value of a row that is written
without the column; a write may omit a column with a write default, even if it is null. In a schema file a default is a JSON
value; dates are days and timestamps microseconds since 1970, decimals and floats text, bytes hexadecimal text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from lsmlake.errors import InvalidSchema, LakeError
from lsmlake.kernels.fitting import fitted
from lsmlake.schema import lossless
from lsmlake.schema.years import has_outside
from lsmlake.types import column_types
from lsmlake.types.type_table import as_integers, column_type, is_text
from lsmlake.types.type_text import format_type_of

INITIAL, WRITE = DEFAULTS = column_types.DEFAULTS


def default_of(field: pa.Field, which: bytes) -> pa.Scalar | None:
    """Returns the default of a field; None if it has none. A default can be a null scalar."""
    text = (field.metadata or {}).get(which)
    return None if text is None else decoded(json.loads(text), field.type)


def with_default(field: pa.Field, which: bytes, value: pa.Scalar | None) -> pa.Field:
    """Returns `field` with another default; None removes it."""
    metadata = {key: text for key, text in (field.metadata or {}).items() if key != which}
    if value is not None:
        metadata[which] = json.dumps(encoded(value)).encode()
    return field.with_metadata(metadata)


def encoded(value: pa.Scalar) -> object:
    """Returns the JSON value of a default."""
    if not value.is_valid:
        return None
    value, t = as_integers(value), pa.types
    type_ = value.type
    if t.is_decimal(type_):
        return format(value.as_py(), "f")
    if t.is_binary(type_):
        return value.as_py().hex()
    return repr(value.as_py()) if t.is_floating(type_) else value.as_py()


def decoded(content: object, type_: pa.DataType) -> pa.Scalar:
    """The inverse of `encoded`. Raises ValueError if `content` is not a value of the type."""
    t = pa.types
    if content is None:
        return pa.scalar(None, type_)
    stored = None if t.is_nested(type_) else column_type(type_).stored
    expected = bool if stored == pa.bool_() else int if stored is not None and t.is_integer(stored) else str
    if stored is None or type(content) is not expected:
        raise ValueError(f"{content!r} is not a value of {type_}")
    try:
        if t.is_binary(type_):
            return pa.scalar(bytes.fromhex(content), type_)
        if t.is_floating(type_):
            return pa.scalar(float(content), type_)
        return pa.scalar(content, stored).cast(type_)
    except (pa.ArrowException, OverflowError) as unfit:
        raise ValueError(str(unfit)) from unfit


def scalar_of(value: object, of: pa.Field, where: str) -> pa.Scalar:
    """Converts a default that a user gives to a scalar of the field's type. Raises InvalidSchema."""
    if value is None:
        return pa.scalar(None, column_types.plain(of.type))
    _no_default_of_nested(of.type, of.name)
    try:
        given = pa.array([value])
        _no_other_than_boolean(given.type, of.type)
        values = lossless.convert(given, of.type, "UTC")
        if has_outside(values):
            raise ValueError("a date or time outside the years 1 to 9999")
        return fitted(values, of)[0]
    except (lossless.Unfit, LakeError, pa.ArrowException, ValueError, OverflowError, TypeError) as unfit:
        raise InvalidSchema(
            "the default does not fit the type",
            where=f"{where}, column {of.name!r}",
            expected=format_type_of(of),
            found=unfit if isinstance(value, pa.Scalar) else repr(value),
            cure="correct the default",
        ) from unfit


def _no_other_than_boolean(given: pa.DataType, wanted: pa.DataType) -> None:
    """Raises Unfit if one type is BOOLEAN and the other is not: a write refuses TRUE for a number, too. Text is read."""
    t = pa.types
    if t.is_boolean(given) != t.is_boolean(wanted) and not (is_text(given) or t.is_null(given)):
        raise lossless.Unfit


def check_defaults(fields: Iterable[pa.Field], where: str) -> None:
    """Raises InvalidSchema if a default, at any level, is not a valid value of its field."""
    for field in fields:
        for which in DEFAULTS:
            try:
                value = default_of(field, which)
                sound = value is None or not value.is_valid or value.as_py() is not None
            except (ValueError, OverflowError):  # the latter: a date beyond Python's
                sound = False
            if not sound:
                raise InvalidSchema(f"the default of {field.name!r} is no value of its type", where=where)
        check_defaults(column_types.inner_fields(field.type), where)


def _no_default_of_nested(type_: pa.DataType, column: str) -> None:
    """Raises InvalidSchema for a nested type."""
    if pa.types.is_nested(type_):
        raise InvalidSchema(
            "a nested column cannot have a default other than null",
            where=f"column {column!r}",
            found=type_,
            cure="leave the default out, or give defaults to its fields",
        )
