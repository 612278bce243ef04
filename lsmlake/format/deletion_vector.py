"""Deletion vectors: the set of deleted row positions of one data file, as an immutable value, and its encoding; and the vector
index, which tells where the vector of each live file is.

A compaction stores `vector | DeletionVector.of(positions)` as a new vector. Positions count the rows of the file from 0 in file
order and are less than 2^63.

The encoding is the blob type `deletion-vector-v1` of the Iceberg Puffin specification:

1. length of parts 2 and 3 together, 4 bytes, big-endian;
2. the magic D1 D3 39 64;
3. the positions in the portable 64-bit roaring format: the number of 32-bit bitmaps (8 bytes, little-endian), then for each, by
   ascending key, the key (the positions' high 32 bits; 4 bytes, little-endian) and the portable 32-bit roaring bytes;
4. CRC-32 of parts 2 and 3, 4 bytes, big-endian.

The bitmap is run-length optimised before encoding; each container uses the smallest of its three forms.

The vector index is a chain of index manifests. Each index manifest holds the changes of its commits and names the older index
manifests that it extends; a later change of a file overrides an earlier one.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap64

from lsmlake.errors import Corrupt
from lsmlake.format import roaring
from lsmlake.format.data_files import VectorRef
from lsmlake.schema.envelope import check_lengths, pack, unpack
from lsmlake.types.json_shape import BYTES_MAX, NAME, RESTORE, ROWS_MAX, JsonKind, check, integer, listing, one_of, optional

_MAGIC = bytes.fromhex("d1d33964")
_FRAME_BYTES = 4 + len(_MAGIC) + 4  # length, magic, checksum
_COUNT_BYTES = 8
CURE = "restore the file, or roll back to a snapshot that does not use it"


@dataclass(frozen=True)
class DeletionVector:
    """The deleted positions of one data file. Equal by positions; pickles. The bitmap must not be modified in place."""

    bitmap: BitMap64

    @classmethod
    def of(cls, positions: np.ndarray) -> DeletionVector:
        """Creates a vector from positions >= 0, in any order, duplicates allowed; sorted positions are fastest."""
        signed = np.asarray(positions, dtype=np.int64)
        assert signed.min(initial=0) >= 0, "a row position is never negative"
        return cls(BitMap64(array("Q", signed.tobytes())))  # only array.array is passed to C as a whole

    def __len__(self) -> int:
        return len(self.bitmap)

    def __contains__(self, position: int) -> bool:
        return position in self.bitmap

    def __or__(self, other: DeletionVector) -> DeletionVector:
        return DeletionVector(self.bitmap | other.bitmap)

    def __sub__(self, other: DeletionVector) -> DeletionVector:
        return DeletionVector(self.bitmap - other.bitmap)

    @property
    def cardinality(self) -> int:
        """The number of deleted rows."""
        return len(self.bitmap)

    @property
    def max_position(self) -> int:
        """The last deleted position; -1 if there is none, so a vector fits a file if `max_position < rows`."""
        return self.bitmap.max() if self.bitmap else -1

    def positions(self) -> np.ndarray:
        """Returns the deleted positions, int64, ascending."""
        return _to_numpy(self.bitmap)

    def live_mask(self, positions: np.ndarray) -> np.ndarray:
        """Flags the `positions` (int64, ascending, unique) that are not deleted."""
        live = np.ones(len(positions), dtype=bool)
        if self.bitmap:
            live[np.searchsorted(positions, _to_numpy(self.bitmap & DeletionVector.of(positions).bitmap))] = False
        return live

    def dead_mask(self, start: int, count: int) -> np.ndarray:
        """Flags the deleted rows among rows [start, start + count) of the file."""
        mask = np.zeros(count, dtype=bool)
        mask[_to_numpy(self.bitmap & BitMap64(range(start, start + count))) - start] = True
        return mask

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the 64-row words with a deleted row as (numbers, ascending; bits), both int64.

        Position p is deleted if bit `p & 63` of word `p >> 6` is 1; bit 63 is the sign.
        """
        positions = self.positions()
        numbers = positions >> 6
        first_of_each = np.flatnonzero(np.diff(numbers, prepend=-1))
        bits = np.left_shift(np.int64(1), positions & 63)
        return numbers[first_of_each], np.bitwise_or.reduceat(bits, first_of_each) if len(bits) else bits

    def encode(self) -> bytes:
        """Encodes the vector as a `deletion-vector-v1` blob."""
        body = _MAGIC + BitMap64(self.bitmap, optimize=True).serialize()  # optimises a copy
        return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    @classmethod
    def decode(cls, data: bytes | memoryview, where: str, rows: int = 1 << 63) -> DeletionVector:
        """Decodes the blob `data` of a file with `rows` rows. Raises Corrupt naming `where` if the blob is damaged, has extra
        bytes or marks a row that the file does not have."""
        blob = memoryview(data)
        demand(
            len(blob) >= _FRAME_BYTES + _COUNT_BYTES,
            "deletion vector is truncated",
            where,
            f"at least {_FRAME_BYTES + _COUNT_BYTES} bytes",
            len(blob),
        )
        body = blob[4:-4]
        length = int.from_bytes(blob[:4], "big")
        demand(length == len(body), "deletion vector has a wrong length", where, f"{len(body)} bytes", length)
        demand(body[:4] == _MAGIC, "not a deletion vector (bad magic)", where, _MAGIC.hex(), body[:4].hex())
        stored, computed = int.from_bytes(blob[-4:], "big"), zlib.crc32(body)
        demand(stored == computed, "deletion vector has a wrong checksum", where, f"{stored:#010x}", f"{computed:#010x}")
        vector = cls(_decode_bitmap(body[4:], where))
        last = vector.max_position
        demand(last < rows, "deletion vector marks a row past the end of its file", where, f"positions below {rows}", last)
        return vector


EMPTY = DeletionVector(BitMap64())


def _to_numpy(bitmap: BitMap64) -> np.ndarray:
    return np.asarray(bitmap.to_array()).view(np.int64)


def _decode_bitmap(data: memoryview, where: str) -> BitMap64:
    try:
        roaring.check(data)
        return BitMap64.deserialize(data)
    except ValueError as error:
        raise Corrupt("deletion vector holds an invalid roaring bitmap", where=where, found=error, cure=CURE) from error


def demand(holds: bool, what: str, where: str, expected: object, found: object) -> None:
    """Raises Corrupt unless `holds`. Used for vectors and for Puffin files."""
    if not holds:
        raise Corrupt(what, where=where, expected=expected, found=found, cure=CURE)


# -- the vector index -------------------------------------------------------------------------------------------------


_VECTORS = "deletion-vector-v1"
_FILES_MAX = 1 << 26
_PART = JsonKind(
    "the name, the size and the number of vectors of an index manifest",
    lambda part: (
        isinstance(part, list)
        and len(part) == 3
        and NAME.fits(part[0])
        and all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= BYTES_MAX for number in part[1:])
    ),
)
_INDEX_COLUMNS = {
    "file": listing(NAME, _FILES_MAX),
    "puffin": listing(optional(NAME), _FILES_MAX),
    "offset": listing(integer(0, BYTES_MAX), _FILES_MAX),
    "length": listing(integer(0, (1 << 31) - 1), _FILES_MAX),
    "cardinality": listing(integer(0, ROWS_MAX), _FILES_MAX),
}
_OFFSET_MIN, _LENGTH_MIN = 4, 20  # bytes of the magic of a Puffin file, and of the smallest vector
_NONE = VectorRef("", 0, 0, 0)


class VectorChanges(dict[str, VectorRef | None]):
    """Data file -> its new vector; None: the file has no vector any more. Never modified once it is part of an index."""

    @cached_property
    def by_puffin(self) -> Mapping[str, Sequence[str]]:
        """Puffin file -> the data files whose vectors it holds."""
        names_by_puffin: dict[str, list[str]] = {}
        for name, ref in self.items():
            if ref is not None:
                names_by_puffin.setdefault(ref.puffin, []).append(name)
        return names_by_puffin


class IndexPart(NamedTuple):
    """An index manifest by its name, its exact size and the number of its files."""

    name: str
    bytes: int
    files: int


class IndexManifest(NamedTuple):
    """`parts`: the older index manifests that this one extends, oldest first. `follows`: the index manifest of the snapshot
    before, if any. `changes`: newer than all parts; the changes of the commit, and of older parts that this manifest replaced."""

    parts: tuple[IndexPart, ...]
    follows: str | None
    changes: VectorChanges


class VectorIndex(Mapping[str, VectorRef]):
    """Data file name -> location of its vector, for all live files that have one. `layers`: changes, oldest first."""

    def __init__(self, layers: Sequence[VectorChanges]) -> None:
        self.layers = tuple(layer for layer in layers if layer)

    def __getitem__(self, name: str) -> VectorRef:
        for layer in reversed(self.layers):
            if name in layer:
                if (ref := layer[name]) is not None:
                    return ref
                break
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._merged)

    def __len__(self) -> int:
        return len(self._merged)

    def __repr__(self) -> str:
        return repr(self._merged)

    def puffins_in_use(self, names: Collection[str]) -> set[str]:
        """The Puffin files among `names` that hold the vector of a file."""
        return {
            puffin
            for puffin in names
            for layer in self.layers
            for name in layer.by_puffin.get(puffin, ())
            if (ref := self.get(name)) is not None and ref.puffin == puffin
        }

    @cached_property
    def _merged(self) -> dict[str, VectorRef]:
        return {name: ref for name, ref in merged(self.layers).items() if ref is not None}


def merged(layers: Sequence[VectorChanges]) -> VectorChanges:
    """The changes of several layers, oldest first, as one."""
    changes = VectorChanges()
    for layer in layers:
        changes.update(layer)
    return changes


def encode_index(index: IndexManifest) -> bytes:
    refs = [_NONE if ref is None else ref for ref in index.changes.values()]
    columns = dict(zip(VectorRef._fields, map(list, zip(*refs, strict=True)), strict=True)) if refs else {}
    if refs:
        columns["puffin"] = [name or None for name in columns["puffin"]]
    parts = [list(part) for part in index.parts]
    return pack("INDX", {"kind": _VECTORS, "follows": index.follows, "parts": parts, "file": list(index.changes), **columns})


def decode_index(data: bytes, where: str) -> IndexManifest:
    """Decodes an index manifest. Raises Corrupt or UnsupportedFormat naming `where`."""
    content = unpack("INDX", data, where)
    kinds = {"kind": one_of(_VECTORS), "follows": optional(NAME), "parts": listing(_PART), **_INDEX_COLUMNS}
    empty = isinstance(content, dict) and not content.get("file")
    check("index manifest", content, kinds, where, may_lack=VectorRef._fields if empty else ())
    columns = [content.get(name, []) for name in VectorRef._fields]
    check_lengths("index manifest", [content["file"], *columns], where)
    names: dict[str, str] = {}
    columns[0] = [names.setdefault(name, name) for name in columns[0]]  # a Puffin file holds many vectors: keep one text of each
    refs = [None if ref.puffin is None else ref for ref in map(VectorRef, *columns)]
    if wrong := [ref for ref in refs if ref is not None and (ref.offset < _OFFSET_MIN or ref.length < _LENGTH_MIN)]:
        expected = f"offsets from {_OFFSET_MIN} and lengths from {_LENGTH_MIN}"
        raise Corrupt("index manifest has an invalid place", where=where, expected=expected, found=wrong[0], cure=RESTORE)
    changes = VectorChanges(zip(content["file"], refs, strict=True))
    if len(changes) < len(content["file"]):
        raise Corrupt("index manifest names a file twice", where=where, expected="one vector per file", cure=RESTORE)
    return IndexManifest(tuple(IndexPart(*part) for part in content["parts"]), content["follows"], changes)
