"""The contract of a storage: ten verbs over named byte strings, and the one border where foreign errors become ours.

A path is relative to the storage's root, its parts separated by '/'. Invariants, which `tests/storage_contract.py` asks of every
backend:

1. A reader sees a file whole or not at all, whoever is writing it and however the writer dies.
2. Of any number of `put_if_absent` on one path exactly one returns True, and its bytes stay.
3. What `write` or `put_if_absent` returned from survives a loss of power. (`delete` promises no such thing.)
4. An `OSError` leaves as StorageFailed, chained to its cause; but `read` of no file raises FileNotFoundError, its caller judges.

A symbolic link inside a storage is never followed: listings leave it out, and a path through it is refused.

After StorageFailed a write may or may not have taken place, as after any lost answer: whoever must know looks.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidQuery, LakeError, StorageFailed

TEMPORARY = ".tmp-"  # a name that starts so belongs to the backend and is never listed; Spark passes over dotted names too

_CURES = {
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space or raise the quota",
    errno.EFBIG: "raise the limit on the size of a file",
    errno.EMFILE: "raise the limit on open files",
    errno.EACCES: "let this user read and write there",
    errno.EROFS: "mount the file system for writing",
    errno.EPERM: "let this user read and write there, on a file system that has hard links",
    errno.EOPNOTSUPP: "use a file system that has hard links",
    errno.ENOTDIR: "move away the file that stands in the place of a directory",
    errno.EISDIR: "move away the directory that stands in the place of a file",
    errno.ENAMETOOLONG: "use a shorter warehouse path or shorter partition values",
}


class Entry(NamedTuple):
    """A listed file. `modified_ms`: milliseconds since the epoch, by the clock of the storage."""

    path: str
    size: int
    modified_ms: int


class Storage(ABC):
    """Where a warehouse is stored. Implementations are safe to share between threads."""

    @abstractmethod
    def read(self, path: str) -> pa.NativeFile:
        """Open a file for random access; the caller closes it. Raises FileNotFoundError."""

    @abstractmethod
    def write(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A sink for a whole file; replaces an existing file. A normal exit of the context makes the file durable and visible; an
        exit by an exception makes nothing visible. An OSError in the body counts as an error of the sink. Creates parent
        directories."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file with this content unless it exists; return whether it was created. Atomic, and durable on return."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Entry]:
        """The files below the directory `prefix` ("" = the root) at any depth, ascending by path; none if the directory does not
        exist. Files that are created or deleted during the listing may be missing or included."""

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the directories directly below the directory `prefix` ("" = the root), ascending; not recursive. May
        include a directory whose last file was deleted."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""

    def copy(self, source: str, target: str) -> None:
        """Replace the file `target` by the content of `source`, atomically. Durable only after a later `write` into the
        directory of `target` has returned. Raises FileNotFoundError."""
        data = read_bytes(self, source)
        with self.write(target) as sink:
            sink.write(data)

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Rename the directory `source`, with everything below it, to `target`; return whether it was renamed. Does nothing if
        there is no file below `source`, or if there is a file below `target`. Atomic: a reader never sees files under both names
        or under neither.

        A storage without an atomic rename must raise InvalidQuery: copying objects one by one is not a move. There, a small
        object per table name would hold the folder of the table, and renaming would replace that object conditionally."""

    @abstractmethod
    def prune(self, prefix: str) -> None:
        """Remove the directory `prefix` and all directories below it that contain no file. Removes symbolic links, never their
        targets. Does nothing if directories exist only as parts of paths."""

    @abstractmethod
    def place(self, path: str) -> str:
        """The path under which another process finds this file or folder. Raises InvalidQuery if there is none."""

    @abstractmethod
    def uri(self, path: str) -> str:
        """The address under which `spark.read` finds this file and no other: pattern characters are escaped. Raises InvalidQuery
        if Spark cannot reach this storage."""


def read_bytes(storage: Storage, path: str) -> bytes:
    """The whole content of a file. Raises FileNotFoundError."""
    with storage.read(path) as file, storage_errors("read", path):
        return file.read()


def delete_quietly(storage: Storage, paths: Iterable[str]) -> None:
    """Removes files that nothing names, as far as the storage lets us: what stays does no harm and is an orphan."""
    for path in paths:
        with suppress(StorageFailed):
            storage.delete(path)


@contextmanager
def storage_errors(verb: str, where: str) -> Iterator[None]:
    """Turns an OSError of the body into StorageFailed("cannot <verb>"), once; FileNotFoundError passes."""
    try:
        yield
    except (LakeError, FileNotFoundError):
        raise
    except OSError as error:
        cure = _CURES.get(error.errno, "see the cause and try again")
        raise StorageFailed(f"cannot {verb}", where=where, found=error.strerror or str(error), cure=cure) from error


def checked(path: str) -> str:
    """`path` itself. Raises InvalidQuery if it would leave the root, or meet a temporary file."""
    for part in path.split("/"):
        if part in ("", ".", "..") or "\0" in part or part.startswith(TEMPORARY):
            raise InvalidQuery("no path inside a storage", where=repr(path), found=f"the part {part!r}", cure="use another name")
    return path
