"""rbm32 and rbm64: unions of roaring bitmaps in their portable byte format (RoaringFormatSpec).

rbm32 is the format of Paimon and of Java's RoaringBitmap. rbm64 is the portable 64-bit format of the same specification, as in
Iceberg's deletion vectors and serializePortable of the Java classes. Paimon writes the internal format of Java's Roaring64Bitmap
instead, which other libraries do not read; it is refused here. Results are run-length optimised.
"""

from __future__ import annotations

from pyroaring import BitMap, BitMap64

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
