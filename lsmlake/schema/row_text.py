"""Rows as short text for error messages and listings: `(k=1, day=2026-01-31, note='late')`."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.schema.values import texts

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
