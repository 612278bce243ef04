"""The index of a data file: Bloom filters and value indexes of columns, by field id.

The bytes are {"bloom_filters": [{id, family, probes, bits}], "values": [{id, kind, family, values, lengths, nulls, numbers}]},
packed by `schema.envelope`; they are in the manifest entry of the file or in a file beside it.

A Bloom filter recognises most absent values. It holds the hashes (`kernels.value_hash`) of the values that are
not null. Probe i of a hash h is the upper half of h + i * (mix(h) | 1) mod 2^64, times the number of bits, divided by 2^32. Bit b
is bit 7 - b mod 8 of byte b // 8.

A value index has each distinct value of a column once, in ascending order, and for each row the number of its value. A condition
on the column is evaluated on the distinct values only; the numbers then give the matching rows. So one structure replaces the
bitmap index (one bitmap per value) and the range bitmap (bit-sliced index, one bitmap per bit of the numbers) of other systems.
Compressed, it is half as large as a bitmap index and as large as a range bitmap, and it is built ten times as fast, because it is
only a dictionary encoding. Arrays of integers are stored as planes: the lowest byte of all integers, then the next byte, and so
on, which compresses better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.kernels.value_hash import from_words, mix, widest, words
from lsmlake.schema.envelope import pack, unpack
from lsmlake.types.json_shape import FLAG, RESTORE, TEXT, JsonKind, check, integer, is_text, listing, shown
from lsmlake.types.type_table import BYTES as TEXT_FAMILY

KIND = "FIDX"
_RATIO_MAX = 1 << 15  # consecutive values nearly vanish; zstd does not reach more
_OBJECTS = listing(JsonKind("an object", lambda value: isinstance(value, dict)))


class FileIndex(NamedTuple):
    """The indexes of the columns of a data file, by field id."""

    filters: Mapping[int, BloomFilter]
    values: Mapping[int, ValueIndex]

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return sum(len(one.bits) for one in self.filters.values()) + sum(one.bytes for one in self.values.values())


NOTHING = FileIndex({}, {})


def encode(index: FileIndex) -> bytes:
    filters = [{"id": number, **one._asdict()} for number, one in index.filters.items()]
    return pack(KIND, {"bloom_filters": filters, "values": [{"id": n, **one.fields()} for n, one in index.values.items()]})


def decode(data: bytes, rows: int, where: str) -> FileIndex:
    """Decodes an index. `rows`: of the data file. Raises Corrupt or UnsupportedFormat naming `where`."""
    content = unpack(KIND, data, where, _RATIO_MAX)
    check("file index", content, {"bloom_filters": _OBJECTS, "values": _OBJECTS}, where)
    for one in content["bloom_filters"]:
        check("Bloom filter", one, {"id": integer(), **_BLOOM_FIELDS}, where)
    for one in content["values"]:
        check("value index", one, {"id": integer(), **_VALUE_FIELDS}, where)
    filters = {one.pop("id"): BloomFilter(**one) for one in content["bloom_filters"]}
    return FileIndex(filters, {one.pop("id"): ValueIndex.of_fields(one, rows, where) for one in content["values"]})


# -- Bloom filters ----------------------------------------------------------------------------------------------------


_PROBES_MAX = 64
_BYTES_MAX = 1 << 28
_VALUES_AT_ONCE = 1 << 18
_ASKED_AT_ONCE = 1 << 14
_BLOOM_FIELDS = {
    "family": TEXT,
    "probes": JsonKind(f"1 to {_PROBES_MAX}", lambda v: type(v) is int and 1 <= v <= _PROBES_MAX),
    "bits": JsonKind(f"1 to {_BYTES_MAX} bytes", lambda v: isinstance(v, bytes) and 1 <= len(v) <= _BYTES_MAX),
}
"""The fields of a filter and what they hold."""


class BloomFilter(NamedTuple):
    """A set of values of the types of a `family`, with false positives and without false negatives."""

    family: str
    probes: int
    bits: bytes

    @staticmethod
    def of(family: str, hashes: np.ndarray, rate: float) -> BloomFilter:
        """The filter of values with these distinct hashes. `rate`: the share of absent values that it reports as present."""
        count = max(1, len(hashes))
        size = min(_BYTES_MAX, max(1, math.ceil(count * -math.log(rate) / math.log(2) ** 2 / 8)))
        probes = min(_PROBES_MAX, max(1, round(8 * size / count * math.log(2))))
        flags = np.zeros(8 * size, bool)
        for start in range(0, len(hashes), _VALUES_AT_ONCE):
            some = hashes[start : start + _VALUES_AT_ONCE]
            steps = _steps(some)
            for probe in range(probes):
                flags[_bits(some + np.uint64(probe) * steps, 8 * size)] = True
        return BloomFilter(family, probes, np.packbits(flags).tobytes())

    def may_hold(self, hashes: np.ndarray) -> np.ndarray:
        """Flags the values that may be in the set; the others are certainly not in it."""
        flags = np.zeros(len(hashes), bool)
        flags[self._left(self._flags(), hashes)] = True
        return flags

    def may_hold_one(self, hashes: np.ndarray) -> bool:
        """Whether any of the values may be in the set. Stops at the first values that may be in it."""
        flags, starts = self._flags(), range(0, len(hashes), _ASKED_AT_ONCE)
        return any(len(self._left(flags, hashes[start : start + _ASKED_AT_ONCE])) for start in starts)

    def _flags(self) -> np.ndarray:
        return np.unpackbits(np.frombuffer(self.bits, np.uint8)).view(bool)

    def _left(self, flags: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """The positions of the values that may be in the set. Each probe excludes half of the absent values."""
        left, words, steps = np.arange(len(hashes)), hashes, None
        for _ in range(self.probes):
            kept = np.flatnonzero(flags[_bits(words, len(flags))])
            left, steps = left[kept], _steps(hashes[kept]) if steps is None else steps[kept]
            words = words[kept] + steps
        return left


def _steps(hashes: np.ndarray) -> np.ndarray:
    return mix(hashes) | np.uint64(1)


def _bits(words: np.ndarray, size: int) -> np.ndarray:
    """The bits of the words of a probe."""
    return ((words >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)


# -- values -----------------------------------------------------------------------------------------------------------


_Taken = TypeVar("_Taken")
BITMAP, RANGE_BITMAP = "bitmap", "range-bitmap"
_CODEC = pa.Codec("zstd", 3)
_BYTES = JsonKind("binary", lambda value: isinstance(value, bytes))
_VALUE_FIELDS = {
    "kind": JsonKind(f"{BITMAP} or {RANGE_BITMAP}", lambda value: value in (BITMAP, RANGE_BITMAP)),
    "family": JsonKind("the name of a family of types", lambda value: is_text(value) and widest(value) is not None),
    "values": _BYTES,
    "lengths": _BYTES,
    "nulls": FLAG,
    "numbers": _BYTES,
}
"""The fields of an index and what they hold."""


class ValueIndex(NamedTuple):
    """The index of one column.

    Attributes:
        kind: the option that asked for the index. Both kinds have the same content.
        family: the family of the column's type (`kernels.value_hash`).
        values: the distinct values that are not null, of the widest type of the family.
        nulls: whether the column has a null.
        rows: the number of rows of the file.
        compressed: the number of the value of each row, from 0; a null has the number `len(values)`.
    """

    kind: str
    family: str
    values: pa.Array
    nulls: bool
    rows: int
    compressed: bytes

    @staticmethod
    def of(kind: str, family: str, parts: Sequence[pa.ChunkedArray]) -> ValueIndex:
        """The index of a column. `parts`: the results of `encoded` for its parts. O(rows + distinct log distinct)."""
        chunks = [chunk for part in parts for chunk in part.chunks]
        whole = pa.chunked_array(chunks).unify_dictionaries()
        values = whole.chunk(0).dictionary
        order = pc.array_sort_indices(values)
        ranks = np.empty(len(values) + 1, _width(len(values)))
        ranks[order.to_numpy()] = np.arange(len(values))
        ranks[-1] = len(values)
        numbers = np.concatenate([ranks[chunk.indices.fill_null(-1).to_numpy()] for chunk in whole.chunks])
        compressed = _CODEC.compress(_planes(numbers), asbytes=True)
        return ValueIndex(kind, family, values.take(order).cast(widest(family)), whole.null_count > 0, len(numbers), compressed)

    @property
    def bytes(self) -> int:
        return self.values.nbytes + len(self.compressed)

    def rows_of(self, wanted: np.ndarray) -> np.ndarray:
        """Flags the rows with a wanted value. `wanted`: a flag for each value, then one for null. O(rows). Raises Corrupt."""
        return self._of_rows(lambda numbers: wanted[numbers])

    def column(self, kind: pa.DataType) -> pa.Array:
        """The column itself, of a type of the family. O(rows). Raises Corrupt."""
        return self._of_rows(lambda numbers: self.values_and_null(kind).take(pa.array(numbers)))

    def values_and_null(self, kind: pa.DataType) -> pa.Array:
        """The values by their numbers, of a type of the family, then null. Raises ArrowInvalid if they are not of the type."""
        return pa.concat_arrays([self.values.cast(kind), pa.nulls(1, kind)])

    def _of_rows(self, take: Callable[[np.ndarray], _Taken]) -> _Taken:
        width = np.dtype(_width(len(self.values)))
        try:
            return take(_of_planes(_CODEC.decompress(self.compressed, self.rows * width.itemsize, asbytes=True), width))
        except (ValueError, IndexError, OSError, pa.ArrowException) as broken:
            raise Corrupt("value index of a column has invalid numbers", found=shown(str(broken)), cure=RESTORE) from broken

    def fields(self) -> dict[str, object]:
        """The index as the fields of `_VALUE_FIELDS`."""
        values, lengths = _stored(self.values)
        own = {"kind": self.kind, "family": self.family, "nulls": self.nulls, "numbers": self.compressed}
        return {**own, "values": values, "lengths": lengths}

    @staticmethod
    def of_fields(fields: Mapping[str, object], rows: int, where: str) -> ValueIndex:
        """The inverse of `fields`. `rows`: of the file. Raises Corrupt naming `where`."""
        try:
            values = _loaded(fields["values"], fields["lengths"], fields["family"])
        except (ValueError, OSError, pa.ArrowException) as broken:
            raise Corrupt("value index of a column is invalid", where=where, found=shown(str(broken)), cure=RESTORE) from broken
        return ValueIndex(fields["kind"], fields["family"], values, fields["nulls"], rows, fields["numbers"])


def encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column with its distinct values as dictionaries, of the widest type of its family."""
    if pa.types.is_floating(column.type):
        return pc.add(column.cast(pa.float64()), 0.0).dictionary_encode()  # -0.0 + 0 is 0.0
    return column.dictionary_encode()


def _width(count: int) -> type[np.unsignedinteger]:
    """The type of numbers from 0 to `count`."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if count <= np.iinfo(kind).max)


def _planes(numbers: np.ndarray) -> bytes:
    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
    return little.view(np.uint8).reshape(-1, little.itemsize).T.tobytes()


def _of_planes(data: bytes, kind: np.dtype) -> np.ndarray:
    """Joins planes to integers. Raises ValueError if the bytes are not a whole number of integers."""
    little = kind.newbyteorder("<")
    return (
        np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(kind.itemsize, -1).T)
        .view(little)
        .ravel()
        .astype(kind, copy=False)
    )


def _stored(values: pa.Array) -> tuple[bytes, bytes]:
    """The values, and the lengths of texts."""
    if not pa.types.is_large_binary(values.type):
        return _planes(words(pa.chunked_array([values])).ravel()), b""
    lengths = pc.binary_length(values).to_numpy().astype(np.uint32)
    _, offsets, data = values.buffers()
    first = int(np.frombuffer(offsets, np.int64, 1, 8 * values.offset)[0])
    return b"" if data is None else data[first : first + int(lengths.sum())].to_pybytes(), _planes(lengths)


def _loaded(data: bytes, lengths: bytes, family: str) -> pa.Array:
    """The inverse of `_stored`. Raises ValueError."""
    if family != TEXT_FAMILY:
        numbers = _of_planes(data, np.dtype(np.uint64))
        return from_words(numbers.reshape(-1, 2 if family.startswith("decimal") else 1), family)
    offsets = np.concatenate([[0], np.cumsum(_of_planes(lengths, np.dtype(np.uint32)), dtype=np.int64)])
    if offsets[-1] != len(data):
        raise ValueError(f"{len(data)} bytes of texts of {offsets[-1]} bytes")
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
