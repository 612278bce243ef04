"""Deletion vectors: the set of deleted row positions of one data file, as an immutable value, and its encoding.

A compaction stores `vector | DeletionVector.of(positions)` as a new vector. Positions count the rows of the file from 0 in file
order and are less than 2^63.

The encoding is the blob type `deletion-vector-v1` of the Iceberg Puffin specification:

1. length of parts 2 and 3 together, 4 bytes, big-endian;
2. the magic D1 D3 39 64;
3. the positions in the portable 64-bit roaring format: the number of 32-bit bitmaps (8 bytes, little-endian), then for each, by
   ascending key, the key (the positions' high 32 bits; 4 bytes, little-endian) and the portable 32-bit roaring bytes;
4. CRC-32 of parts 2 and 3, 4 bytes, big-endian.

The bitmap is run-length optimised before encoding; each container uses the smallest of its three forms.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from lsmlake.errors import Corrupt
from lsmlake.format import roaring

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
        check(
            len(blob) >= _FRAME_BYTES + _COUNT_BYTES,
            "deletion vector is truncated",
            where,
            f"at least {_FRAME_BYTES + _COUNT_BYTES} bytes",
            len(blob),
        )
        body = blob[4:-4]
        length = int.from_bytes(blob[:4], "big")
        check(length == len(body), "deletion vector has a wrong length", where, f"{len(body)} bytes", length)
        check(body[:4] == _MAGIC, "not a deletion vector (bad magic)", where, _MAGIC.hex(), body[:4].hex())
        stored, computed = int.from_bytes(blob[-4:], "big"), zlib.crc32(body)
        check(stored == computed, "deletion vector has a wrong checksum", where, f"{stored:#010x}", f"{computed:#010x}")
        vector = cls(_decode_bitmap(body[4:], where))
        last = vector.max_position
        check(last < rows, "deletion vector marks a row past the end of its file", where, f"positions below {rows}", last)
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


def check(holds: bool, what: str, where: str, expected: object, found: object) -> None:
    """Raises Corrupt unless `holds`. Used for vectors and for Puffin files."""
    if not holds:
        raise Corrupt(what, where=where, expected=expected, found=found, cure=CURE)
