"""Many small new files, written together.

A small file takes more time to become durable than to encode, and threads that encode small files wait for each other: most of
their work is Python. So one thread encodes files into memory, and another one writes several of them at once
(`Storage.write_all`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from lsmlake import undo
from lsmlake.beside import Threads, Work
from lsmlake.storage.storage import Storage, delete_quietly

_FILES, _BYTES = 32, 8 << 20
"""So many files, or bytes, are written at once."""
_BATCHES = 4
"""Up to so many times as much waits in memory to be written."""
_SMALL_BYTES = 1 << 20  # of a file: encoding it takes less time than a disk or a network


class WriteGroup:
    """New files that snapshots will name, to be written together. One thread uses it."""

    def __init__(self, storage: Storage, threads: Threads) -> None:
        self._storage, self._threads = storage, threads
        self._waiting: dict[str, bytes] = {}
        self._bytes = 0
        self._running: deque[Work[None]] = deque()
        self._given: list[str] = []

    @staticmethod
    def suits(storage: Storage, files: int, size: int) -> bool:
        """Whether so many files of `size` bytes together are written in less time by a group."""
        return storage.writes_at_once > 1 and size <= _SMALL_BYTES * files

    @staticmethod
    @contextmanager
    def of(storage: Storage) -> Iterator[WriteGroup]:
        """A group. A normal exit of the context makes its files durable and visible; after an error none is left."""
        with ExitStack() as on_error, Threads(1) as threads:
            group = WriteGroup(storage, threads)
            on_error.callback(delete_quietly, storage, group._given)
            yield group
            group._begin()
            group._end()
            on_error.pop_all()

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        """A sink for a whole file, as `write_unnamed`. Raises StorageFailed, also for an earlier file."""
        undo.made(self._storage.delete_all, [path])
        with pa.BufferOutputStream() as sink:
            yield sink
            content = sink.getvalue()
        self._given.append(path)
        self._waiting[path] = content
        self._bytes += content.size
        if len(self._waiting) >= _FILES or self._bytes >= _BYTES:
            self._begin()

    def _begin(self) -> None:
        self._end(_BATCHES - 1)
        if self._waiting:
            self._running.append(self._threads.submit(self._storage.write_all, self._waiting))
            self._waiting, self._bytes = {}, 0

    def _end(self, left: int = 0) -> None:
        """Waits until only so many batches are left. Raises StorageFailed."""
        while len(self._running) > left:
            self._running.popleft().result()
