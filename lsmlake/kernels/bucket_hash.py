"""Computes the bucket of a row: a NumPy implementation of Spark SQL's `hash(c1, c2, ...)`.

Invariant: `bucket_of(columns, n)` equals Spark's `pmod(hash(c1, ...), n)` for all key types, so Spark and this process assign
rows to the same bucket. The hash is part of the format.

1. The seed of a row is 42. The hash of each column is the seed of the next one; a null keeps its seed.
2. The hash is Murmur3 (x86, 32 bits): one round per four bytes, then a finalisation with the number of bytes. Boolean, byte,
   short, int and date take one round; long, time and timestamp two, the low half first; float and double hash their IEEE bits
   (-0.0 as 0.0, any NaN as Java's). A decimal of precision up to 18 is hashed as its unscaled long, a wider one as the shortest
   big-endian two's complement bytes of its unscaled value.
3. Text and bytes take one round per four bytes, read little-endian, and then, unlike standard Murmur3, one full round per
   remaining byte, read as a signed number.
4. Rows are processed in blocks, so that intermediate arrays stay in the processor's cache.

All arithmetic wraps at 32 bits. Iceberg's hash (`kernels.transforms`), which partitions by `bucket`, differs in what it hashes
and in the tail of text: the bytes after the last whole word.

Source: Murmur3 by Austin Appleby (public domain), with its own tail and that of Spark's `Murmur3_x86_32.hashUnsafeBytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.keys import fixed_width, is_text, joined, plain
from lsmlake.types.type_table import holding, is_time

_SEED = 42
_BLOCK_ROWS = 1 << 16
_INT_TYPES = pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32


def bucket_of(columns: Sequence[pa.Array | pa.ChunkedArray], buckets: int) -> np.ndarray:
    """Returns int32 bucket numbers in [0, buckets), one per row. `columns`: the bucket key columns, in key order."""
    assert buckets > 0
    return np.mod(spark_hash(columns), np.int32(buckets))  # the sign of the divisor, as pmod


def spark_hash(columns: Sequence[pa.Array | pa.ChunkedArray], *, block_rows: int = _BLOCK_ROWS) -> np.ndarray:
    """Returns Spark's `hash(*columns)`, one int32 per row. The columns have equal lengths and may hold nulls. Timestamps and
    times are truncated to microseconds, as Spark stores them. `block_rows`: the rows that are hashed at once. O(bytes)."""
    columns = [column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]) for column in columns]
    rows = len(columns[0])
    assert all(len(column) == rows for column in columns)
    columns = [_as_spark_type(plain(column)) for column in columns]
    hashes = np.full(rows, _SEED, np.uint32)
    for start in range(0, rows, block_rows):
        block = hashes[start : start + block_rows]
        for column in columns:
            part = column.slice(start, block_rows)
            block[:] = _hashed(part, block) if not part.null_count else np.where(part.is_valid(), _hashed(part, block), block)
    return hashes.view(np.int32)


def hash_of_one(values: Sequence[int | str], types: Sequence[pa.DataType]) -> int:
    """The `spark_hash` of one row of integers and texts, unsigned; without arrays, which take longer."""
    hash_ = _SEED
    for value, type_ in zip(values, types, strict=True):
        if isinstance(value, str):
            data = value.encode()
            whole = len(data) & ~3
            words = [*unpack(f"<{whole // 4}I", data[:whole]), *unpack(f"<{len(data) - whole}b", data[whole:])]
            length = len(data)
        else:
            words, length = ((value, value >> 32), 8) if type_.bit_width == 64 else ((value,), 4)
        hash_ = _finished_one(_in_turn(hash_, map(_mixed_one, words)) ^ length)
    return hash_


def _mixed_one(word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    return (word << 15 | word >> 17) * 0x1B873593 & 0xFFFFFFFF


def _finished_one(hash_: int) -> int:
    hash_ = (hash_ ^ hash_ >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    hash_ = (hash_ ^ hash_ >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return hash_ ^ hash_ >> 16


def _as_spark_type(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type = column.type
    if pa.types.is_boolean(type):
        return _cast(column, pa.int8())
    if is_text(type):
        return _cast(column, pa.large_binary())
    if not is_time(type):
        return column
    row = holding(type)
    return _cast(_cast(column, row.arrow), row.task or row.arrow)


def _cast(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    return column.cast(options=pc.CastOptions(type, allow_time_truncate=True))


def _hashed(column: pa.ChunkedArray, seeds: np.ndarray) -> np.ndarray:
    """Hashes one block of one column; undefined for nulls."""
    type = column.type
    if any(check(type) for check in _INT_TYPES):
        return hash_words(fixed_width(column, f"<i{type.byte_width}", "<i4").view(np.uint32)[:, None], seeds)
    if pa.types.is_floating(type):
        values = fixed_width(column, f"<f{type.byte_width}")
        values += 0.0  # turns -0.0 into 0.0
        values[np.isnan(values)] = np.nan
        return hash_words(values.view(np.uint32).reshape(len(values), -1), seeds)
    if pa.types.is_decimal128(type):
        return _hash_decimals(fixed_width(column, "u1").reshape(-1, 16), type.precision, seeds)
    if type == pa.large_binary():
        return hash_text(joined(column), seeds, rounds_per_byte)
    assert pa.types.is_int64(type) or is_time(type), f"Spark has no hash of {type}"
    return hash_words(fixed_width(column, "<u4").reshape(-1, 2), seeds)


def _hash_decimals(values: np.ndarray, precision: int, seeds: np.ndarray) -> np.ndarray:
    """Hashes decimals of a precision. `values`: uint8 matrix, sixteen little-endian bytes per row."""
    if precision <= 18:
        return hash_words(values.view("<u4")[:, :2], seeds)
    return hash_shortest(values, seeds, rounds_per_byte)


_FEW = 100
"""Up to this many rows, a loop of Python's integers is faster than one array operation for all rows."""
Tail = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Mixes the last bytes of each row into its hash: (hashes, data, start of each tail, bytes of each tail) -> hashes."""


def hash_words(words: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Hashes rows of words. `words`: uint32 matrix, the words of each row in hash order."""
    hashes = seeds
    for i in range(words.shape[1]):
        hashes = round_(hashes, words[:, i])
    return finished(hashes, np.uint32(4 * words.shape[1]))


def hash_bytes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, seeds: np.ndarray, tail: Tail) -> np.ndarray:
    """Hashes byte strings. Row i is `data[starts[i] : starts[i] + lengths[i]]`.

    Each step hashes one word of all rows that have this word, while there are many such rows; the rest of the longest rows is
    hashed row by row. So the cost is O(bytes): an array operation over few rows takes as long as one over a hundred.
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


def _in_turn(hash_: int, mixed: Iterable[int]) -> int:
    """The rounds of one row. Each round needs the result of the round before, so they are not one array operation."""
    for word in mixed:
        hash_ ^= word
        hash_ = (((hash_ << 13) | (hash_ >> 19)) * 5 + 0xE6546B64) & 0xFFFFFFFF
    return hash_


def hash_text(values: pa.LargeBinaryArray, seeds: np.ndarray, tail: Tail) -> np.ndarray:
    """Hashes text or bytes. Undefined for nulls."""
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
