"""Hashes values to 64 bits, for file indexes. The hash is part of the format.

A value of a narrower integer, float or decimal type has the same hash as the equal value of a wider one of its family.

1. A value becomes 64-bit words (`kernels.value_words`). Text and bytes: little-endian words, the last one filled with zeros.
2. `mix` is the finalisation of SplitMix64. A word w at place i (from 0) contributes mix(w ^ mix(i + 1)). The hash of a value is
   mix(the sum of the contributions ^ the number of bytes); the arithmetic wraps at 64 bits.

Source: SplitMix64 by Sebastiano Vigna (public domain).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.kernels.keys import is_text, joined, plain
from lsmlake.kernels.value_words import words

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
    """`numbers`: a uint64 matrix, the words of each value."""
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
