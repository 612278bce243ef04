"""Encodes the key columns of a row as one NumPy scalar with the order of the keys.

Invariant: the scalars of one call of `comparable` compare like the keys, column by column from the left. So sorting a batch,
merging runs, looking up keys and cutting at key ranges are plain argsort, searchsorted or `==` operations on one array, for all
key types. A single integer column costs one pass.

1. Each column is encoded as *limbs*: unsigned 64-bit numbers, most significant first, with the order of the values. Signed
   integers flip the sign bit. Floats use the IEEE 754 total order: negative numbers flip all bits, others the sign bit (-0.0 is
   0.0). A decimal is its two's complement in one or two limbs. Text and bytes are split into big-endian groups of eight bytes,
   padded with NUL; this is byte order, Spark's order of strings. If a value ends with NUL, the length is added as a last limb.
   Long text is replaced by its rank among the distinct values.
2. A single limb is the result. Several limbs are narrowed: to the distance from the smallest value, without constant low bits;
   or, if only that makes them fit into 64 bits, to the bits in which rows differ.
3. The narrowed limbs are concatenated. Up to 64 bits form one uint64; more are written as big-endian words and viewed as NumPy's
   bytes type `S8n`, which compares unsigned bytes. (It ignores trailing NULs, which is harmless at equal widths.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidSchema

_SIGN = np.uint64(1 << 63)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / the golden ratio: its products spread over the upper bits
_ONE_LIMB_DIGITS = 18
_TEXT_BYTES_MAX = 64  # longer text is ranked: eight bytes per row instead of the length of the longest value

_SIGNED = pa.types.is_signed_integer, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp
_TEXT = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)
_OTHERS = pa.types.is_boolean, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128


def is_text(type: pa.DataType) -> bool:
    """Whether the type is a string or byte string in any Arrow layout except dictionaries."""
    return any(check(type) for check in _TEXT)


def check_orderable(type: pa.DataType, column: str) -> None:
    """Raises InvalidSchema for a type that cannot be part of a key."""
    if any(check(plain_type(type)) for check in (*_SIGNED, *_TEXT, *_OTHERS)):
        return
    raise InvalidSchema(
        "the type of the column is not sortable, so it cannot be part of a key",
        where=column,
        expected="boolean, int8 to int64, float, double, decimal of precision up to 38, date, time, timestamp, string or binary",
        found=str(type),
        cure="choose another key column or cast this one",
    )


def comparable(tables: Sequence[pa.Table]) -> list[np.ndarray]:
    """Returns one array per table, one scalar per row, with the order of the rows; all have one dtype (uint64 or bytes `S8n`).

    `tables` hold only the key columns, in key order, with equal names and types, without nulls and NaN. Scalars of different
    calls are not comparable: the packing depends on the values. O(rows x columns); the distinct values of text longer than 64
    bytes are sorted.
    """
    assert tables, "nothing to compare"
    assert all(table.column_names == tables[0].column_names for table in tables)
    columns = ([table.column(i) for table in tables] for i in range(tables[0].num_columns))
    limbs = [limb for parts in columns for limb in _limbs(_joined(parts))]
    borders = np.cumsum([table.num_rows for table in tables])
    return np.split(_packed(limbs, int(borders[-1])), borders[:-1])


def is_one_number(types: Sequence[pa.DataType]) -> bool:
    """Whether keys of these types are one number each, whatever their values: then scalars of different calls of `comparable`
    compare, too."""
    if len(types) != 1 or is_text(plain_type(types[0])):
        return False
    return not pa.types.is_decimal(types[0]) or types[0].precision <= _ONE_LIMB_DIGITS


def filter_of(scalars: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function that flags scalars that may be in `scalars`: all that are, and about one in sixteen of the others. It is
    cheaper than a binary search for each scalar. All scalars must come from the same call of `comparable`."""
    if scalars.dtype != np.uint64:
        return lambda others: np.ones(len(others), bool)
    bits = len(scalars).bit_length() + 4
    known = np.zeros(1 << bits, bool)
    known[_hashed(scalars, bits)] = True
    return lambda others: known[_hashed(others, bits)]


def _hashed(scalars: np.ndarray, bits: int) -> np.ndarray:
    return ((scalars * _GOLDEN) >> np.uint64(64 - bits)).view(np.int64)


def ends(keys: pa.Table) -> tuple[tuple, tuple]:
    """Returns the least and the greatest key as Python values. There must be at least one key."""
    (numbers,) = comparable([keys])
    low, high = (tuple(column[row].as_py() for column in keys.columns) for row in (int(numbers.argmin()), int(numbers.argmax())))
    return low, high


# -- columns, and their buffers as NumPy arrays -----------------------------------------------------------------------


def plain_type(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column with dictionaries decoded."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column without empty chunks: Arrow fails to join some of its own casts (ArrowIndexError)."""
    if all(map(len, column.chunks)):
        return column
    return pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array, without a copy if it has one chunk."""
    column = filled(column)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def in_one_chunk(table: pa.Table) -> pa.Table:
    """Returns the table with one chunk per column; copies only columns of several chunks."""
    return pa.table([joined(column) for column in table.columns], schema=table.schema)


def fixed_width(column: pa.ChunkedArray, dtype: str, into: str = "") -> np.ndarray:
    """Returns a copy of a fixed-width column's bytes, read as `dtype` and converted to `into`. A decimal128 read as `<u8` gives
    two numbers per row, the low one first. Values of null rows are undefined."""
    return np.concatenate([np.empty(0, dtype), *(_buffer(chunk, dtype) for chunk in column.chunks)], dtype=into or dtype)


def _buffer(chunk: pa.Array, dtype: str) -> np.ndarray:
    if not len(chunk):
        return np.empty(0, dtype)
    width = chunk.type.byte_width
    count = len(chunk) * width // np.dtype(dtype).itemsize
    return np.frombuffer(chunk.buffers()[1], dtype, count, chunk.offset * width)


def _joined(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    parts = [plain(part) for part in parts]
    type = parts[0].type
    assert all(part.type == type for part in parts), [part.type for part in parts]
    joined = pa.chunked_array([chunk for part in parts for chunk in part.chunks if len(chunk)], type)
    assert joined.null_count == 0, "keys are never null"
    return joined


# --- Step 1: columns into limbs ---


def _limbs(column: pa.ChunkedArray) -> list[np.ndarray]:
    type = column.type
    if any(check(type) for check in _SIGNED):
        return [_signed(fixed_width(column, f"<i{type.byte_width}", "<i8"))]
    if pa.types.is_boolean(type):
        return [fixed_width(column.cast(pa.uint8()), "u1", "<u8")]
    if pa.types.is_floating(type):
        return [_float(fixed_width(column, f"<f{type.byte_width}", "<f8"))]
    if pa.types.is_decimal128(type):
        return _decimal(fixed_width(column, "<u8").reshape(-1, 2), type.precision)
    assert is_text(type), type
    return _text(column.cast(pa.large_binary()).combine_chunks())


def _signed(values: np.ndarray) -> np.ndarray:
    limb = values.view(np.uint64)
    limb ^= _SIGN
    return limb


def _float(values: np.ndarray) -> np.ndarray:
    assert not np.isnan(values).any(), "keys are never NaN"
    values += 0.0  # turns -0.0 into 0.0
    negative = (values.view(np.int64) >> 63).view(np.uint64)  # all bits set, or none
    return values.view(np.uint64) ^ (negative | _SIGN)


def _decimal(halves: np.ndarray, precision: int) -> list[np.ndarray]:
    low, high = halves[:, 0], halves[:, 1]
    return [low ^ _SIGN] if precision <= _ONE_LIMB_DIGITS else [high ^ _SIGN, low]


def _text(values: pa.LargeBinaryArray) -> list[np.ndarray]:
    lengths = pc.binary_length(values)
    longest = pc.max(lengths).as_py() or 0
    if longest > _TEXT_BYTES_MAX:
        return [_ranks(values)]
    if longest == 0:
        return []
    groups = -(-longest // 8)
    # viewed as text, the only type that Arrow pads; it pads bytes without decoding characters
    padded = pc.ascii_rpad(values.view(pa.large_string()), width=8 * groups, padding="\0")
    matrix = np.frombuffer(padded.buffers()[2], ">u8").reshape(-1, groups)
    limbs = [matrix[:, i].astype(np.uint64) for i in range(groups)]
    if pc.min(lengths).as_py() < longest and pc.any(pc.ends_with(values, b"\0")).as_py():
        limbs.append(lengths.to_numpy().astype(np.uint64))
    return limbs


def _ranks(values: pa.LargeBinaryArray) -> np.ndarray:
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    return ranks[encoded.indices.to_numpy()]


# --- Steps 2 and 3: limbs into one scalar ---


class _Spread(NamedTuple):
    """The significant bits of a limb. `varying`: a mask of the bits that differ. After the `shift` constant low bits are dropped,
    the values begin at `low` and their distances from it take `distance` bits."""

    varying: int
    shift: int
    low: np.uint64
    distance: int

    @property
    def bits(self) -> int:
        return min(self.distance, self.varying.bit_count())


def _spread(limb: np.ndarray) -> _Spread:
    varying = int(np.bitwise_or.reduce(limb) ^ np.bitwise_and.reduce(limb))
    shift = max(0, (varying & -varying).bit_length() - 1)
    low, high = (bound >> np.uint64(shift) for bound in (limb.min(), limb.max()))
    return _Spread(varying, shift, low, int(high - low).bit_length())


def _packed(limbs: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Packs limbs into one uint64 per row if they fit: uint64 sorts twice and searches seven times as fast as bytes. For bytes
    the width matters little, so only the cheap narrowing is used, and only if it saves a word."""
    if len(limbs) == 1:
        return limbs[0]
    if not limbs or not rows:
        return np.zeros(rows, np.uint64)
    spreads = [_spread(limb) for limb in limbs]
    widths = [spread.bits for spread in spreads]
    if sum(widths) > 64:
        widths = [spread.distance for spread in spreads]
    if _words(widths) == len(limbs):
        return _side_by_side(limbs, [64] * len(limbs))
    return _side_by_side([_narrowed(*each) for each in zip(limbs, spreads, widths, strict=True)], widths)


def _narrowed(limb: np.ndarray, spread: _Spread, width: int) -> np.ndarray:
    if width < spread.distance:
        return _squeezed(limb, spread.varying)
    return (limb >> np.uint64(spread.shift)) - spread.low


def _words(widths: Sequence[int]) -> int:
    return max(1, -(-sum(widths) // 64))


def _squeezed(limb: np.ndarray, mask: int) -> np.ndarray:
    """Extracts the bits of `mask` into adjacent low bits, one run of neighbouring bits at a time."""
    result, width = np.zeros_like(limb), 0
    while mask:
        start = (mask & -mask).bit_length() - 1
        length = (~(mask >> start) & ((mask >> start) + 1)).bit_length() - 1
        run = ((1 << length) - 1) << start
        result |= (limb & np.uint64(run)) >> np.uint64(start - width)
        mask, width = mask & ~run, width + length
    return result


def _side_by_side(limbs: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
    """Concatenates the limbs into one number of sum(widths) bits, the first one most significant."""
    words = [np.zeros_like(limbs[0]) for _ in range(_words(widths))]  # least significant first
    right = sum(widths)  # bits to the right of the current limb
    for limb, width in zip(limbs, widths, strict=True):
        if not width:
            continue
        right -= width
        word, shift = divmod(right, 64)
        words[word] |= limb << np.uint64(shift)
        if shift + width > 64:
            words[word + 1] |= limb >> np.uint64(64 - shift)
    if len(words) == 1:
        return words[0]
    matrix = np.empty((len(words[0]), len(words)), ">u8")
    for i, word in enumerate(reversed(words)):
        matrix[:, i] = word
    return matrix.view(f"S{8 * len(words)}").ravel()
