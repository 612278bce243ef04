"""A directory of a POSIX file system with hard links as a storage.

Content is staged in a temporary file beside its target, brought to disk, and only then given its name:

1. make the directory, each new one brought to disk in its parent;
2. write the temporary file and `fsync` it through a descriptor opened before the first byte, so no write error goes unseen;
3. `write` renames it over the target; `put_if_absent` links it to the target, which fails if the name is taken;
4. remove the temporary name if it still is one, and `fsync` the directory.

A writer that is killed leaves at most a temporary file, which no listing shows. Files are read with plain reads, not mapped to
memory: a mapped file that somebody truncates kills the process.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from lsmlake.store.storage import TEMPORARY, Entry, Storage, checked, storage_errors

_PATTERN_CHARACTERS = re.compile(r"[\\{}\[\]*?]")


class LocalStorage(Storage):
    """The files below the directory `root`, which is made by the first write. Pickles; tasks on one file system share it."""

    def __init__(self, root: str | os.PathLike) -> None:
        self.root = os.path.abspath(root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.root!r})"

    def read(self, path: str) -> pa.NativeFile:
        if self.size(path) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", self._locate(path))
        with storage_errors("read", self._locate(path)):
            return pa.OSFile(self._locate(path), "rb")

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._locate(path)
        with storage_errors("write", target), _temporary_beside(target) as temporary:
            with _durable_sink(temporary) as sink:
                yield sink
            os.replace(temporary, target)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._locate(path)
        with storage_errors("create", target), _temporary_beside(target) as temporary:
            with _durable_sink(temporary) as sink:
                sink.write(data)
            return _link(temporary, target)

    def list(self, prefix: str) -> Iterator[Entry]:
        directory = self._locate(prefix) if prefix else self.root
        with storage_errors("list", directory):
            yield from _walk(directory, f"{prefix}/" if prefix else "")

    def folders(self, prefix: str) -> Iterator[str]:
        directory = self._locate(prefix) if prefix else self.root
        with storage_errors("list", directory), suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as found:
            yield from sorted(entry.name for entry in found if entry.is_dir())

    def size(self, path: str) -> int | None:
        with storage_errors("look up", self._locate(path)):
            try:
                status = os.stat(self._locate(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return status.st_size if stat.S_ISREG(status.st_mode) else None

    def delete(self, path: str) -> None:
        with storage_errors("delete", self._locate(path)), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._locate(path))

    def place(self, path: str) -> str:
        return self._locate(path)

    def uri(self, path: str) -> str:
        return "file://" + _PATTERN_CHARACTERS.sub(r"\\\g<0>", self._locate(path))  # no percent-encoding: Hadoop does not decode

    def _locate(self, path: str) -> str:
        return f"{self.root}/{checked(path)}"


@contextmanager
def _temporary_beside(target: str) -> Iterator[str]:
    """A fresh name in the target's directory, removed at the end; then, unless the body failed, the directory is durable."""
    directory = os.path.dirname(target)
    _make_directory(directory)
    temporary = f"{directory}/{TEMPORARY}{uuid.uuid4().hex}"
    try:
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_directory(directory)


@contextmanager
def _durable_sink(path: str) -> Iterator[pa.NativeFile]:
    with open(path, "xb") as handle:
        with pa.OSFile(path, "wb") as sink:
            yield sink
        os.fsync(handle.fileno())


def _link(temporary: str, target: str) -> bool:
    """Whether this call gave the target its name. A network file system that repeats a request, its answer lost, says "exists" of
    its own success; then the file has two names."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return os.stat(temporary).st_nlink > 1
    return True


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directory(parent)
    with suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(parent)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _walk(directory: str, prefix: str) -> Iterator[Entry]:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=_order)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir():
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
        elif not entry.name.startswith(TEMPORARY) and (status := _status(entry)):
            yield Entry(prefix + entry.name, status.st_size, status.st_mtime_ns // 1_000_000)


def _order(entry: os.DirEntry) -> str:
    """Sorts a directory where the paths below it sort: `a-b` comes before `a/b`."""
    return f"{entry.name}/" if entry.is_dir() else entry.name


def _status(entry: os.DirEntry) -> os.stat_result | None:
    """None if it is gone by now."""
    try:
        return entry.stat()
    except FileNotFoundError:
        return None
