"""Checksums of data files, CRC-32: one of the whole file, for `verify`, and one of its Parquet footer, for every reader.

Parquet guards its pages, not its footer, and a reader trusts the footer: where pages lie, what types they have, which row groups
a filter may skip. A flipped bit there gives wrong rows, or ends the process. So no footer is parsed before its checksum is right.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt

RESTORE = "the file is damaged: restore it from a copy, or roll back to a snapshot that does not use it"
_LENGTH_AND_MAGIC = 8
_TAIL_BYTES = 1 << 16  # a first guess that holds most footers
_CHUNK_BYTES = 1 << 22


class Sums(NamedTuple):
    """CRC-32 of a file and of its footer (with the footer's length and the magic that end the file)."""

    file: int
    footer: int


class SummingSink:
    """What `pa.PythonFile` needs of a file: passes everything on to `sink` and sums it up on the way."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self.sink, self.sum = sink, 0
        self.ending: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        self.sum = zlib.crc32(data, self.sum)
        if self.ending is not None:
            self.ending.append(bytes(data))
        return self.sink.write(data)

    def flush(self) -> None:
        self.sink.flush()

    def close(self) -> None:
        self.closed = True

    def keep_ending(self) -> None:
        """The footer comes next, or what stands before it."""
        self.ending = []

    def sums(self) -> Sums:
        """Of all that was written; the footer whole and kept."""
        return Sums(self.sum, zlib.crc32(footer_in(b"".join(self.ending))))


def footer_in(ending: bytes) -> bytes:
    """The Parquet footer at the end of `ending`; all of it if it says that it is longer."""
    length = int.from_bytes(ending[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC
    return ending[-length:]


def read_footer(source: pa.NativeFile, size: int, checksum: int | None, where: str) -> bytes:
    """The footer of an open file of `size` bytes. One read, a second for a long footer. Raises Corrupt, naming `where`, if the
    file has another size or the footer is not the one of `checksum` (`None`: unknown)."""
    if source.size() != size:
        raise Corrupt("data file has another length", where=where, expected=f"{size} bytes", found=source.size(), cure=RESTORE)
    ending = _read_ending(source, size, _TAIL_BYTES)
    footer = footer_in(ending)
    missing = int.from_bytes(ending[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC - len(footer)
    if 0 < missing <= size - len(footer):
        footer = footer_in(_read_ending(source, size, len(footer) + missing))
    if checksum is not None and (found := zlib.crc32(footer)) != checksum:
        raise Corrupt(
            "data file has a damaged footer",
            where=where,
            expected=f"checksum {checksum:#010x}",
            found=f"{found:#010x}",
            cure=RESTORE,
        )
    return footer


def _read_ending(source: pa.NativeFile, size: int, length: int) -> bytes:
    source.seek(max(0, size - length))
    return source.read()


def checksum_of(source: pa.NativeFile) -> int:
    """CRC-32 of an open file, read from its beginning to its end."""
    source.seek(0)
    found = 0
    while chunk := source.read(_CHUNK_BYTES):
        found = zlib.crc32(chunk, found)
    return found
