"""CRC-32 checksums of data files: one of the whole file, for `verify`, and one of its Parquet footer, for every reader.

Parquet has checksums for pages but not for the footer, which gives page offsets, types and statistics. A flipped bit there yields
wrong rows or crashes the process, so a reader verifies the footer's checksum before parsing it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.format.data_files import DataFile

RESTORE = "the file is damaged: restore it from a copy, or roll back to a snapshot that does not use it"
_LENGTH_AND_MAGIC = 8
TAIL_BYTES = 1 << 16
"""Larger than most footers."""
_CHUNK_BYTES = 1 << 22


class Sums(NamedTuple):
    """CRC-32 of a file, and length and CRC-32 of its footer, including the last eight bytes of the file (length and magic)."""

    file: int
    footer_bytes: int
    footer: int


class SummingSink:
    """A file for `pa.PythonFile` that writes to `sink` and computes checksums. A context manager: after an error, it drops the
    bytes that Arrow had buffered."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self.sink, self.sum, self._dropped = sink, 0, False
        self.ending: list[bytes] | None = None

    def __enter__(self) -> SummingSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._dropped = kind is not None

    def write(self, data: bytes) -> int:
        if self._dropped:
            return len(data)
        self.sum = zlib.crc32(data, self.sum)
        if self.ending is not None:
            self.ending.append(bytes(data))
        return self.sink.write(data)

    def flush(self) -> None:
        if not self._dropped:
            self.sink.flush()

    def close(self) -> None:
        self.closed = True

    def keep_ending(self) -> None:
        """Starts to keep written bytes; call this before the footer is written."""
        self.ending = []

    def sums(self) -> Sums:
        """The checksums, after the whole footer was written and kept."""
        footer = footer_in(b"".join(self.ending))
        return Sums(self.sum, len(footer), zlib.crc32(footer))


def footer_in(ending: bytes) -> bytes:
    """The Parquet footer at the end of `ending`; all of `ending` if the footer states a greater length."""
    return ending[-_stated_length(ending) :]


def _stated_length(ending: bytes) -> int:
    """The length that the footer states, including length and magic."""
    return int.from_bytes(ending[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC


def read_footer(source: pa.NativeFile, file: DataFile, where: str) -> bytes:
    """Reads and verifies the footer of an open data file, in one read; a long footer of unknown length takes two.

    Raises Corrupt, naming `where`, if the file's size or the footer's checksum differs from the manifest entry.
    """
    _check_size(source.size(), file, where)
    ending = _read_ending(source, file.bytes, file.footer_bytes or TAIL_BYTES)
    missing = _stated_length(ending) - len(ending)
    if 0 < missing <= file.bytes - len(ending) and file.footer_bytes is None:
        ending = _read_ending(source, file.bytes, len(ending) + missing)
    return _verified(ending, file, where)


def verified_footer(ending: bytes, size: int, file: DataFile, where: str) -> bytes:
    """The footer of a data file. `ending`: the last bytes of the file, at least its footer; `size`: of the file.

    Raises Corrupt, naming `where`, as `read_footer`.
    """
    _check_size(size, file, where)
    return _verified(ending, file, where)


def _check_size(size: int, file: DataFile, where: str) -> None:
    if size != file.bytes:
        expected, found = f"{file.bytes} bytes", f"{size} bytes"
        raise Corrupt("data file has another length", where=where, expected=expected, found=found, cure=RESTORE)


def _verified(ending: bytes, file: DataFile, where: str) -> bytes:
    footer = footer_in(ending)
    if file.footer_checksum is not None and (actual := zlib.crc32(footer)) != file.footer_checksum:
        raise Corrupt(
            "data file has a damaged footer",
            where=where,
            expected=f"checksum {file.footer_checksum:#010x}",
            found=f"{actual:#010x}",
            cure=RESTORE,
        )
    return footer


def _read_ending(source: pa.NativeFile, size: int, length: int) -> bytes:
    source.seek(max(0, size - length))
    return source.read()


def checksum_of(source: pa.NativeFile) -> int:
    """CRC-32 of an open file, read from its beginning to its end."""
    source.seek(0)
    checksum = 0
    while chunk := source.read(_CHUNK_BYTES):
        checksum = zlib.crc32(chunk, checksum)
    return checksum
