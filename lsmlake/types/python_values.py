"""Single values of columns as PyArrow gives them to Python, made from what files hold, without an array for each value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Context
from functools import lru_cache

import pyarrow as pa

from lsmlake.types.type_table import DECIMAL_DIGITS_MAX, is_time

DECIMAL_BYTES = 16
_EXACT = Context(prec=DECIMAL_DIGITS_MAX)


@lru_cache(maxsize=256)
def made_of(type_: pa.DataType) -> Callable[[object], object] | None:
    """Makes the value of Python from the integer of a date or time, or from the sixteen little-endian bytes of a decimal; raises
    OverflowError for a date that Python lacks. None if the stored value of the type is that of Python."""
    if pa.types.is_decimal(type_):
        scale = -type_.scale
        return lambda stored: _EXACT.scaleb(_EXACT.create_decimal(int.from_bytes(stored, "little", signed=True)), scale)
    if not is_time(type_):
        return None
    if pa.types.is_time(type_):
        midnight = pa.scalar(0, pa.timestamp("us")).as_py()
        return lambda stored: (midnight + timedelta(microseconds=stored)).time()
    first = pa.scalar(0, type_).as_py()
    if pa.types.is_date(type_):
        return lambda stored: first + timedelta(stored)
    return lambda stored: first + timedelta(microseconds=stored)
