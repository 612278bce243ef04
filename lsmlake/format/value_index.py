"""The values of a column in a data file: each distinct value once, in ascending order, and for each row the number of its value.

Any condition on the column is decided by the distinct values alone, and the rows that meet it follow from the numbers. So one
structure does what other systems keep bitmaps for: one for each value (bitmap index), or one for each bit of the numbers
(bit-sliced index, range bitmap). Compressed, it is half as large as the former and as large as the latter, and it is built ten
times as fast, because it is no more than a dictionary encoding.

Arrays of integers are stored as planes: the lowest byte of all, then the next, and so on, which compresses better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.kernels.value_hash import from_words, widest, words
from lsmlake.types.json_shape import FLAG, RESTORE, JsonKind, is_text, shown
from lsmlake.types.table import BYTES as TEXT_FAMILY

_Taken = TypeVar("_Taken")
BITMAP, RANGE_BITMAP = "bitmap", "range-bitmap"
_CODEC = pa.Codec("zstd", 3)
_BYTES = JsonKind("binary", lambda value: isinstance(value, bytes))
FIELDS = {
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
        kind: the option that asked for it. Both kinds have the same content.
        family: of the types of the column.
        values: the distinct values that are not null, of the widest type of the family.
        nulls: whether the column has a null.
        rows: of the file.
        compressed: the number of the value of each row, from 0; that of a null is the number of values.
    """

    kind: str
    family: str
    values: pa.Array
    nulls: bool
    rows: int
    compressed: bytes

    @staticmethod
    def of(kind: str, family: str, parts: Sequence[pa.ChunkedArray]) -> ValueIndex:
        """The index of a column, given as what `encoded` returns for its parts. O(rows + distinct log distinct)."""
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
        """Flags the rows with a wanted value. `wanted`: flags the values, then null. O(rows). Raises Corrupt."""
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
        """The index as the fields of `FIELDS`."""
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
    """Raises ValueError if the bytes are no whole number of integers."""
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
