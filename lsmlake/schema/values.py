"""Values and rows as text: as JSON, as plain text, and in the form in which messages show a row.

In JSON, integers, floats and booleans are JSON values; a DECIMAL is text, so that no digit is lost; DATE and TIMESTAMP are text
in ISO 8601 ("2026-01-31T12:00:00.500", with a Z if the type has a time zone); BINARY is hexadecimal text; NaN and infinities are
text; a STRUCT or a MAP is an object and an ARRAY an array. As plain text, a single value has no quotes, and a blank instead of
the T. Messages and listings show a row in short: `(k=1, day=2026-01-31, note='late')`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lsmlake.kernels.text_format import plain
from lsmlake.types.type_table import is_time


def json_rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, object]]:
    """Yields one dict per row, with values that `json.dumps` accepts."""
    columns = [json_values(column) for column in table.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(table.schema.names, row, strict=True))


def json_values(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Returns the values of one column for JSON."""
    kind = column.type
    return [_json(value, kind) for value in column.cast(_timeless(kind)).to_pylist()]


def texts(column: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Returns the values of one column as text; None for null."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in plain(chunk).to_pylist()]


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _timeless(kind: pa.DataType) -> pa.DataType:
    """Replaces dates and timestamps by text in `kind`: Arrow also formats values outside the range of Python's datetime."""
    if is_time(kind):
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
    if isinstance(value, float):
        return _json_float(np.float32(value) if pa.types.is_float32(kind) else value)
    if pa.types.is_struct(kind):
        return {field.name: _json(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {_text(_json(key, kind.key_type)): _json(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_json(item, kind.value_type) for item in value]
    return value


def _json_float(value: float | np.float32) -> float | str:
    """Rounds a FLOAT to the fewest digits that distinguish it from other FLOATs: 0.1, not 0.10000000149011612."""
    if math.isfinite(value):
        return float(str(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- rows -------------------------------------------------------------------------------------------------------------


_VALUE_SHOWN = 60
_COLUMNS_SHOWN = 8


def row_text(row: pa.Table) -> str:
    """Formats the first row of a table: dates and timestamps in ISO 8601, text in quotes, binary values as hexadecimal digits.
    Long values and long lists of columns are cut and marked."""
    columns = zip(row.column_names[:_COLUMNS_SHOWN], row.columns, strict=False)
    shown = [f"{name}={_short(_value(column.slice(0, 1)))}" for name, column in columns]
    more = row.num_columns - _COLUMNS_SHOWN
    return "(" + ", ".join(shown) + (f", and {more} more columns" if more > 0 else "") + ")"


def values_text(values: tuple[object, ...]) -> str:
    """Formats Python values, such as those of a partition, in the same form."""
    return "(" + ", ".join(_short(_value(pa.array([value]))) for value in values) + ")"


def value_text(value: object) -> str:
    """A value that is not null as text, in the form of directory names: not escaped, not cut."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def _value(column: pa.Array | pa.ChunkedArray) -> str:
    text = texts(column)[0]
    if text is None:
        return "null"
    return repr(text) if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else text


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_SHOWN else text[: _VALUE_SHOWN - 1] + "…"
