"""Murmur3 (x86, 32 bits) over arrays of rows; all arithmetic wraps at 32 bits.

`kernels.bucket_hash` (Spark's hash, which selects the bucket) and `kernels.transforms` (Iceberg's, which partitions by `bucket`)
differ in what they hash and in the tail of text: the bytes after the last whole word.

Source: Murmur3 by Austin Appleby (public domain), with the tail of Spark's `Murmur3_x86_32.hashUnsafeBytes` beside its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

_FEW = 100
"""Up to so many rows, a round of Python's integers for each is faster than one array operation for all."""
Tail = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Mixes the last bytes of each row into its hash: of (hashes, data, the first byte of each tail, its number of bytes)."""


def hash_words(words: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """`words`: uint32 matrix, the words of each row in hash order."""
    hashes = seeds
    for i in range(words.shape[1]):
        hashes = round_(hashes, words[:, i])
    return finished(hashes, np.uint32(4 * words.shape[1]))


def hash_bytes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, seeds: np.ndarray, tail: Tail) -> np.ndarray:
    """Row i is `data[starts[i] : starts[i] + lengths[i]]`.

    Each step hashes one word of all rows that have this word, as long as these are many; the rest of the longest rows is hashed
    row by row. So the cost grows with the bytes: a step over few rows would cost as much as one over a hundred.
    """
    word_at = np.ndarray((max(0, len(data) - 3),), "<u4", data, strides=(1,))  # the word starting at any byte
    hashes, words, rows, step = seeds.copy(), lengths // 4, np.arange(len(lengths)), 0
    shortest = words.min()
    while step < shortest and len(rows) > _FEW:
        hashes = round_(hashes, word_at[starts + 4 * step])
        step += 1
    while len(rows := rows[words[rows] > step]) > _FEW:
        hashes[rows] = round_(hashes[rows], word_at[starts[rows] + 4 * step])
        step += 1
    for row in rows:
        rest = word_at[starts[row] + 4 * step : starts[row] + 4 * words[row] : 4]
        hashes[row] = _in_turn(int(hashes[row]), _mixed(rest).tolist())
    return finished(tail(hashes, data, starts + 4 * words, lengths % 4), lengths.astype(np.uint32))


def _in_turn(hash_: int, mixed: list[int]) -> int:
    """The rounds of one row. Each needs the result of the one before, so no array operation can do them together."""
    for word in mixed:
        hash_ ^= word
        hash_ = (((hash_ << 13) | (hash_ >> 19)) * 5 + 0xE6546B64) & 0xFFFFFFFF
    return hash_


def hash_text(values: pa.LargeBinaryArray, seeds: np.ndarray, tail: Tail) -> np.ndarray:
    """Undefined for nulls."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8)
    data = np.frombuffer(data, np.uint8)[: ends[-1]] if data else np.empty(0, np.uint8)
    return hash_bytes(data, ends[:-1], np.diff(ends), seeds, tail)


def hash_shortest(values: np.ndarray, seeds: np.ndarray, tail: Tail) -> np.ndarray:
    """Hashes 128-bit integers as their shortest big-endian two's complement bytes. `values`: uint8 matrix, sixteen little-endian
    bytes per row."""
    values = np.ascontiguousarray(values[:, ::-1])
    magnitudes = values ^ (values[:, :1].view(np.int8) >> 7).view(np.uint8)  # leading sign bytes are now 0
    first = np.where(magnitudes.any(axis=1), (magnitudes != 0).argmax(axis=1), 15)
    at = np.arange(len(values))
    lengths = 16 - first + (magnitudes[at, first] >= 0x80)  # one byte more where the sign bit would not fit
    return hash_bytes(values.ravel(), 16 * (at + 1) - lengths, lengths, seeds, tail)


def rounds_per_byte(hashes: np.ndarray, data: np.ndarray, tails: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Spark's tail: one full round per byte, read as a signed number."""
    signed = data.view(np.int8)
    for i in range(3):
        rows = np.flatnonzero(left > i)
        hashes[rows] = round_(hashes[rows], signed[tails[rows] + i].astype(np.int32).view(np.uint32))
    return hashes


def one_word(hashes: np.ndarray, data: np.ndarray, tails: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The tail of standard Murmur3: the bytes are one word, read little-endian, which is mixed in without a rotation."""
    words = np.zeros(len(hashes), np.uint32)
    for i in range(3):
        rows = np.flatnonzero(left > i)
        words[rows] |= data[tails[rows] + i].astype(np.uint32) << np.uint32(8 * i)
    return hashes ^ _mixed(words)


def round_(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    words = _mixed(words)
    words ^= hashes
    words = _rotated(words, 13)
    words *= np.uint32(5)
    words += np.uint32(0xE6546B64)
    return words


def _mixed(words: np.ndarray) -> np.ndarray:
    words = _rotated(words * np.uint32(0xCC9E2D51), 15)
    words *= np.uint32(0x1B873593)
    return words


def finished(hashes: np.ndarray, lengths: np.ndarray | np.uint32) -> np.ndarray:
    hashes = hashes ^ lengths
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
