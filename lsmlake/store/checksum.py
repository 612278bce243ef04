"""Checksums of data files, CRC-32: one of the whole file, for `verify`, and one of its Parquet footer, for every reader.

Parquet guards its pages, not its footer, and a reader trusts the footer: where pages lie, what types they have, which row groups
a filter may skip. A flipped bit there gives wrong rows, or ends the process. So no footer is parsed before its checksum is right.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.format.files import DataFile

RESTORE = "the file is damaged: restore it from a copy, or roll back to a snapshot that does not use it"
_LENGTH_AND_MAGIC = 8
_TAIL_BYTES = 1 << 16  # a first guess that holds most footers
_CHUNK_BYTES = 1 << 22


class Sums(NamedTuple):
    """CRC-32 of a file, and the length and CRC-32 of its footer; the footer includes the eight bytes that end the file."""

    file: int
    footer_bytes: int
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
        footer = footer_in(b"".join(self.ending))
        return Sums(self.sum, len(footer), zlib.crc32(footer))


def footer_in(ending: bytes) -> bytes:
    """The Parquet footer at the end of `ending`; all of it if it says that it is longer."""
    return ending[-_stated_length(ending) :]


def _stated_length(ending: bytes) -> int:
    """How long the footer says it is."""
    return int.from_bytes(ending[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC


def read_footer(source: pa.NativeFile, file: DataFile, where: str) -> bytes:
    """The footer of the open data file `file`, in one read; where the manifest does not know its length, a long footer takes two.
    Raises Corrupt, naming `where`, if the file has another size or the footer is not the one that the manifest describes."""
    if source.size() != file.bytes:
        found = f"{source.size()} bytes"
        raise Corrupt("data file has another length", where=where, expected=f"{file.bytes} bytes", found=found, cure=RESTORE)
    ending = _read_ending(source, file.bytes, file.footer_bytes or _TAIL_BYTES)
    footer = footer_in(ending)
    missing = _stated_length(ending) - len(footer)
    if 0 < missing <= file.bytes - len(footer) and file.footer_bytes is None:
        footer = footer_in(_read_ending(source, file.bytes, len(footer) + missing))
    if file.footer_checksum is not None and (found := zlib.crc32(footer)) != file.footer_checksum:
        raise Corrupt(
            "data file has a damaged footer",
            where=where,
            expected=f"checksum {file.footer_checksum:#010x}",
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
