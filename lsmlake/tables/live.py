"""The live files of a snapshot: the fold of its manifests, of all files or of a selection; and the cache of a table handle, which
holds them beside decoded immutable files and the newest snapshot seen.

The live set of the newest snapshot stays in memory. Entries of later commits are kept beside it and folded in once they are many,
because a fold costs O(files). A selection is pruned before it is folded (`format.manifest` says why that is sound).

A fold takes the entries of all manifests in commit order: the last entry of a file name decides. Manifests are merged, and their
entries sorted, without a change of the live set.

Every key of the cache contains the uuid of a file or of the table. Threads share a cache; processes do not, since it pickles
empty.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format import manifest
from lsmlake.format.deletion_vector import VectorChanges, VectorIndex
from lsmlake.format.manifest import ADD, DELETE, ManifestMeta, concat
from lsmlake.schema.schema import Schema

_LATER_MIN, _LATER_SHARE = 1 << 10, 8  # entries that stay unfolded: this many, or one for every eight files
_CHUNKS_MAX = 64
_ITEM_BYTES = 512  # estimate for an entry of a mapping or a list, with its names


class Selection(NamedTuple):
    """The files that a caller needs, chosen by partition, bucket and key only. The flag False means: certainly not needed.

    `manifests`: given manifests with typed bounds and the path of their list, flags the manifests to open. `entries`: flags
    entries.
    """

    manifests: Callable[[Sequence[ManifestMeta], str], np.ndarray]
    entries: Callable[[pa.Table], np.ndarray]

    def of(self, table: pa.Table) -> pa.Table:
        """The entries that are needed, in order."""
        kept = self.entries(table) if table.num_rows else np.ones(0, bool)
        return table if kept.all() else table.filter(pa.array(kept))


class Live(NamedTuple):
    """The live files of snapshot `number` under a schema with `types_by_id`: `files`, then the entries `later` in commit order.

    `metas`: the manifests of the snapshot.
    """

    number: int
    types_by_id: Hashable
    metas: tuple[ManifestMeta, ...]
    files: pa.Table
    later: pa.Table | None = None

    def all(self, schema: Schema) -> Live:
        """The same live files, with all entries folded."""
        if self.later is None:
            return self
        return self._replace(files=fold([self.files, self.later], schema), later=None)

    def select(self, selection: Selection, schema: Schema) -> pa.Table:
        """The files of a selection."""
        entries = selection.of(self.files)
        return entries if self.later is None else fold([entries, selection.of(self.later)], schema)

    def after(self, number: int, metas: tuple[ManifestMeta, ...], added: Sequence[pa.Table], schema: Schema) -> Live:
        """The live files of a newer snapshot, which added some entries."""
        tables = [table for table in (self.later, *added) if table is not None and table.num_rows]
        later = manifest.concat(tables, schema) if tables else None
        if later is not None and len(later["name"].chunks) > _CHUNKS_MAX:
            later = later.combine_chunks()
        following = Live(number, self.types_by_id, metas, self.files, later)
        most = max(_LATER_MIN, self.files.num_rows // _LATER_SHARE)
        return following if later is None or later.num_rows <= most else following.all(schema)


def inherit(table: pa.Table, sequence: int) -> pa.Table:
    """Fills empty sequences with the sequence of the snapshot that added the manifest."""
    for name in ("sequence", "min_sequence"):
        column = table[name]
        if column.null_count:
            table = table.set_column(table.schema.get_field_index(name), name, pc.fill_null(column, sequence))
    return table


def _first_and_last(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each file name the row of its first and of its last entry."""
    names = table["name"].combine_chunks().dictionary_encode()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    codes = names.indices.to_numpy()
    first, last = np.empty(len(names.dictionary), np.int64), np.empty(len(names.dictionary), np.int64)
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]
    last[codes] = rows
    return first, last


def fold(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """Returns the live set: the ADD entries of live files, in the order they were added. `tables` are in commit order."""
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    last = np.sort(_first_and_last(table)[1])
    live = last[table["kind"].to_numpy()[last] == ADD]
    return table if len(live) == table.num_rows else table.take(live)


def merge(tables: Iterable[pa.Table], schema: Schema, *, whole: bool = False) -> pa.Table:
    """Merges consecutive manifests so that they fold as before, each with the same change of the number of live files.

    Keeps the last entry of each file, and its first entry if this is the DELETE of a file that was added again. Drops files that
    were added and deleted within the manifests. `whole`: there is no older manifest, so only ADDs of live files are kept.
    """
    if whole:
        return fold(tables, schema)
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    first, last = _first_and_last(table)
    kinds = table["kind"].to_numpy()
    replaced = first[(kinds[first] == DELETE) & (kinds[last] == ADD)]
    kept = last[~((kinds[first] == ADD) & (kinds[last] == DELETE))]
    return table.take(np.sort(np.concatenate([replaced, kept])))


def clustered(table: pa.Table, schema: Schema) -> pa.Table:
    """Sorts entries by partition, bucket and first key, so that parts of them have narrow bounds. Entries of one file keep their
    order."""
    partition = (f"p:{field.number}" for field in schema.all_partition_columns)
    names = ["spec", *partition, "bucket", *(["kmin:0"] if schema.key else [])]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


# -- the cache ---------------------------------------------------------------------------------------------------------


class StoredSnapshot(NamedTuple):
    """A snapshot file: its number and its bytes."""

    number: int
    data: bytes


class Index(NamedTuple):
    """The vector index of a snapshot: its name, the changes in each of its parts (by name of the part), and the vectors."""

    name: str
    layers: Mapping[str, VectorChanges]
    vectors: VectorIndex


class Contention(NamedTuple):
    """What a handle knows of other writers (`write.contended`): the commits `left` without inline compaction, its `last`
    snapshot, and the `runs` at level 0 that start a compaction apart. After one that was lost these are more, so that writers do
    not compact side by side."""

    left: int
    last: int
    runs: int


def _bytes_of(value: object) -> int:
    if isinstance(value, pa.Table):
        return value.nbytes  # of a slice its own rows
    if isinstance(value, (Mapping, Collection)):
        return _ITEM_BYTES * (1 + len(value))
    return 8 * _ITEM_BYTES  # a schema or a snapshot


class Cache:
    """Holds at most `limit_bytes` of decoded values and evicts the least recently used first.

    `latest`: the newest snapshot seen, where the search for newer ones starts, and `latest_state`: the state of its file
    (`Storage.states`), None if unknown; before there is one, it starts at number `hint`.
    `newest`: the live files of that snapshot, and `index`: the vectors of the snapshot last asked for; the limit does not count
    these two. `contention`: None if inline compactions are not lost to other writers. `parent`: a cache to look into first, in
    which nothing is stored.
    """

    def __init__(self, limit_bytes: int, parent: Cache | None = None) -> None:
        self.limit_bytes, self.parent = limit_bytes, parent
        self.latest: StoredSnapshot | None = None
        self.latest_state: Hashable | None = None
        self.hint: int | None = None
        self.newest: Live | None = None
        self.contention: Contention | None = None
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
            if (found := self._values.get(key)) is not None:
                self._values.move_to_end(key)
                return found[0]
        return None if self.parent is None else self.parent.known(key)

    def put(
        self,
        key: Hashable,
        value: object,
        bytes_of: Callable[[object], int] = _bytes_of,
        limit_bytes: int | None = None,
    ) -> None:
        """Holds a value. `limit_bytes`: instead of the limit of the cache."""
        limit = self.limit_bytes if limit_bytes is None else limit_bytes
        size = bytes_of(value) + sum(map(sys.getsizeof, key if isinstance(key, tuple) else (key,)))
        with self._lock:
            self._bytes -= self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > limit and self._values:
                _, (_, freed) = self._values.popitem(last=False)
                self._bytes -= freed

    @property
    def bytes(self) -> int:
        """Estimated memory in use, including the newest live files."""
        newest = () if self.newest is None else (self.newest.files, self.newest.later)
        return self._bytes + sum(_bytes_of(table) for table in newest if table is not None)

    def __reduce__(self):
        return Cache, (self.limit_bytes,)
