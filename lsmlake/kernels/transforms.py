"""Iceberg's partition transforms over Arrow arrays, and the source values that a transformed value may have come from.

The transform of null is null. Years, months, days and hours count from 1970 and are negative before; `truncated` rounds towards
minus infinity. Every transform except `bucket_numbers` keeps the order of its source values; so the source values of one
transformed value are a range, which `time_range` and `truncated_range` return.

Iceberg does not define truncation below the least value of a type; here the result is the least value, which keeps the order.

Source: the specification of Apache Iceberg, "Partition Transforms" and "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.bounds import next_bytes, next_text
from lsmlake.kernels.bucket_hash import hash_shortest, hash_text, hash_words, one_word
from lsmlake.kernels.keys import fixed_width, is_text, joined
from lsmlake.types.type_table import of_integers

YEAR, MONTH, DAY, HOUR = "year", "month", "day", "hour"
_UNITS = {YEAR: "Y", MONTH: "M", DAY: "D", HOUR: "h"}
_DAY_MICROS, _HOUR_MICROS = 86_400_000_000, 3_600_000_000
_HASH_BITS = np.int32(0x7FFFFFFF)
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_TINY = (1 << 31) - 1  # of an int32

Values = pa.Array | pa.ChunkedArray
Range = tuple[pa.Array, pa.Array]
"""The least and the greatest source value, inclusive, of each transformed value; null if unknown."""


# -- times --------------------------------------------------------------------------------------------------------------


def time_units(values: Values, unit: str) -> pa.Array:
    """The number of years, months, days or hours from 1970, as int32. `values`: dates, or timestamps in microseconds."""
    values = _array(values)
    numbers = _numbers(values)
    if unit == HOUR:
        numbers = numbers // _HOUR_MICROS
    else:
        days = numbers if pa.types.is_date32(values.type) else numbers // _DAY_MICROS
        numbers = days if unit == DAY else days.astype("datetime64[D]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)
    return pa.array(numbers, pa.int32(), mask=_nulls(values))


def time_range(units: pa.Array, unit: str, type_: pa.DataType) -> Range:
    """The first and the last source value of type `type_` in each unit of time."""
    numbers = _numbers(units)
    first, after = (_first_value(number, unit, type_) for number in (numbers, numbers + 1))
    last = np.where((after == _LEAST) | (after == _GREATEST), after, after - 1)
    made = (pa.array(side, pa.int64(), mask=_nulls(units)) for side in (first, last))
    low, high = (of_integers(side, type_) for side in made)
    return low, high


def _first_value(numbers: np.ndarray, unit: str, type_: pa.DataType) -> np.ndarray:
    """The first value of each unit, limited to the range of the type."""
    if unit == HOUR:
        return _times(numbers, _HOUR_MICROS)
    days = numbers if unit == DAY else numbers.astype(f"datetime64[{_UNITS[unit]}]").astype("datetime64[D]").astype(np.int64)
    if pa.types.is_date32(type_):
        return np.clip(days, -_TINY - 1, _TINY + 1)
    return _times(days, _DAY_MICROS)


def _times(numbers: np.ndarray, factor: int) -> np.ndarray:
    """The product, limited to the range of int64."""
    most = _GREATEST // factor
    return np.where(numbers > most, _GREATEST, np.where(numbers < -most, _LEAST, np.clip(numbers, -most, most) * factor))


def unit_text(number: int, unit: str) -> str:
    """A unit of time as Iceberg prints it: '2026', '2026-01', '2026-01-02', '2026-01-02-03'."""
    return str(np.datetime64(number, _UNITS[unit])).replace("T", "-")


def unit_end_ms(number: int, unit: str) -> int:
    """The first millisecond after a unit of time, since 1970."""
    return int(np.datetime64(number + 1, _UNITS[unit]).astype("datetime64[ms]").astype(np.int64))


# -- truncate -----------------------------------------------------------------------------------------------------------


def truncated(values: Values, width: int, made: pa.DataType) -> pa.Array:
    """Truncates values. Numbers are rounded down to a multiple of `width`, decimals by their unscaled value; of text the first
    `width` characters stay, of binary values the first `width` bytes. `made`: the type of the result."""
    values = _array(values)
    if pa.types.is_decimal(values.type):
        return _truncated_decimals(values, width)
    if pa.types.is_integer(values.type):
        numbers = _numbers(values)
        rest = np.mod(numbers, width)
        least = max(_LEAST, -(1 << (made.bit_width - 1)))
        return pa.array(np.where(numbers < least + rest, least, numbers - rest), made, mask=_nulls(values))
    cut = pc.utf8_slice_codeunits if _is_characters(values.type) else pc.binary_slice
    return cut(values, 0, width)


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    words = _words(values)
    rest = _rest(words, width)
    low = words[:, 0] - rest
    made = _decimals(low, words[:, 1] - (words[:, 0] < rest), values)
    least = pa.scalar(_limit(values.type, 1), values.type)
    return pc.if_else(pc.less(made, least), least, made)


def _rest(words: np.ndarray, width: int) -> np.ndarray:
    """The remainders of 128-bit integers by `width`, from 0 to width - 1."""
    rest = np.zeros(len(words), np.uint64)
    for place in (3, 2, 1, 0):  # digits of 32 bits, from the highest
        rest = ((rest << np.uint64(32)) | words.view(np.uint32).reshape(-1, 4)[:, place]) % np.uint64(width)
    negative = words[:, 1] >> np.uint64(63) == 1
    return np.where(negative, (rest + np.uint64(width - (1 << 128) % width)) % np.uint64(width), rest)


def truncated_range(values: pa.Array, width: int, type_: pa.DataType) -> Range:
    """The least and the greatest source value of type `type_` of each truncated value. The greatest text is unknown; instead the
    range ends with the least text that is greater than all source values."""
    if pa.types.is_decimal(type_):
        words = _words(values)
        low = words[:, 0] + (np.uint64(width - 1) - _rest(words, width))  # a remainder: the least value of the type
        last = _decimals(low, words[:, 1] + (low < words[:, 0]), values)
        most = pa.scalar(_limit(type_, 0), type_)
        return values, pc.if_else(pc.greater(last, most), most, last)
    if pa.types.is_integer(type_):
        least, most = -(1 << (type_.bit_width - 1)), (1 << (type_.bit_width - 1)) - 1
        numbers = _numbers(values)
        more = width - 1 - np.mod(numbers, width)  # a remainder: the least value of the type
        last = np.where(numbers > most - more, most, np.minimum(numbers, most - more) + more)
        return tuple(pa.array(np.clip(side, least, most), type_, mask=_nulls(values)) for side in (numbers, last))
    following = next_text if _is_characters(type_) else next_bytes
    encoded = values.dictionary_encode()
    last = [value if len(value) < width else following(value) for value in encoded.dictionary.to_pylist()]
    return values, pa.array(last, type_).take(encoded.indices)


# -- bucket -------------------------------------------------------------------------------------------------------------


def bucket_numbers(values: Values, count: int) -> pa.Array:
    """The bucket number of each value, from 0 to count - 1, as int32."""
    values = _array(values)
    return pa.array((iceberg_hash(values) & _HASH_BITS) % np.int32(count), pa.int32(), mask=_nulls(values))


def iceberg_hash(values: Values) -> np.ndarray:
    """Murmur3 (x86, 32 bits, seed 0), one int32 per value; undefined for nulls. Integers, dates (days) and timestamps
    (microseconds) are hashed as eight little-endian bytes, decimals as the shortest big-endian two's complement bytes of the
    unscaled value, text as UTF-8."""
    values = _array(values)
    seeds = np.zeros(len(values), np.uint32)
    if not len(values):
        return seeds.view(np.int32)
    if is_text(values.type):
        return hash_text(values.cast(pa.large_binary()), seeds, one_word).view(np.int32)
    if pa.types.is_decimal(values.type):
        return hash_shortest(_words(values).view(np.uint8).reshape(-1, 16), seeds, one_word).view(np.int32)
    return hash_words(_numbers(values).view(np.uint32).reshape(-1, 2), seeds).view(np.int32)


# -- parts --------------------------------------------------------------------------------------------------------------


def _array(values: Values) -> pa.Array:
    return joined(values) if isinstance(values, pa.ChunkedArray) else values


def _nulls(values: pa.Array) -> np.ndarray | None:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def _numbers(values: pa.Array) -> np.ndarray:
    """The stored integers as int64; undefined for nulls."""
    return fixed_width(pa.chunked_array([values]), f"<i{values.type.byte_width}", "<i8")


def _words(values: pa.Array) -> np.ndarray:
    """The unscaled values of decimals as two uint64 each, the low one first."""
    return fixed_width(pa.chunked_array([values]), "<u8").reshape(-1, 2)


def _decimals(low: np.ndarray, high: np.ndarray, like: pa.Array) -> pa.Array:
    words = np.column_stack([low, high.astype(np.uint64)])
    made = pa.Array.from_buffers(like.type, len(like), [None, pa.py_buffer(words.tobytes())])
    return made if not like.null_count else pc.if_else(like.is_valid(), made, pa.scalar(None, like.type))


def _limit(type_: pa.DataType, negative: int) -> Decimal:
    """The greatest value of a decimal type, or the least value if `negative`."""
    return Decimal((negative, (9,) * type_.precision, -type_.scale))


def _is_characters(type_: pa.DataType) -> bool:

    return pa.types.is_string(type_) or pa.types.is_large_string(type_)
