"""Numbers, dates and timestamps as 64-bit words, in the same way for all types of a family. The words are part of the format.

The word of an integer, date or timestamp is the number itself, in two's complement; that of a float the bits of the double, with
one zero and one NaN. A decimal has two: its unscaled value, low word first. Text and bytes have no words.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.kernels.keys import fixed_width, is_text
from lsmlake.types.table import BYTES as TEXT
from lsmlake.types.table import DECIMAL_DIGITS_MAX, TABLE, column_type, of_integers


def family(type_: pa.DataType) -> str | None:
    """The name of the types whose equal values have the same words, or bytes; None: values of the type have none."""
    row = column_type(type_)
    return row.family if row is not None else TEXT if is_text(type_) else None


def words(column: pa.ChunkedArray) -> np.ndarray:
    """Returns a uint64 matrix: the words of each value. `column`: of a family with words, without nulls."""
    kind = column.type
    if pa.types.is_decimal128(kind):
        return fixed_width(column, "u1").view("<u8").reshape(-1, 2)
    if pa.types.is_floating(kind):
        values = fixed_width(column.cast(pa.float64()), "<f8")
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 becomes 0.0
        return values.view(np.uint64)[:, None]
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
    width = numbers.type.byte_width
    return fixed_width(numbers, f"<i{width}", "<i8").view(np.uint64)[:, None]


def widest(name: str) -> pa.DataType | None:
    """The type of a family that holds all its values; None: there is no family of this name."""
    if name.startswith("decimal("):
        scale = name.removeprefix("decimal(").removesuffix(")")
        return pa.decimal128(DECIMAL_DIGITS_MAX, int(scale)) if scale.isdecimal() and int(scale) <= DECIMAL_DIGITS_MAX else None
    return _WIDEST.get(name)


def from_words(numbers: np.ndarray, name: str) -> pa.Array:
    """The inverse of `words`, as values of `widest(name)`."""
    type_ = widest(name)
    if pa.types.is_decimal(type_):
        return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
    if pa.types.is_floating(type_):
        return pa.array(numbers[:, 0].view(np.float64))
    return of_integers(pa.array(numbers[:, 0].view(np.int64)), type_)


_WIDEST = {row.family: row.arrow for row in TABLE} | {TEXT: pa.large_binary()}
