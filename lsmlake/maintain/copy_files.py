"""Copies files of a table between storages: whole, checked against what was written once, and only those that are missing."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, StorageFailed
from lsmlake.files.checksum import RESTORE
from lsmlake.files.data_reader import reading
from lsmlake.storage.storage import Storage, read_bytes

_CHUNK_BYTES = 1 << 23


class Sum(NamedTuple):
    """The size of a file and the CRC-32 of its content."""

    bytes: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.bytes} bytes with checksum {self.checksum:#010x}"


class CopiedFile(NamedTuple):
    """A file of the source. `source`, `target`: its paths in the two storages. `sum`: what was written; None: not known. `check`:
    raises Corrupt if the content is damaged, for a file without a known sum; it is read as a whole."""

    source: str
    target: str
    sum: Sum | None = None
    check: Callable[[bytes, str], object] | None = None


class Outcome(NamedTuple):
    """`reused`: the target had the file."""

    bytes: int
    reused: bool


def copy_file(source: Storage, target: Storage, file: CopiedFile, there: int | None) -> Outcome:
    """Copy a file unless the target has it with the same size and checksum, and read back what was written. `there`: the size of
    the file in the target; None: it has none. Raises Corrupt, which names the file of the source, and StorageFailed."""
    expected = file.sum or _sum_of_source(source, file)
    if there == expected.bytes and _sum_at(target, file.target) == expected:
        return Outcome(expected.bytes, True)
    with reading(file.source), source.read(file.source) as content, target.write(file.target) as sink:
        found = Sum(0, 0)
        for chunk in _chunks(content):
            sink.write(chunk)
            found = _added(found, chunk)
        if found != expected:  # leaves nothing in the target
            raise Corrupt("file differs from what was written", where=file.source, expected=expected, found=found, cure=RESTORE)
    if (found := _sum_at(target, file.target)) != expected:
        raise StorageFailed(
            "the target does not return what was written",
            where=file.target,
            expected=expected,
            found=found,
            cure="copy again; if it happens again, the store is not reliable",
        )
    return Outcome(expected.bytes, False)


def _sum_of_source(source: Storage, file: CopiedFile) -> Sum:
    if file.check is None:
        with reading(file.source):
            return _sum_at(source, file.source)
    with reading(file.source):
        data = read_bytes(source, file.source)
    file.check(data, file.source)
    return _added(Sum(0, 0), data)


def _sum_at(storage: Storage, path: str) -> Sum:
    found = Sum(0, 0)
    with storage.read(path) as content:
        for chunk in _chunks(content):
            found = _added(found, chunk)
    return found


def _chunks(content: pa.NativeFile) -> Iterator[bytes]:
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk


def _added(sum_: Sum, chunk: bytes) -> Sum:
    return Sum(sum_.bytes + len(chunk), zlib.crc32(chunk, sum_.checksum))
