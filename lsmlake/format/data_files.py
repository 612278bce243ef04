"""The values of a table: data files, buckets, and the edits of a commit.

All are frozen; a modification is a value (`BucketEdit`) that `commit` publishes. Keys, statistics and partitions hold plain
Python values of the column's type (int, str, Decimal, date, ...), `None` for a null partition.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

APPEND, COMPACT, IMPORT, DELETES = "APPEND", "COMPACT", "IMPORT", "DELETES"
SOURCES = APPEND, COMPACT, IMPORT, DELETES
"""The origin of a data file: a writer, a compaction, or another system. DELETES: a compaction wrote the file, and it holds only
retained deletes (`files.retained`)."""


class Bucket(NamedTuple):
    """One LSM tree: a partition (the values of the fields of a partition spec) and a bucket number in it."""

    partition: tuple
    number: int
    spec: int = 0

    @property
    def partition_key(self) -> tuple[int, tuple]:
        """Identifies the partition among the partitions of all specs."""
        return self.spec, self.partition


class ColumnStats(NamedTuple):
    """Statistics of one column in one file. `min` and `max` are inclusive bounds, not always tight; None = unknown (only nulls, a
    NaN, or a type that is not sortable). `nulls` is exact."""

    nulls: int
    min: object
    max: object


class DataFile(NamedTuple):
    """A Parquet file, sorted by the key unless another system wrote it. `min_key` and `max_key` are its least and greatest key,
    exact, in key-column order.

    `name` is unique in the table. `directory` is relative to the table's root; the writer chose it, and readers never compute it
    from partition values or options. `sequence` is the snapshot that added its newest rows, `min_sequence` the one that added its
    oldest rows; None: inherited from the commit that adds the file. `delete_rows` counts the rows whose kind is not +I.
    `checksum`: CRC-32 of the file. `footer_bytes`, `footer_checksum`: length and CRC-32 of its Parquet footer, including the last
    eight bytes of the file. None = unknown. `index`: its index (`format.file_index`), if it is small; a larger index is a file
    beside the data file, of `index_bytes` bytes. `number`: of the file in the addresses that its rows have in the column
    `_lsmlake_row_address`, below 2^31; None: it has no such column.
    """

    name: str
    directory: str
    bytes: int
    rows: int
    delete_rows: int
    min_key: tuple
    max_key: tuple
    level: int
    schema_id: int
    source: str
    created_ms: int
    sequence: int | None = None
    min_sequence: int | None = None
    stats: Mapping[int, ColumnStats] = {}
    checksum: int | None = None
    footer_bytes: int | None = None
    footer_checksum: int | None = None
    index: bytes | None = None
    index_bytes: int | None = None
    number: int | None = None

    @property
    def sorted(self) -> bool:
        """Whether the rows are in the order of their keys."""
        return self.source != IMPORT

    def at_level(self, level: int) -> DataFile:
        return self._replace(level=level)


def number_of(name: str) -> int:
    """The number of a new file with this name. Few files of a table share one."""
    return zlib.crc32(name.encode()) & ((1 << 31) - 1)


class VectorRef(NamedTuple):
    """The location of a deletion vector: blob [offset, offset + length) of Puffin file `puffin`; `cardinality` deleted rows."""

    puffin: str
    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True)
class BucketState:
    """A bucket at a snapshot: its live files, their deletion vectors by file name, and its files of retained deletes."""

    bucket: Bucket
    total_buckets: int
    files: tuple[DataFile, ...] = ()
    vectors: Mapping[str, VectorRef] = field(default_factory=dict)
    retained: tuple[DataFile, ...] = ()

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        return *self.files, *self.retained

    @property
    def dead(self) -> dict[str, int]:
        """The number of dead rows of each file that has some."""
        return {name: ref.cardinality for name, ref in self.vectors.items()}


@dataclass(frozen=True)
class BucketEdit:
    """The edit of one bucket: files added, files removed, vectors replaced. `added` and `removed` name files of retained deletes,
    too.

    A file in both `removed` and `added` (same name) is an upgrade: only its level changes. `vectors`: the new vectors, by the
    names of files that are live after the edit. `base`: the state that a compaction started from and that must still hold; None
    for an append, which never conflicts. `only_files`: `base` holds the files that the edit depends on, and other files of the
    bucket may come and go. `changelog`: files with the row changes of this commit.
    """

    bucket: Bucket
    total_buckets: int
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    vectors: Mapping[str, VectorRef] = field(default_factory=dict)
    base: BucketState | None = None
    changelog: tuple[DataFile, ...] = ()
    only_files: bool = False

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.vectors or self.changelog)


@dataclass(frozen=True)
class CommitMessage:
    """The files that one task wrote to one bucket; the driver commits the message.

    `append`: the new level-0 run, always valid. `compact`: an edit with the same rows compacted, used instead of `append` if
    `compact.base` is still the state of the bucket. A pure compaction has no `append`. `rows`: the user's rows after rows of
    equal keys were combined. `written`: all paths that the task wrote; the commit removes the files that it does not use.
    `compact_ms`: how long an inline compaction took.
    """

    bucket: Bucket
    append: BucketEdit | None = None
    compact: BucketEdit | None = None
    rows: int = 0
    written: tuple[str, ...] = ()
    compact_ms: int = 0
