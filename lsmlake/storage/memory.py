"""A storage in memory, for tests and for tables that need not outlive their process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.storage.storage import Entry, Storage, checked, storage_errors


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStorage(Storage):
    """Files in memory, dated by `clock()` in milliseconds. A file is an immutable buffer that readers share without a copy."""

    def __init__(self, clock: Callable[[], int] = _now_ms, name: str = "") -> None:
        self.root = f"memory://{name}"
        self._clock = clock
        self._files: dict[str, tuple[pa.Buffer, int]] = {}
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
                self._files[path] = sink.getvalue(), self._clock()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._lock:
            created = checked(path) not in self._files
            if created:
                self._files[path] = pa.py_buffer(bytes(data)), self._clock()
            return created

    def list(self, prefix: str) -> Iterator[Entry]:
        start = f"{checked(prefix)}/" if prefix else ""
        with self._lock:
            entries = sorted(
                (path, content.size, date) for path, (content, date) in self._files.items() if path.startswith(start)
            )
        yield from map(Entry._make, entries)

    def folders(self, prefix: str) -> Iterator[str]:
        head = f"{checked(prefix)}/" if prefix else ""
        with self._lock:
            below = [path[len(head) :] for path in self._files if path.startswith(head)]
        yield from sorted({path.split("/", 1)[0] for path in below if "/" in path})

    def size(self, path: str) -> int | None:
        with self._lock:
            return self._files[path][0].size if checked(path) in self._files else None

    def delete(self, path: str) -> None:
        with self._lock:
            self._files.pop(checked(path), None)

    def move(self, source: str, target: str) -> bool:
        old, new = f"{checked(source)}/", f"{checked(target)}/"
        with self._lock:
            moving = [path for path in self._files if path.startswith(old)]
            if not moving or any(path.startswith(new) for path in self._files):
                return False
            for path in moving:
                self._files[new + path[len(old) :]] = self._files.pop(path)
            return True

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
