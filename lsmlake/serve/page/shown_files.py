"""The live files of a table at one snapshot as columns, from which the views of files and of trees are summed.

They are read from the manifests as Arrow columns, so ten thousand files cost a few milliseconds, and are kept by snapshot: a
snapshot never changes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lsmlake.api.table import Table
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.format import manifest
from lsmlake.read.travel import Moment, resolve
from lsmlake.schema.values import value_text
from lsmlake.tables.version import Version

Value = TypeVar("Value")
_STATISTIC = re.compile(r"(n|lo|hi):|index$")
_KEY_SHOWN = 80
_FILES_KEPT, _FILES_LEAST = 300_000, 1_000
"""Files of all snapshots that are kept, and how many a snapshot counts at least."""


@dataclass
class LastUsed:
    """The values used last, by a key that means the same value forever. Threads can share it.

    Attributes:
        most: the sum of the weights that are kept.
        weigh: the weight of a value.
    """

    most: int
    weigh: Callable[[Any], int] = lambda value: 1
    _values: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _weight: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of `key`, made if it is not there. An error is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            if key not in self._values:
                self._weight += self.weigh(value)
            self._values[key] = value
            while self._weight > self.most and len(self._values) > 1:
                self._weight -= self.weigh(self._values.popitem(last=False)[1])
        return value


@dataclass(frozen=True)
class ShownFiles:
    """The live files of a version.

    Attributes:
        partitions: the partitions as text, the largest first; None: the table has none.
        partition: for each file, the place of its partition in `partitions`.
        names, buckets, totals, levels, rows, bytes, dead, created_ms, sequences: a value for each file. `totals`: of the bucket.
            `dead`: rows that the vector of the file marks. `sequences`: the snapshot that brought its newest rows.
    """

    version: Version
    entries: pa.Table = field(repr=False)
    partitions: tuple[str | None, ...]
    partition: np.ndarray
    names: list[str] = field(repr=False)
    dead: np.ndarray

    @staticmethod
    def of(version: Version) -> ShownFiles:
        """Reads the manifests of the version."""
        if version.snapshot is None:
            entries = manifest.entries_schema(version.schema).empty_table()
        else:
            with version.unless_expired():
                entries = version.live()
        refs = version.vector_refs()
        entries = entries.select([name for name in entries.column_names if not _STATISTIC.match(name)]).combine_chunks()
        names: list[str] = entries["name"].to_pylist()
        dead = np.fromiter((refs[name].cardinality if name in refs else 0 for name in names), np.int64, len(names))
        codes = manifest.partition_codes(entries, version.schema)
        sums = np.bincount(codes, entries["bytes"].to_numpy().astype(np.float64), 0) if len(codes) else np.zeros(0)
        first = np.zeros(len(sums), np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        keys = manifest.partitions_of(entries.take(pa.array(first)), version.schema)
        texts = [version.schema.partition_text(spec, values) for spec, values in keys]
        order = sorted(range(len(texts)), key=lambda code: (-sums[code], texts[code] or ""))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return ShownFiles(version, entries, tuple(texts[code] for code in order), place[codes], names, dead)

    def _column(self, name: str) -> np.ndarray:
        return self.entries[name].to_numpy()

    @cached_property
    def buckets(self) -> np.ndarray:
        return self._column("bucket")

    @cached_property
    def totals(self) -> np.ndarray:
        return self._column("total_buckets")

    @cached_property
    def levels(self) -> np.ndarray:
        return self._column("level")

    @cached_property
    def rows(self) -> np.ndarray:
        return self._column("rows")

    @cached_property
    def bytes(self) -> np.ndarray:
        return self._column("bytes")

    @cached_property
    def waits(self) -> np.ndarray:
        """Flags the files whose rows a fresh read must merge: those at level 0, unless the table is append-only."""
        return (self.levels == 0) & (not self.version.schema.append_only)

    @cached_property
    def sequences(self) -> np.ndarray:
        return self._column("sequence")

    def place_of(self, partition: str | None) -> int:
        """The place of a partition; None: the largest. Raises InvalidQuery if it has no files."""
        if partition is None:
            return 0
        try:
            return self.partitions.index(partition)
        except ValueError:
            cure = "choose another partition, or another snapshot"
            raise InvalidQuery("the partition has no files at this snapshot", found=repr(partition), cure=cure) from None

    def of_partition(self, place: int) -> np.ndarray:
        """The rows of the files of a partition."""
        return np.flatnonzero(self.partition == place)


@dataclass
class KnownFiles:
    """The files of tables at snapshots."""

    _kept: LastUsed = field(default_factory=lambda: LastUsed(_FILES_KEPT, lambda files: _FILES_LEAST + len(files.names)))

    def at(self, table: Table, snapshot: int | None) -> ShownFiles:
        """The files of a table at a snapshot; None: the newest. Raises SnapshotNotFound."""
        version = Version.at(table.meta, resolve(table.meta, Moment(snapshot), "UTC"))
        return self._kept.get(identity(version), lambda: ShownFiles.of(version))

    def before(self, files: ShownFiles) -> ShownFiles | None:
        """The files one snapshot earlier; None if it is not retained or cannot be read."""
        meta, number = files.version.meta, files.version.number
        if number < 2:
            return None
        try:
            version = Version.at(meta, meta.snapshots.get(number - 1))
            return self._kept.get(identity(version), lambda: ShownFiles.of(version))
        except LakeError:
            return None


def identity(version: Version) -> Hashable:
    """Differs for all versions of all tables, and never changes."""
    snapshot, paths = version.snapshot, version.meta.paths
    named = None if snapshot is None else (snapshot.delta_manifest_list.name, snapshot.time_ms)
    return paths.line, paths.root, version.number, version.schema.id, named


def short_key(key: tuple) -> str:
    """A key as text, cut if it is long."""
    text = ", ".join("NULL" if value is None else value_text(value) for value in key)
    return text if len(text) <= _KEY_SHOWN else text[: _KEY_SHOWN - 1] + "…"
