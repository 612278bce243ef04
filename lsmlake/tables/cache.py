"""The cache of a table handle: decoded immutable files, and the newest snapshot seen.

Every key contains the uuid of a file or of the table. Threads share a cache; processes do not, since it pickles empty.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from lsmlake.format.deletion_vector import VectorChanges, VectorIndex
from lsmlake.tables.live import Live

_ITEM_BYTES = 512  # estimate for an entry of a mapping or a list, with its names


class StoredSnapshot(NamedTuple):
    """A snapshot file: its number and its bytes."""

    number: int
    data: bytes


class Index(NamedTuple):
    """The vector index of a snapshot: its name, the changes in each of its parts by name, and the vectors."""

    name: str
    layers: Mapping[str, VectorChanges]
    vectors: VectorIndex


def _bytes_of(value: object) -> int:
    if isinstance(value, pa.Table):
        return value.nbytes  # of a slice its own rows
    if isinstance(value, (Mapping, Collection)):
        return _ITEM_BYTES * (1 + len(value))
    return 8 * _ITEM_BYTES  # a schema or a snapshot


class Cache:
    """Holds at most `limit_bytes` of decoded values and evicts the least recently used first.

    `latest`: the newest snapshot seen; the search for newer ones starts there, before that at number `hint`. `newest`: its live
    files, and `index`: the vectors of the snapshot last asked for, both outside the limit. `parent`: a cache to look into first,
    which gets nothing.
    """

    def __init__(self, limit_bytes: int, parent: Cache | None = None) -> None:
        self.limit_bytes, self.parent = limit_bytes, parent
        self.latest: StoredSnapshot | None = None
        self.hint: int | None = None
        self.newest: Live | None = None
        self.index: Index | None = None if parent is None else parent.index
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], object], bytes_of: Callable[[object], int] = _bytes_of) -> object:
        """The value of `key`, created by `make` if absent. `bytes_of`: estimates the memory of a value."""
        if (known := self.known(key)) is not None:
            return known
        value = make()
        self.put(key, value, bytes_of)
        return value

    def known(self, key: Hashable) -> object | None:
        """The value of `key`; None if it is absent."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        return None if self.parent is None else self.parent.known(key)

    def put(self, key: Hashable, value: object, bytes_of: Callable[[object], int] = _bytes_of) -> None:
        size = bytes_of(value) + sum(map(sys.getsizeof, key if isinstance(key, tuple) else (key,)))
        with self._lock:
            self._bytes -= self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self.limit_bytes and self._values:
                _, (_, freed) = self._values.popitem(last=False)
                self._bytes -= freed

    @property
    def bytes(self) -> int:
        """Estimated memory in use, including the newest live files."""
        newest = () if self.newest is None else (self.newest.files, self.newest.later)
        return self._bytes + sum(_bytes_of(table) for table in newest if table is not None)

    def __reduce__(self):
        return Cache, (self.limit_bytes,)
