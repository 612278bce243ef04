"""Unions of binary values that a library interprets. Groups with several values are merged one by one, others are copied.

rbm32 and rbm64 are unions of roaring bitmaps in their portable byte format (RoaringFormatSpec). rbm32 is the format of Paimon and
of Java's RoaringBitmap. rbm64 is the portable 64-bit format of the same specification, as in Iceberg's deletion vectors and
serializePortable of the Java classes. Paimon writes the internal format of Java's Roaring64Bitmap instead, which other libraries
do not read; it is refused here. Results are run-length optimised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function

_BROKEN = ValueError, IndexError, RuntimeError, OverflowError
"""The exceptions of the libraries for invalid bytes."""


@dataclass(frozen=True)
class Union(Function):
    """The union of sets stored as bytes.

    `unite` merges several sets. `check` runs before a value is written and detects faults that `unite` misses. Both raise one of
    `_BROKEN` for invalid bytes, which becomes InvalidData. `kind` describes the expected bytes. `reduce` does not read a value
    that is alone in its group, because `validate` checked it before it was written.
    """

    unite: Callable[[list[bytes]], bytes]
    kind: str
    where: str
    check: Callable[[bytes], None] | None = None
    associative_adds = commutative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        present = segments.valid(values)
        if present is not None:
            kept, groups = segments.kept(present, starts)
            if not len(groups):
                return pa.nulls(len(starts), values.type)
            return segments.spread(self.reduce(values.drop_null(), kept, None), groups, len(starts))
        lengths = segments.lengths(starts, len(values))
        several = np.flatnonzero(lengths > 1)
        united = [
            self._united(values.slice(start, length).to_pylist())
            for start, length in zip(starts[several].tolist(), lengths[several].tolist(), strict=True)
        ]
        rows = starts.copy()
        rows[several] = len(values) + np.arange(len(several))
        return pa.concat_arrays([values, pa.array(united, values.type)]).take(pa.array(rows))

    def _united(self, parts: list[bytes], check: Callable[[bytes], None] | None = None) -> bytes:
        try:
            if check:
                for part in parts:
                    check(part)
            return self.unite(parts)
        except _BROKEN as broken:
            raise InvalidData(
                "the bytes cannot be read", where=self.where, expected=self.kind, found=broken, cure="write bytes of this format"
            ) from broken

    def validate(self, values: pa.Array) -> None:
        for value in values.drop_null().to_pylist():
            self._united([value], self.check)


# -- roaring bitmaps --------------------------------------------------------------------------------------------------


KIND_32 = "portable 32-bit roaring bitmaps"
KIND_64 = "portable 64-bit roaring bitmaps"


def check_32(data: bytes) -> None:
    """Raises ValueError unless `data` is exactly one bitmap."""
    _check_length(data, BitMap.deserialize(data))


def check_64(data: bytes) -> None:
    """Raises ValueError unless `data` is exactly one bitmap."""
    _check_length(data, BitMap64.deserialize(data))


def _check_length(data: bytes, bitmap: BitMap | BitMap64) -> None:
    """The library ignores bytes after a bitmap, other readers do not. A deserialised bitmap keeps its containers, so it
    serialises to the same length."""
    if (length := len(bitmap.serialize())) != len(data):
        raise ValueError(f"{len(data)} bytes, {length} expected")


def unite_32(parts: list[bytes]) -> bytes:
    return BitMap(BitMap.union(*map(BitMap.deserialize, parts)), optimize=True).serialize()


def unite_64(parts: list[bytes]) -> bytes:
    return BitMap64(BitMap64.union(*map(BitMap64.deserialize, parts)), optimize=True).serialize()
