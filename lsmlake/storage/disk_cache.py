"""A cache on a local disk for parts of immutable files of an object store; any number of processes can share its folder.

An entry is one file: a header with the name of the entry and a checksum, then the bytes. A damaged entry counts as missing.
Entries lie in 64 shards by the hash of their name, each with an equal share of the limit. A writer holds the lock of the shard;
the lock file contains the number of bytes in the shard. If an entry does not fit, the writer first deletes the least recently
used entries, an eighth of the shard. A reader takes no lock; it records the use of an entry in its modification time.

The cache never makes a call fail: after an error of the disk an entry is missing, or not stored. A shard that another process
keeps locked is not written. The number in a lock file is raised before the entry exists, so a killed process leaves it too high,
never too low; the next deletion counts again.

An entry is read as a whole and checked, or in parts that the caller checks (`DiskEntry`).

`through` reads a large immutable file in whole blocks through the cache, so that reads of other ranges find the blocks.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from lsmlake.storage.ranges import ByteRange, Fetch

_log = logging.getLogger("lsmlake.storage")

LEAST_BYTES = 64 << 20
_SHARDS = 64
_LOCK, _NEW = "lock", "new"
_SUFFIX = ".part"
_MAGIC = b"lsmlake cache 1\n"
_NAME_BYTES = 32
_HEADER_BYTES = len(_MAGIC) + _NAME_BYTES + 4
_KEPT = 7 / 8  # of a shard, after a deletion
_TRIES, _PAUSE_S = 20, 0.001


class _CacheEntry(NamedTuple):
    used_ns: int
    path: str
    size: int


class DiskEntry(NamedTuple):
    """A place for an entry of the cache. `name`: of the entry, 32 bytes."""

    name: bytes
    path: str

    def read(self, start: int, length: int) -> bytes:
        """Some bytes of the entry, unchecked. Fewer at its end; none if there is no entry, or if the disk fails."""
        return self._read(length, start)

    def ending(self, length: int) -> bytes:
        """As `read`, the last bytes of the entry."""
        return self._read(length, None)

    def _read(self, length: int, start: int | None) -> bytes:
        """Bytes from `start` on; None: the last ones."""
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except OSError:
            return b""
        try:
            begin = max(0, os.fstat(handle).st_size - length - _HEADER_BYTES) if start is None else start
            return os.pread(handle, length, _HEADER_BYTES + begin)
        except OSError:
            return b""
        finally:
            os.close(handle)

    def use(self) -> None:
        """Records a use of the entry, so that it is kept longer."""
        with suppress(OSError):
            os.utime(self.path)

    def delete(self) -> None:
        with suppress(OSError):
            os.unlink(self.path)


class DiskCache:
    """A cache of at most `limit_bytes` in `folder`, which is created with the first entry. Thread-safe. Pickles, so tasks use the
    same folder of their machine."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self.folder, self.limit_bytes = folder, limit_bytes
        self._warned = False

    def __reduce__(self):
        return DiskCache, (self.folder, self.limit_bytes)

    def get(self, file: str, part: str) -> memoryview | None:
        """The bytes of a part of a file; None if they are missing or damaged."""
        name, path = self._place(file, part)
        with suppress(OSError):  # an error of the disk: the entry counts as missing
            with open(path, "rb") as source:
                stored = memoryview(source.read())
            data = stored[_HEADER_BYTES:]
            if stored[:_HEADER_BYTES] == _header(name, data):
                os.utime(path)
                return data
            os.unlink(path)
        return None

    def put(self, file: str, part: str, data: memoryview) -> None:
        """Stores a part of a file, unless the disk fails or the part exceeds the share of a shard."""
        name, path = self._place(file, part)
        size, shard = _HEADER_BYTES + len(data), os.path.dirname(path)
        if not self.holds(len(data)):
            return
        try:
            os.makedirs(shard, mode=0o700, exist_ok=True)
            with _locked(shard) as lock:
                if lock is None or os.path.exists(path):
                    return
                total = _read_total(lock)
                if total is None or total + size > self._share:
                    total = self._make_room(shard, size)
                _write_total(lock, total + size)
                new = os.path.join(shard, _NEW)
                with open(new, "wb") as sink:
                    sink.write(_header(name, data))
                    sink.write(data)
                os.replace(new, path)
        except OSError as error:
            if not self._warned:
                self._warned = True
                _log.warning("the cache in %s cannot be written: %s", self.folder, error.strerror)

    def entry(self, file: str, part: str) -> DiskEntry:
        """The place of an entry, which may be missing."""
        return DiskEntry(*self._place(file, part))

    def holds(self, size: int) -> bool:
        """Whether an entry with so many bytes can be stored."""
        return _HEADER_BYTES + size <= self._share

    def forget(self, file: str) -> None:
        """Deletes all parts of a file."""
        start = _digest(file)
        for shard in range(_SHARDS):
            with suppress(OSError):
                for entry in _entries(self._shard(shard)):
                    if os.path.basename(entry.path).startswith(start):
                        os.unlink(entry.path)

    @property
    def _share(self) -> int:
        return self.limit_bytes // _SHARDS

    def _shard(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:02x}")

    def _place(self, file: str, part: str) -> tuple[bytes, str]:
        """The name of an entry, and its path."""
        name = hashlib.sha256(f"{file}\n{part}".encode()).digest()
        return name, os.path.join(self._shard(name[0] % _SHARDS), f"{_digest(file)}-{name.hex()}{_SUFFIX}")

    def _make_room(self, shard: str, size: int) -> int:
        """Deletes the least recently used entries until an entry of `size` bytes fits; returns the bytes that stay."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(shard, _NEW))  # of a process that was killed
        entries = sorted(_entries(shard))
        total, most = sum(entry.size for entry in entries), min(self._share - size, int(self._share * _KEPT))
        for entry in entries:
            if total <= most:
                break
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
            total -= entry.size
        return total


def _digest(file: str) -> str:
    return hashlib.sha256(file.encode()).hexdigest()[:16]


def _header(name: bytes, data: memoryview) -> bytes:
    return _MAGIC + name + zlib.crc32(data, zlib.crc32(name)).to_bytes(4, "little")


def _entries(shard: str) -> Iterator[_CacheEntry]:
    """The entries of a shard; none if it does not exist."""
    with suppress(FileNotFoundError), os.scandir(shard) as listing:
        for one in listing:
            if one.name.endswith(_SUFFIX):
                with suppress(FileNotFoundError):
                    stat = one.stat()
                    yield _CacheEntry(stat.st_mtime_ns, one.path, stat.st_size)


@contextmanager
def _locked(shard: str) -> Iterator[int | None]:
    """The open lock file of a shard; None if it stays locked."""
    lock = os.open(os.path.join(shard, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield lock if _lock(lock) else None
    finally:
        os.close(lock)


def _lock(lock: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_PAUSE_S)
    return False


def _read_total(lock: int) -> int | None:
    text = os.pread(lock, 20, 0)
    return int(text) if len(text) == 20 and text.isdigit() else None


def _write_total(lock: int, total: int) -> None:
    os.pwrite(lock, b"%020d" % total, 0)


_BLOCK_BYTES = 1 << 19


def through(cache: DiskCache, file: str, size: int, fetch: Fetch) -> Fetch:
    """Wraps `fetch` for a file of `size` bytes so that it requests only the blocks that the cache lacks."""

    def read(wanted: Sequence[ByteRange]) -> list[memoryview]:
        numbers = sorted({number for one in wanted for number in _blocks(one)})
        blocks = {number: cache.get(file, _part(number)) for number in numbers}
        missing = [number for number in numbers if blocks[number] is None]
        ranges = [ByteRange(number * _BLOCK_BYTES, min(size, (number + 1) * _BLOCK_BYTES)) for number in missing]
        if missing:
            for number, one, data in zip(missing, ranges, fetch(ranges), strict=True):
                blocks[number] = data
                if len(data) == one.stop - one.start:
                    cache.put(file, _part(number), data)
        return [_cut(one, blocks) for one in wanted]

    return read


def _part(number: int) -> str:
    return f"block {number} of {_BLOCK_BYTES}"


def _blocks(one: ByteRange) -> range:
    return range(one.start // _BLOCK_BYTES, (one.stop - 1) // _BLOCK_BYTES + 1)


def _cut(one: ByteRange, blocks: dict[int, memoryview]) -> memoryview:
    """The bytes of a range."""
    starts = [(number, number * _BLOCK_BYTES) for number in _blocks(one)]
    parts = [blocks[number][max(0, one.start - start) : one.stop - start] for number, start in starts]
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
