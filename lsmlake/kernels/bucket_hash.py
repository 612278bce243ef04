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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.gather import joined
from lsmlake.kernels.keys import fixed_width, is_text, plain
from lsmlake.kernels.murmur3 import hash_shortest, hash_text, hash_words, rounds_per_byte

_SEED = 42
_BLOCK_ROWS = 1 << 16
_INT_TYPES = pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32


def bucket_of(columns: Sequence[pa.Array | pa.ChunkedArray], buckets: int) -> np.ndarray:
    """Returns int32 bucket numbers in [0, buckets), one per row. `columns`: the bucket key columns, in key order."""
    assert buckets > 0
    return np.mod(spark_hash(columns), np.int32(buckets))  # the sign of the divisor, as pmod


def spark_hash(columns: Sequence[pa.Array | pa.ChunkedArray], *, block_rows: int = _BLOCK_ROWS) -> np.ndarray:
    """Returns Spark's `hash(*columns)`, one int32 per row. The columns have equal lengths and may hold nulls. Timestamps and
    times are truncated to microseconds, as Spark stores them. `block_rows`: hashed at once. O(bytes)."""
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


def _as_spark_type(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type = column.type
    if pa.types.is_timestamp(type):
        return _cast(column, pa.timestamp("us", type.tz))
    if pa.types.is_time(type):
        return _cast(_cast(column, pa.time64("us")), pa.time64("ns"))
    if pa.types.is_date64(type):
        return _cast(column, pa.date32())
    if pa.types.is_boolean(type):
        return _cast(column, pa.int8())
    return _cast(column, pa.large_binary()) if is_text(type) else column


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
    assert pa.types.is_int64(type) or pa.types.is_timestamp(type) or pa.types.is_time64(type), f"Spark has no hash of {type}"
    return hash_words(fixed_width(column, "<u4").reshape(-1, 2), seeds)


def _hash_decimals(values: np.ndarray, precision: int, seeds: np.ndarray) -> np.ndarray:
    """`values`: uint8 matrix, sixteen little-endian bytes per row."""
    if precision <= 18:
        return hash_words(values.view("<u4")[:, :2], seeds)
    return hash_shortest(values, seeds, rounds_per_byte)
