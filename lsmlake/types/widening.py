"""Widening: the changes of a column's type that lose no value and that Parquet readers do while they decode.

Both sides of the table are the types that Spark's vectorised reader converts: an integer to a longer one, to DOUBLE if all its
values are doubles, or to a DECIMAL with room for every integer of its Parquet type; FLOAT to DOUBLE; a DECIMAL to one with no
fewer digits on either side of the point; DATE to TIMESTAMP_NTZ at midnight.
"""

from __future__ import annotations

import pyarrow as pa

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {pa.int8(): 10, pa.int16(): 10, pa.int32(): 10, pa.int64(): 20}  # Parquet stores the short integers as INT32


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether each value of the primitive type `old` is the same value of the type `new`."""
    if old == new:
        return True
    if old in _INTEGERS:
        if new in _INTEGERS:
            return new.bit_width > old.bit_width
        if pa.types.is_decimal(new):
            return new.precision - new.scale >= _DIGITS[old]
        return new == pa.float64() and old != pa.int64()
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    return (old, new) in ((pa.float32(), pa.float64()), (pa.date32(), pa.timestamp("us")))
