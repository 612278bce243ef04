"""Hashes values to 64 bits, for file indexes. The hash is part of the format.

A value of a narrower integer, float or decimal type has the same hash as the equal value of a wider one of its family.

1. A value becomes 64-bit words. Integers, dates and timestamps: the number itself. Floats: the bits of the double, with one zero
   and one NaN. Decimals: the unscaled value, low word first. Text and bytes: little-endian words, the last one filled with zeros.
2. `mix` is the finalisation of SplitMix64. A word w at place i (from 0) contributes mix(w ^ mix(i + 1)). The hash of a value is
   mix(the sum of the contributions ^ the number of bytes); the arithmetic wraps at 64 bits.

Source: SplitMix64 by Sebastiano Vigna (public domain).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.kernels.chunks import joined
from lsmlake.kernels.keys import fixed_width, is_text, plain

_BLOCK_ROWS = 1 << 16
_WORD = 8


def family(type_: pa.DataType) -> str | None:
    """The name of the types whose equal values have one hash; None: values of the type have no hash."""
    if pa.types.is_floating(type_):
        return "float"
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    for name, is_it in (("boolean", pa.types.is_boolean), ("integer", pa.types.is_signed_integer), ("date", pa.types.is_date32)):
        if is_it(type_):
            return name
    return "bytes" if is_text(type_) else None


def value_hash(column: pa.ChunkedArray) -> np.ndarray:
    """Returns one uint64 per value that is not null, in order. O(bytes)."""
    column = plain(column).drop_null()
    blocks = [_hashed(column.slice(start, _BLOCK_ROWS)) for start in range(0, len(column), _BLOCK_ROWS)]
    return np.concatenate(blocks) if blocks else np.empty(0, np.uint64)


def _hashed(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if is_text(kind):
        return _of_bytes(joined(column.cast(pa.large_binary())))
    if pa.types.is_decimal128(kind):
        return _of_words(fixed_width(column, "u1").view("<u8").reshape(-1, 2))
    if pa.types.is_floating(kind):
        values = fixed_width(column.cast(pa.float64()), "<f8")
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 becomes 0.0
        return _of_words(values.view(np.uint64)[:, None])
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
    width = numbers.type.byte_width
    return _of_words(fixed_width(numbers, f"<i{width}", "<i8").view(np.uint64)[:, None])


def _of_words(words: np.ndarray) -> np.ndarray:
    """`words`: a uint64 matrix, the words of each value."""
    count = words.shape[1]
    places = mix(np.arange(1, count + 1, dtype=np.uint64))
    return mix(mix(words ^ places).sum(axis=1, dtype=np.uint64) ^ np.uint64(_WORD * count))


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
    words = word_at[np.repeat(ends[:-1] - ends[0], counts) + _WORD * place]
    left = np.minimum(np.repeat(lengths, counts) - _WORD * place, _WORD).astype(np.uint64)
    words &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.uint64(8) * left)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(words ^ mix(place.astype(np.uint64) + np.uint64(1))))])
    return mix((sums[first[1:]] - sums[first[:-1]]) ^ lengths.astype(np.uint64))


def mix(words: np.ndarray) -> np.ndarray:
    """Returns the finalisation of SplitMix64 of each number."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
