"""The words of values, and their 64-bit hashes, for file indexes. Words and hashes are part of the format.

The word of an integer, date or timestamp is the number itself, in two's complement; the word of a float is the bits of the
double, with one zero and one NaN. A decimal has two words: its unscaled value, low word first. Text and bytes have no words. All
types of a family have the same words: a value of a narrower integer, float or decimal type has the words, and the hash, of the
equal value of a wider type.

1. A value becomes 64-bit words. Text and bytes: little-endian words, the last one filled with zeros.
2. `mix` is the finalisation of SplitMix64. A word w at place i (from 0) contributes mix(w ^ mix(i + 1)). The hash of a value is
   mix(the sum of the contributions ^ the number of bytes); the arithmetic wraps at 64 bits.

Source: SplitMix64 by Sebastiano Vigna (public domain).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.kernels.keys import fixed_width, is_text, joined, plain
from lsmlake.types.type_table import BYTES as TEXT
from lsmlake.types.type_table import DECIMAL_DIGITS_MAX, TABLE, column_type, of_integers


def family(type_: pa.DataType) -> str | None:
    """The name of the family of a type: types whose equal values have the same words or bytes. None if the type has no family."""
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
    """The type of a family that holds all its values; None if there is no family of this name."""
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


# -- hashes -----------------------------------------------------------------------------------------------------------


_BLOCK_ROWS = 1 << 16
_WORD = 8


def value_hash(column: pa.ChunkedArray) -> np.ndarray:
    """Returns one uint64 per value that is not null, in order. O(bytes)."""
    column = plain(column).drop_null()
    blocks = [_hashed(column.slice(start, _BLOCK_ROWS)) for start in range(0, len(column), _BLOCK_ROWS)]
    return np.concatenate(blocks) if blocks else np.empty(0, np.uint64)


def _hashed(column: pa.ChunkedArray) -> np.ndarray:
    if is_text(column.type):
        return _of_bytes(joined(column.cast(pa.large_binary())))
    return _of_words(words(column))


def _of_words(numbers: np.ndarray) -> np.ndarray:
    """Hashes values by their words. `numbers`: a uint64 matrix, the words of each value."""
    count = numbers.shape[1]
    places = mix(np.arange(1, count + 1, dtype=np.uint64))
    return mix(mix(numbers ^ places).sum(axis=1, dtype=np.uint64) ^ np.uint64(_WORD * count))


def _of_bytes(values: pa.LargeBinaryArray) -> np.ndarray:
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * _WORD)
    lengths = np.diff(ends)
    counts = -(-lengths // _WORD)
    first = np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    held = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if ends[-1] > ends[0] else np.empty(0, np.uint8)
    padded = np.concatenate([held, np.zeros(_WORD, np.uint8)])
    word_at = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))  # the word that begins at any byte
    numbers = word_at[np.repeat(ends[:-1] - ends[0], counts) + _WORD * place]
    left = np.minimum(np.repeat(lengths, counts) - _WORD * place, _WORD).astype(np.uint64)
    numbers &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.uint64(8) * left)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(numbers ^ mix(place.astype(np.uint64) + np.uint64(1))))])
    return mix((sums[first[1:]] - sums[first[:-1]]) ^ lengths.astype(np.uint64))


def mix(words: np.ndarray) -> np.ndarray:
    """Returns the finalisation of SplitMix64 of each number."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
