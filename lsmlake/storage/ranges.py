"""A file of an object store as a file of Arrow: every read of bytes that are not in memory is a request.

`load` fetches, in parallel, ranges that are about to be read; adjacent ones become one request.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.beside import Work, begin

_LEAST_BYTES = 1 << 16  # a request takes as long as the transfer of some hundred kilobytes
_GAP_BYTES = 1 << 20  # the transfer of this many bytes takes as long as a request
_PIECE_BYTES = 1 << 22
_AHEAD_BYTES = 1 << 23  # for a reader that goes on where its last request ended


class ByteRange(NamedTuple):
    """The bytes [start, stop) of a file."""

    start: int
    stop: int


Fetch = Callable[[Sequence[ByteRange]], Sequence[memoryview]]
"""Reads ranges of a file, none of them empty."""


def merged(wanted: Sequence[ByteRange]) -> list[ByteRange]:
    """The ranges to request for the ascending ranges `wanted`: close neighbours are joined; large reads are several requests."""
    pieces: list[ByteRange] = []
    for one in wanted:
        if pieces and one.start - pieces[-1].stop <= _GAP_BYTES and one.stop - pieces[-1].start <= _PIECE_BYTES:
            pieces[-1] = ByteRange(pieces[-1].start, max(one.stop, pieces[-1].stop))
        else:
            pieces.append(one)
    return pieces


def cut(wanted: Sequence[ByteRange], pieces: Sequence[ByteRange], data: Sequence[memoryview]) -> list[memoryview]:
    """The bytes of `wanted`, cut from the bytes of `merged(wanted)`."""
    cuts, number = [], 0
    for one in wanted:
        while one.stop > pieces[number].stop:
            number += 1
        start = pieces[number].start
        cuts.append(data[number][one.start - start : one.stop - start])
    return cuts


class Ranges:
    """A file of `size` bytes for `pa.PythonFile`, read by ranges. Keeps the given bytes of the end of the file, and the bytes of
    the last request. One reader at a time."""

    closed, mode = False, "rb"

    def __init__(self, fetch: Fetch, size: int, ending: memoryview | None = None) -> None:
        self._fetch, self._size, self._at = fetch, size, 0
        self._ending = (size - len(ending), ending) if ending else None
        self._held: list[tuple[int, memoryview]] = []
        self._coming: tuple[list[ByteRange], Work[Sequence[memoryview]]] | None = None

    def expect(self, wanted: Sequence[ByteRange]) -> None:
        """Begins to fetch ranges, in another thread, that a later `load` will ask for."""
        missing = self._missing(wanted)
        if missing:
            self._coming = missing, begin(partial(self._fetch, missing))

    def load(self, wanted: Sequence[ByteRange]) -> None:
        """Fetches these ranges, unless they are in memory; forgets the ranges of the last request."""
        missing = self._missing(wanted)
        if not missing:
            return
        if self._coming is not None and set(missing) <= set(self._coming[0]):
            (missing, coming), self._coming = self._coming, None
            fetched = coming.result()
        else:
            fetched = self._fetch(missing)
        self._held = [(one.start, data) for one, data in zip(missing, fetched, strict=True)]

    def _missing(self, wanted: Sequence[ByteRange]) -> list[ByteRange]:
        return sorted({one for one in wanted if one.start < one.stop and self._at_hand(one) is None})

    def read(self, length: int = -1) -> memoryview:
        wanted = ByteRange(self._at, self._size if length is None or length < 0 else min(self._size, self._at + length))
        if wanted.start >= wanted.stop:
            return memoryview(b"")
        held = self._at_hand(wanted)
        if held is None:
            goes_on = any(start + len(data) == wanted.start for start, data in self._held)
            stop = min(self._size, max(wanted.stop, wanted.start + (_AHEAD_BYTES if goes_on else _LEAST_BYTES)))
            self.load([ByteRange(wanted.start, stop)])
            held = self._at_hand(wanted)
        self._at = wanted.stop
        return held

    def _at_hand(self, wanted: ByteRange) -> memoryview | None:
        candidates = [self._ending] if self._ending else []
        number = bisect_right(self._held, wanted.start, key=lambda held: held[0])
        candidates += self._held[number - 1 : number] if number else []
        for start, data in candidates:
            if start <= wanted.start and wanted.stop <= start + len(data):
                return data[wanted.start - start : wanted.stop - start]
        return None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed, self._held, self._ending = True, [], None


class RangedFile(pa.PythonFile):
    """`Ranges` as a file of Arrow."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges


def load(file: pa.NativeFile, wanted: Sequence[ByteRange]) -> None:
    """Fetches ranges of an open file that the caller is about to read. Does nothing if the file is not read by requests."""
    if isinstance(file, RangedFile):
        file.ranges.load(wanted)
