"""A storage in a directory of a POSIX file system with hard links.

Content is written to a temporary file beside its target, made durable, and only then given its name:

1. create missing directories and `fsync` the parent of each;
2. write the temporary file and `fsync` it through a descriptor opened before the first byte, so no write error goes unseen;
3. `write` renames it to the target; `put_if_absent` links it to the target, which fails if the name is taken;
4. remove the temporary name if it still exists, and `fsync` the directory (`write_all`: once for all files in it).

If another process removes or renames the directory meanwhile, the writer raises StorageFailed and publishes nothing. A killed
writer leaves at most a temporary file, which no listing shows. A writer holds a lock (`flock`) on its temporary file until its
process ends; so `leftovers` can tell the files of dead writers from those of slow or suspended writers. On a file system without
such locks, no file counts as that of a dead writer.

Writers of one machine take turns at their commits (`turn`) by a lock on a directory, since a lost race costs more than the wait.
Nothing depends on it.

Symbolic links inside the root are never followed, because they could lead outside or form a cycle; the root itself may be one.
Files are not memory-mapped, because truncating a mapped file kills the process that reads it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import pyarrow as pa

from lsmlake import undo
from lsmlake.errors import InvalidQuery, StorageFailed
from lsmlake.storage.storage import TEMPORARY, Ending, Entry, Storage, checked, escaped, storage_errors

Found = TypeVar("Found")
_TRIES = 100
_SMALL_BYTES = 1 << 16  # of a file that is read whole
_SEEN_MAX = 1 << 14
_TURN_LOOKS, _TURN_LOOK_SECONDS = 200, 0.001  # for the lock of another writer, who holds it for some milliseconds
_NOT_LINKED = errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS


def directory_at(path: str) -> Path:
    """The directory that a user names, with `~` expanded. Raises InvalidQuery for an invalid path."""
    if (directory := expanded(path)) is None:
        raise InvalidQuery("not a path", found=repr(path), expected="a directory, '.' for the current one", cure="name one")
    return directory


def expanded(path: str) -> Path | None:
    """A path that a user names, with `~` expanded; None if it is no valid path or names the home directory of an unknown user."""
    try:
        return Path(path).expanduser() if path.strip() and "\0" not in path else None
    except RuntimeError:
        return None


class FileState(NamedTuple):
    """Identifies a file: another one under the same name has another inode, or was created later."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class LocalStorage(Storage):
    """Files in the directory `root`, which the first write creates. Pickles, so tasks on one file system share it."""

    writes_at_once = 2

    def __init__(self, root: str | os.PathLike) -> None:
        self.root = os.path.abspath(root)
        self._seen: dict[str, tuple[int, int]] = {}
        """Directory -> its device and inode when no part of its path was a link."""

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_seen": {}}

    def __repr__(self) -> str:
        return f"LocalStorage({self.root!r})"

    def read(self, path: str) -> pa.NativeFile:
        located = self._guarded(path)
        with storage_errors("look up", located):
            if _size(located) is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", located)
        with storage_errors("read", located):
            return pa.OSFile(located, "rb")

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        """As in `Storage`; reads all of a small file by calls of the system, in half the time of a file of Arrow."""
        if length > 0 and size <= _SMALL_BYTES:
            located = self._guarded(path)
            with storage_errors("read", located):
                content = _content(located, _SMALL_BYTES)
            if content is not None:
                return pa.BufferReader(content)
        return self.read(path)

    def endings(self, files: Sequence[tuple[str, int]]) -> list[Ending | None]:
        """As in `Storage`; checks each directory once, and reads by the calls of the system."""
        endings, folders = [], set()
        for path, length in files:
            located = self._locate(path)
            self._refuse_linked_folders(located, folders)
            with storage_errors("read", located):
                endings.append(_ending(located, length))
        return endings

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        """As in `Storage`; checks each directory once, and reads by the calls of the system."""
        return self._of_each(paths, _content)

    def states(self, paths: Sequence[str]) -> list[FileState | None]:
        """As in `Storage`; checks each directory once."""
        return self._of_each(paths, _state)

    def _of_each(self, paths: Sequence[str], found: Callable[[str], Found]) -> list[Found]:
        """What `found` returns for the absolute path of each file; checks each directory once."""
        results, folder = [], None
        for path in paths:
            parent, _, name = path.rpartition("/")
            if parent != folder:
                directory, folder = self._guarded(path).rpartition("/")[0], parent
            located = f"{directory}/{checked(name)}"
            with storage_errors("read", located):
                results.append(found(located))
        return results

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._guarded(path)
        with storage_errors("write", target), _temporary_beside(target) as (temporary, handle):
            with _durable_sink(temporary, handle) as sink:
                yield sink
            with _directory_must_exist(target):
                os.replace(temporary, target)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """As in `Storage`. Writes all files before it makes the first one durable: a file system with a journal then writes it
        once for all of them. The names in a directory are made durable together, too."""
        with ExitStack() as temporaries:
            written = []
            for path, data in files.items():
                target = self._guarded(path)
                with storage_errors("write", target):
                    temporary, handle = temporaries.enter_context(_temporary_beside(target, synced=False))
                    handle.write(data)
                    handle.flush()
                written.append((target, temporary, handle))
            for target, _, handle in written:
                with storage_errors("write", target):
                    os.fsync(handle.fileno())
            for target, temporary, _ in written:
                with storage_errors("write", target), _directory_must_exist(target):
                    os.replace(temporary, target)
        for directory in {os.path.dirname(target) for target, *_ in written}:
            with storage_errors("write", directory):
                _sync_if_there(directory)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._guarded(path)
        with storage_errors("create", target), _temporary_beside(target) as (temporary, handle):
            with _durable_sink(temporary, handle) as sink:
                sink.write(data)
            with _directory_must_exist(target):
                return _link(temporary, target)

    @contextmanager
    def turn(self, directory: str, sleep: Callable[[float], None]) -> Iterator[None]:
        """As in `Storage`: one writer at a time holds a lock (`flock`) on the directory. The lock ends with its process."""
        handle = _directory_handle(self._guarded(directory))
        try:
            if handle is not None:
                _wait_for_lock(handle, sleep)
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def list(self, prefix: str) -> Iterator[Entry]:
        directory = self._directory(prefix)
        with storage_errors("list", directory):
            yield from _walk(directory, f"{prefix}/" if prefix else "")

    def folders(self, prefix: str) -> Iterator[str]:
        directory = self._directory(prefix)
        with storage_errors("list", directory), suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as listing:
            listed = (entry for entry in listing if entry.is_dir(follow_symlinks=False))
            yield from sorted(entry.name for entry in listed if not entry.name.startswith(TEMPORARY))

    def size(self, path: str) -> int | None:
        located = self._guarded(path)
        with storage_errors("look up", located):
            return _size(located)

    def delete(self, path: str) -> None:
        located = self._guarded(path)
        with storage_errors("delete", located), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(located)

    def copy(self, source: str, target: str) -> None:
        """Creates a hard link: the content is already durable, only the name is not."""
        old, new = self._guarded(source), self._guarded(target)
        _refuse_link(old)
        with storage_errors("copy", new):
            try:
                _link_over(old, new)
            except OSError as refused:
                if refused.errno != errno.EMLINK:
                    raise
                super().copy(source, target)

    def bring(self, source: Storage, path: str, target: str, *, link: bool = True) -> None:
        """Creates a hard link, after the content was made durable. Copies where the file system has no link for the file, such as
        between two devices or to the file of another user."""
        if not (link and isinstance(source, LocalStorage) and self._linked(source._guarded(path), self._guarded(target))):
            super().bring(source, path, target)

    def _linked(self, old: str, new: str) -> bool:
        _refuse_link(old)
        with storage_errors("link", old):
            try:
                _sync(old)
                _link_over(old, new)
            except OSError as refused:
                if refused.errno not in _NOT_LINKED:
                    raise
                return False
            _sync(os.path.dirname(new))
        return True

    def move(self, source: str, target: str) -> bool:
        old, new = self._directory(source), self._directory(target)
        if next(self.list(source), None) is None or next(self.list(target), None) is not None:
            return False
        with storage_errors("move", old):
            _remove_empty(new, temporaries=True)
            _make_directory(os.path.dirname(new))
            try:
                os.rename(old, new)
            except FileNotFoundError:
                return False
            except OSError as taken:
                if taken.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
            for parent in {os.path.dirname(new), os.path.dirname(old)}:
                _sync(parent)
        return True

    def prune(self, prefix: str) -> None:
        directory = self._directory(prefix)
        with storage_errors("remove", directory):
            _remove_empty(directory)

    def leftovers(self, prefix: str) -> Iterator[Entry]:
        """As in `Storage`. Times come from the file system, not from the writer: a copy is a link to a file that may be old."""
        directory = self._directory(prefix)
        with storage_errors("list", directory):
            for parent, folders, names in os.walk(directory):
                folders.sort()
                inside = os.path.relpath(parent, self.root).replace(os.sep, "/")
                for name in sorted(name for name in names if name.startswith(TEMPORARY)):
                    with suppress(FileNotFoundError):
                        status = os.lstat(f"{parent}/{name}")
                        if stat.S_ISREG(status.st_mode) and _is_abandoned(f"{parent}/{name}"):
                            changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
                            yield Entry(f"{inside}/{name}", status.st_size, changed_ns // 1_000_000)

    def delete_leftover(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        located = f"{self._directory(folder)}/{name}"
        if not name.startswith(TEMPORARY) or os.path.islink(located):
            return False
        with storage_errors("delete", located), suppress(FileNotFoundError, NotADirectoryError):
            if _is_abandoned(located):
                os.unlink(located)
                return True
        return False

    def place(self, path: str) -> str:
        return self._locate(path)

    def uri(self, path: str) -> str:
        return "file://" + escaped(self._locate(path))

    def refuse_links(self, paths: Iterable[str]) -> None:
        folders: set[str] = set()
        for path in paths:
            located = self._locate(path)
            self._refuse_linked_folders(located, folders)
            _refuse_link(located)

    def _refuse_linked_folders(self, located: str, seen: set[str]) -> None:
        """Raises StorageFailed if a directory on the path of a file is a link. `seen`: the directories that are not looked at
        again; this call adds to them."""
        parent = located.rpartition("/")[0]
        while parent not in seen and len(parent) > len(self.root):
            seen.add(parent)
            _refuse_link(parent)
            parent = parent.rpartition("/")[0]

    def _locate(self, path: str) -> str:
        return f"{self.root}/{checked(path)}"

    def _guarded(self, path: str) -> str:
        """The absolute path, after a check that none of its directories is a symbolic link. Raises StorageFailed. A directory
        that was checked before is known by its inode: one call of the system finds it, whatever the depth."""
        located = f"{self.root}/{checked(path)}"
        directory = located.rpartition("/")[0]
        if (known := self._seen.get(directory)) is not None and known == _identity(directory):
            return located
        at, status = len(self.root) + 1, None
        while (at := located.find("/", at)) >= 0:
            status = _refuse_link(located[:at])
            at += 1
        if status is not None:
            if len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            self._seen[directory] = status.st_dev, status.st_ino
        return located

    def _directory(self, prefix: str) -> str:
        directory = self._guarded(prefix) if prefix else self.root
        if prefix:
            _refuse_link(directory)
        return directory


def _size(located: str) -> int | None:
    """The size of a file; None if the file does not exist."""
    try:
        status = os.lstat(located)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _state(located: str) -> FileState | None:
    """The state of a file; None if the file does not exist."""
    try:
        status = os.lstat(located)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(located: str, most: int | None = None) -> bytes | None:
    """The content of a file; None if the file does not exist or has more than `most` bytes."""
    if (handle := _handle(located)) is None:
        return None
    try:
        status = os.fstat(handle)
        fits = stat.S_ISREG(status.st_mode) and (most is None or status.st_size <= most)
        return os.read(handle, status.st_size) if fits else None
    finally:
        os.close(handle)


def _ending(located: str, length: int) -> Ending | None:
    """The end of a file; None if the file does not exist. Raises StorageFailed if it is a link."""
    if (handle := _handle(located)) is None:
        _refuse_link(located)
        return None
    try:
        status = os.fstat(handle)
        start = max(0, status.st_size - length)
        return Ending(status.st_size, os.pread(handle, length, start)) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(handle)


def _handle(located: str) -> int | None:
    """A file opened for reading; None if it does not exist or is a link."""
    try:
        return os.open(located, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as refused:
        if refused.errno == errno.ELOOP:
            return None
        raise


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode that a path leads to, through links, too; None if there is nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse_link(path: str) -> os.stat_result | None:
    """What lies at the path itself; None if there is nothing. Raises StorageFailed if it is a link."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise StorageFailed(
            "a symbolic link inside a warehouse is not followed",
            where=path,
            expected="a directory",
            found=f"a link to {os.readlink(path)!r}",
            cure="move or mount the directory itself there, or remove the link",
        )
    return status


@contextmanager
def _temporary_beside(target: str, *, synced: bool = True) -> Iterator[tuple[str, BinaryIO]]:
    """Creates a locked temporary file in the target's directory and removes it at the end; then `fsync`s the directory, unless
    the body failed or the caller does it (`synced` is False)."""
    directory = os.path.dirname(target)
    temporary = f"{directory}/{TEMPORARY}{uuid.uuid4().hex}"
    undo.made(_unlink, [temporary])
    with _directory_must_exist(temporary):
        handle = _create(temporary)
    try:
        with handle:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield temporary, handle
    finally:
        _unlink([temporary])
        undo.kept(_unlink, [temporary])
    if synced:
        _sync_if_there(directory)


def _sync_if_there(directory: str) -> None:
    with suppress(FileNotFoundError):  # the directory was renamed after the file was named
        _sync(directory)


def _unlink(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _create(path: str) -> BinaryIO:
    """Creates a file and its parent directories. Retries, because another process may be removing empty directories."""
    for _ in range(_TRIES):
        _make_directory(os.path.dirname(path))
        with suppress(FileNotFoundError):
            return open(path, "xb")
    raise FileNotFoundError(errno.ENOENT, "another process keeps removing the directory", path)


@contextmanager
def _directory_must_exist(target: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as missing:
        raise StorageFailed(
            "the directory was removed or renamed while a file in it was written",
            where=target,
            cure="check whether the table was dropped or renamed",
        ) from missing


@contextmanager
def _durable_sink(path: str, handle: BinaryIO) -> Iterator[pa.NativeFile]:
    """A sink for the file that `handle` has created; makes the content durable at the end."""
    with _directory_must_exist(path):
        sink = pa.OSFile(path, "wb")
    with sink:
        yield sink
    os.fsync(handle.fileno())


def _directory_handle(path: str) -> int | None:
    """A directory that can be locked; None if there is none."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None


def _wait_for_lock(handle: int, sleep: Callable[[float], None]) -> None:
    """Locks an open file; returns without the lock if its holder keeps it for long, as a suspended process does, or if the file
    system has no locks."""
    for _ in range(_TURN_LOOKS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            sleep(_TURN_LOOK_SECONDS)
        except OSError:
            return


def _is_abandoned(path: str) -> bool:
    """Whether no live process writes the temporary file. Raises FileNotFoundError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError:  # the file of another user
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:  # locked, or a file system without locks
        return False
    finally:
        os.close(descriptor)


def _link(temporary: str, target: str) -> bool:
    """Whether this call created the target. A network file system that repeats a request after a lost response can report
    "exists" although the first request succeeded; then the file has two names."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, "a directory has this name", target) from None
        return os.stat(temporary).st_nlink > 1
    return True


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directory(parent)
    with suppress(FileExistsError, FileNotFoundError):
        os.mkdir(directory)
        _sync(parent)


def _remove_empty(directory: str, *, temporaries: bool = False) -> None:
    """Removes symbolic links and empty directories and, with `temporaries`, the temporary files of killed writers."""
    try:
        with os.scandir(directory) as listing:
            entries = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_symlink() or (temporaries and entry.name.startswith(TEMPORARY)):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            _remove_empty(entry.path, temporaries=temporaries)
    with suppress(OSError):  # not empty
        os.rmdir(directory)


def _link_over(old: str, new: str) -> None:
    """Makes `new` a name of the file `old`. Replaces the file that `new` named before."""
    temporary = f"{os.path.dirname(new)}/{TEMPORARY}{uuid.uuid4().hex}"
    _make_directory(os.path.dirname(new))
    undo.made(_unlink, [temporary])
    try:
        os.link(old, temporary)
        os.replace(temporary, new)
    finally:
        _unlink([temporary])  # `replace` keeps the temporary name if both names are of one file
        undo.kept(_unlink, [temporary])


def _sync(path: str) -> None:
    """Makes the content of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _walk(directory: str, prefix: str) -> Iterator[Entry]:
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=_order)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(TEMPORARY) or entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
        elif status := _status(entry):
            yield Entry(prefix + entry.name, status.st_size, status.st_mtime_ns // 1_000_000)


def _order(entry: os.DirEntry) -> str:
    """Sorts a directory by the paths of its files: `a-b` comes before `a/b`."""
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _status(entry: os.DirEntry) -> os.stat_result | None:
    """The status of an entry; None if it was deleted during the listing."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
