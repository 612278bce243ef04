"""Values of Arrow columns as text for people, and as JSON.

As JSON: integers, floats and booleans are JSON's own; a DECIMAL is text, so that no digit is lost; DATE and TIMESTAMP are text in
ISO 8601 ("2026-01-31T12:00:00.500", with a Z where the type has a time zone); BINARY is hexadecimal text; NaN and the infinities
are text; a STRUCT or a MAP is an object and an ARRAY an array. For people a value that stands alone has no quotes, and a blank in
the place of the T.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa


def json_rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, object]]:
    """A dict per row, of values that `json.dumps` takes."""
    columns = [json_values(column) for column in table.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(table.schema.names, row, strict=True))


def json_values(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values of one column."""
    kind = column.type
    return [_json(value, kind) for value in column.cast(_timeless(kind)).to_pylist()]


def texts(column: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """The values of one column; None for a null."""
    values = column.cast(pa.string()).to_pylist() if pa.types.is_timestamp(column.type) else json_values(column)
    return [None if value is None else _text(value) for value in values]


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _timeless(kind: pa.DataType) -> pa.DataType:
    """`kind` with text for every date and timestamp: Arrow writes also those that Python's datetime cannot hold."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_timeless(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_timeless(kind.key_type), kind.item_field.with_type(_timeless(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_timeless(kind.value_type)))
    return kind


def _json(value: object, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return value if value.startswith("<") else value.replace(" ", "T", 1)  # "<value out of range: ...>"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if pa.types.is_struct(kind):
        return {field.name: _json(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {_text(_json(key, kind.key_type)): _json(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_json(item, kind.value_type) for item in value]
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
