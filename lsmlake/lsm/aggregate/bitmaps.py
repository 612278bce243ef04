"""rbm32 and rbm64: unions of roaring bitmaps as their portable bytes (RoaringFormatSpec), which every roaring library can read.

rbm32 is the format of Paimon and of Java's RoaringBitmap. rbm64 is the portable 64-bit form of the same specification, as in
Iceberg's deletion vectors and in serializePortable of the Java classes; Paimon writes the internal form of Java's Roaring64Bitmap
instead, which no other library reads and which is refused here. Results are run-length optimised.
"""

from __future__ import annotations

from pyroaring import BitMap, BitMap64

KIND_32 = "portable 32-bit roaring bitmaps"
KIND_64 = "portable 64-bit roaring bitmaps"


def unite_32(parts: list[bytes]) -> bytes:
    return BitMap(BitMap.union(*map(BitMap.deserialize, parts)), optimize=True).serialize()


def unite_64(parts: list[bytes]) -> bytes:
    return BitMap64(BitMap64.union(*map(BitMap64.deserialize, parts)), optimize=True).serialize()
