"""The contract of a storage: operations on named byte strings. Also turns the operating system's errors into StorageFailed.

A path is relative to the storage's root, its parts separated by '/'. `tests/support/storage_contract.py` checks these invariants
for each backend:

1. A reader sees a file completely or not at all, even while it is being written or after its writer was killed.
2. Of any number of `put_if_absent` calls for one path exactly one returns True, and its content stays.
3. After `write` or `put_if_absent` returns, the content survives a power failure. `delete` does not guarantee this.
4. An `OSError` is raised as StorageFailed, chained to its cause; `read` of a missing file raises FileNotFoundError.

Symbolic links inside a storage are never followed: listings omit them, and a path through one is refused.

After StorageFailed, a write may or may not have taken effect; a caller that must know checks the storage.
"""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from lsmlake import undo
from lsmlake.beside import Threads
from lsmlake.errors import InvalidQuery, LakeError, StorageFailed

TEMPORARY = ".tmp-"  # prefix of names reserved for the backend and never listed; Spark ignores names with a leading dot, too

_CHUNK_BYTES = 1 << 23
_PATTERN_CHARACTERS = re.compile(r"[\\{}\[\]*?]")

_CURES = {
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space or raise the quota",
    errno.EFBIG: "raise the limit on the size of a file",
    errno.EMFILE: "raise the limit on open files",
    errno.EACCES: "grant this user read and write permission",
    errno.EROFS: "mount the file system for writing",
    errno.EPERM: "grant this user read and write permission, and use a file system with hard links",
    errno.EOPNOTSUPP: "use a file system with hard links",
    errno.ENOTDIR: "move the file that has the name of a directory",
    errno.EISDIR: "move the directory that has the name of a file",
    errno.ENAMETOOLONG: "use a shorter warehouse path or shorter partition values",
}


class Entry(NamedTuple):
    """A listed file. `modified_ms`: milliseconds since the epoch, by the clock of the storage."""

    path: str
    size: int
    modified_ms: int


class Ending(NamedTuple):
    """The size of a file, and its last bytes."""

    size: int
    data: bytes


class Storage(ABC):
    """The storage of a warehouse. Implementations are thread-safe.

    Attributes:
        at_once: how many calls to make concurrently; 1 if a call takes less time than starting a thread.
        writes_at_once: how many small files to write concurrently; 1 if a write does not wait for a disk or a network.
        by_address: whether other processes reach the storage by its address and their environment, without settings of the user.
    """

    at_once = writes_at_once = 1
    by_address = True

    @abstractmethod
    def read(self, path: str) -> pa.NativeFile:
        """Opens a file for random access; the caller closes it. Raises FileNotFoundError."""

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        """As `read`, for a caller that will first read the last `length` bytes of a file that should have `size` bytes.
        With length 0 a missing file may be noticed only when it is read."""
        return self.read(path)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """The bytes [start, stop) of a file, fewer at its end. Raises FileNotFoundError."""
        with self.read(path) as source, storage_errors("read", path):
            size = source.size()
            source.seek(min(start, size))
            return source.read(max(0, min(stop, size) - start))  # `read` allocates as much as is requested

    def endings(self, files: Sequence[tuple[str, int]]) -> list[Ending | None]:
        """The ends of files, in order; None: there is no such file. `files`: paths, and how many bytes to read. Raises
        StorageFailed as `refuse_links`."""
        return [_ending(self, *file) for file in files]

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        """The whole content of small files, in order; None: there is no such file."""
        return [_content(self, path) for path in paths]

    def states(self, paths: Sequence[str]) -> list[Hashable | None] | None:
        """A value for each file that changes when the file is replaced, and takes less time than its content; None for a missing
        file. None instead of a list: the storage has no such values."""
        return None

    @abstractmethod
    def write(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A sink for a whole file; replaces an existing file. A normal exit of the context makes the file durable and visible; an
        exit by an exception makes nothing visible. An OSError in the body counts as an error of the sink. Creates parent
        directories."""

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Writes whole files, as `write` does, `writes_at_once` at once. After an error, some of them may be visible."""
        if self.writes_at_once == 1:
            for file in files.items():
                self._write_one(*file)
            return
        with Threads(min(self.writes_at_once, max(1, len(files)))) as threads:
            for written in [threads.submit(self._write_one, *file) for file in files.items()]:
                written.result()

    def _write_one(self, path: str, data: bytes) -> None:
        with self.write(path) as sink:
            sink.write(data)

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates a file with this content unless it exists; returns whether it was created. Atomic, and durable on return."""

    def turn(self, directory: str, sleep: Callable[[float], None]) -> AbstractContextManager[None]:
        """Lets writers that compete for the next name in a directory go one after another, where that takes less time than the
        races that they lose. No promise: a writer that waits in vain for some tenths of a second goes on. `sleep`: see `Env`."""
        return nullcontext()

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Entry]:
        """The files inside the directory `prefix` ("" = the root) at any depth, ascending by path; none if the directory does not
        exist. Files that are created or deleted during the listing may be missing or included."""

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the directories directly inside the directory `prefix` ("" = the root), ascending. May include a directory
        whose last file was deleted."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes a file; does nothing if it does not exist."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Deletes files, in this order or at once, with few requests; ignores missing files, without a look-up. Tries all files
        before it raises."""
        failed: StorageFailed | None = None
        for path in paths:
            try:
                self.delete(path)
            except StorageFailed as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def copy(self, source: str, target: str) -> None:
        """Replaces the file `target` by the content of `source`, atomically. Durable only after a later `write` into the
        directory of `target` has returned. Raises FileNotFoundError."""
        data = read_bytes(self, source)
        with self.write(target) as sink:
            sink.write(data)

    def bring(self, source: Storage, path: str, target: str, *, link: bool = True) -> None:
        """Creates the file `target` with the content of a file of any storage. Atomic and durable, as `write`.

        Where it can, the storage does not copy bytes through this process. `link`: the source never changes the content of the
        file in place, so both may be names of one file. Raises FileNotFoundError if there is no such source."""
        with source.read(path) as content, self.write(target) as sink, storage_errors("read", path):
            while chunk := content.read(_CHUNK_BYTES):
                sink.write(chunk)

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Renames the directory `source`, with its content, to `target`; returns whether it was renamed. Does nothing if `source`
        contains no file, or `target` contains one. Atomic: a reader never sees files under both names or under neither.

        A storage without an atomic rename raises InvalidQuery: copying objects one by one is not a move."""

    @abstractmethod
    def prune(self, prefix: str) -> None:
        """Removes the directory `prefix` and all directories inside it that contain no file. Removes symbolic links, never their
        targets. Does nothing if directories exist only as parts of paths."""

    @property
    def uncached(self) -> Storage:
        """The same storage without a cache of its files, for a check of what it really contains."""
        return self

    def distrust(self, path: str) -> bool:
        """Removes the parts of a damaged file from the cache; returns whether there is a cache."""
        return False

    def leftovers(self, prefix: str) -> Iterator[Entry]:
        """The temporary files of dead writers below the directory `prefix`, which `list` does not show."""
        yield from ()

    def delete_leftover(self, path: str) -> bool:
        """Deletes a temporary file, unless a live writer still writes it; returns whether it was deleted."""
        return False

    @abstractmethod
    def place(self, path: str) -> str:
        """The path of a file or folder for other processes. Raises InvalidQuery if the storage has no such path."""

    def url(self, path: str) -> str:
        """The address of a file or folder for programs that take only URLs, such as readers of Iceberg."""
        place = self.place(path)
        return place if "://" in place else f"file://{place}"

    def reader_settings(self) -> Mapping[str, str]:
        """What other programs need to know to read the files: the endpoint, region and keys of S3, by the names of obstore. Holds
        secrets. Empty for other storages."""
        return {}

    def refuse_links(self, paths: Iterable[str]) -> None:
        """Raises StorageFailed if a file, or a folder on its path, is a symbolic link: an engine that opens files by itself would
        follow it. One look-up per file and folder, if the storage has links."""
        for path in paths:
            checked(path)

    @abstractmethod
    def uri(self, path: str) -> str:
        """The address of this one file for `spark.read`, with pattern characters escaped. The scheme names a file system of
        Hadoop, which the session may lack. Raises InvalidQuery if Hadoop has no file system for this storage."""


def read_bytes(storage: Storage, path: str) -> bytes:
    """The whole content of a file. Raises FileNotFoundError."""
    with storage.read(path) as file, storage_errors("read", path):
        return file.read()


def _ending(storage: Storage, path: str, length: int) -> Ending | None:
    try:
        with storage.read(path) as file, storage_errors("read", path):
            size = file.size()
            return Ending(size, file.read_at(min(size, length), max(0, size - length)))
    except FileNotFoundError:
        return None


def _content(storage: Storage, path: str) -> bytes | None:
    try:
        return read_bytes(storage, path)
    except FileNotFoundError:
        return None


@contextmanager
def write_unnamed(storage: Storage, path: str) -> Iterator[pa.NativeFile]:
    """As `Storage.write`, for a new file that a snapshot will name: the file is removed if the public call fails before that."""
    call = undo.made(storage.delete_all, [path])
    with storage.write(path) as sink:
        yield sink
    if call is not None and call.over:  # the public call ended without this thread
        delete_quietly(storage, [path])


def delete_quietly(storage: Storage, paths: Iterable[str]) -> None:
    """Deletes unreferenced files; storage errors are ignored, since a file that stays is a harmless orphan."""
    with suppress(StorageFailed):
        delete_all(storage, paths)


def delete_all(storage: Storage, paths: Iterable[str]) -> None:
    """As `Storage.delete_all`, and the public call repeats the deletion if it is interrupted."""
    paths = list(paths)
    undo.made(storage.delete_all, paths)
    storage.delete_all(paths)
    undo.kept(storage.delete_all, paths)


class storage_errors(NamedTuple):
    """Turns an OSError of the body into StorageFailed("cannot <verb>"), but lets FileNotFoundError pass. A class, which takes a
    part of the time of a generator."""

    verb: str
    where: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, (LakeError, FileNotFoundError)):
            cure = _CURES.get(error.errno, "see the cause and try again")
            raise StorageFailed(f"cannot {self.verb}", where=self.where, found=error.strerror or str(error), cure=cure) from error


def escaped(path: str) -> str:
    """A path as a pattern of Hadoop that matches only this path. Not percent-encoded, because Hadoop does not decode paths."""
    return _PATTERN_CHARACTERS.sub(r"\\\g<0>", path)


@lru_cache(maxsize=1 << 12)
def checked(path: str) -> str:
    """Returns `path`. Raises InvalidQuery if it leads out of the root or has a reserved name."""
    for part in path.split("/"):
        if part in ("", ".", "..") or "\0" in part or part.startswith(TEMPORARY):
            raise InvalidQuery("invalid path in a storage", where=repr(path), found=f"the part {part!r}", cure="use another name")
    return path
