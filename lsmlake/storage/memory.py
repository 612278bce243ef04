"""A storage in memory, for tests and for tables that need not outlive their process."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.storage.storage import Entry, Storage, checked, storage_errors

_AFTER_SLASH = chr(ord("/") + 1)
"""The character after the slash: no path of a folder sorts after the folder's name with it."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStorage(Storage):
    """Files in memory, dated by `clock()` in milliseconds. A file is an immutable buffer that readers share without a copy."""

    def __init__(self, clock: Callable[[], int] = _now_ms, name: str = "") -> None:
        self.root = f"memory://{name}"
        self._clock = clock
        self._files: dict[str, tuple[pa.Buffer, int]] = {}
        self._paths: list[str] = []  # of `_files`, sorted: a folder is a slice
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"MemoryStorage({self.root!r})"

    def __reduce__(self) -> tuple:
        raise InvalidQuery(
            "tables in the memory of a process cannot be pickled",
            where=self.root,
            cure="connect to a folder or an object store, which other processes can read",
        )

    def read(self, path: str) -> pa.NativeFile:
        with self._lock:
            content, _ = self._files.get(checked(path), (None, 0))
        if content is None:
            raise FileNotFoundError(f"no such file: {path}")
        return pa.BufferReader(content)

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        with storage_errors("write", checked(path)):
            sink = pa.BufferOutputStream()
            yield sink
            with self._lock:
                self._put(path, (sink.getvalue(), self._clock()))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._lock:
            created = checked(path) not in self._files
            if created:
                self._put(path, (pa.py_buffer(bytes(data)), self._clock()))
            return created

    def list(self, prefix: str) -> Iterator[Entry]:
        head = f"{checked(prefix)}/" if prefix else ""
        with self._lock:
            files = [(path, *self._files[path]) for path in self._below(head)]
        for path, content, date in files:
            yield Entry(path, content.size, date)

    def folders(self, prefix: str) -> Iterator[str]:
        head, found = f"{checked(prefix)}/" if prefix else "", []
        with self._lock:
            paths, place = self._paths, bisect_left(self._paths, head)
            while place < len(paths) and paths[place].startswith(head):
                name, slash, _ = paths[place][len(head) :].partition("/")
                if slash:
                    found.append(name)
                place = bisect_left(paths, f"{head}{name}{_AFTER_SLASH}", place) if slash else place + 1
        yield from sorted(found)

    def size(self, path: str) -> int | None:
        with self._lock:
            return self._files[path][0].size if checked(path) in self._files else None

    def delete(self, path: str) -> None:
        with self._lock:
            self._take(checked(path))

    def move(self, source: str, target: str) -> bool:
        old, new = f"{checked(source)}/", f"{checked(target)}/"
        with self._lock:
            moving = self._below(old)
            if not moving or self._below(new):
                return False
            for path in moving:
                self._put(new + path[len(old) :], self._take(path))
            return True

    # -- under the lock ------------------------------------------------------------------------------------------------

    def _put(self, path: str, file: tuple[pa.Buffer, int]) -> None:
        if path not in self._files:
            insort(self._paths, path)
        self._files[path] = file

    def _take(self, path: str) -> tuple[pa.Buffer, int] | None:
        if path in self._files:
            del self._paths[bisect_left(self._paths, path)]
        return self._files.pop(path, None)

    def _below(self, head: str) -> Sequence[str]:
        """The paths that begin with `head`, a folder with its slash, or "" for all."""
        paths = self._paths
        return paths[bisect_left(paths, head) : bisect_left(paths, f"{head[:-1]}{_AFTER_SLASH}")] if head else paths[:]

    # -- what no other process can do ----------------------------------------------------------------------------------

    def prune(self, prefix: str) -> None:
        checked(prefix)

    def place(self, path: str) -> str:
        raise InvalidQuery("no other process can reach a table in memory", where=path, cure="connect to a directory")

    def uri(self, path: str) -> str:
        raise InvalidQuery("Spark cannot reach a table in memory", where=path, cure="connect to a directory")


_named: dict[str, MemoryStorage] = {}
_naming = Lock()


def named(name: str) -> MemoryStorage:
    """The storage of this name, which lives as long as the process."""
    with _naming:
        return _named.setdefault(name, MemoryStorage(name=name))
