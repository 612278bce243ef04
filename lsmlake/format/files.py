"""The values a table is made of: data files, where they stand, and what a commit does to them.

All are frozen; a change of the table is a value (`BucketEdit`) that somebody else publishes. Keys and statistics hold plain
Python values of the column's type (int, str, Decimal, date, ...), partitions likewise, `None` for a null partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

APPEND, COMPACT = "APPEND", "COMPACT"


class Bucket(NamedTuple):
    """One LSM tree: a partition (values in the order of `partition_by`) and a bucket number in it."""

    partition: tuple
    number: int


class ColumnStats(NamedTuple):
    """Bounds of one column in one file. `min`/`max` are inclusive, sound but maybe not tight; `None` = unknown
    (no value but nulls, a NaN among the values, or a type without order). `nulls` is exact."""

    nulls: int
    min: object
    max: object


@dataclass(frozen=True)
class DataFile:
    """A sorted Parquet file. `min_key`, `max_key`: first and last key, inclusive, exact, in key-column order.

    `name` is unique in the table. `directory`: where the file lies, relative to the table's root; its writer chose it, and
    readers never build it from partition values or options. `sequence` is the snapshot that brought its newest rows, `None` while
    it inherits it from the commit that adds the file; `min_sequence` that of its oldest rows. `delete_rows` counts the rows of
    another kind than +I. `checksum`: CRC-32 of the file. `footer_bytes`, `footer_checksum`: length and CRC-32 of its Parquet
    footer, with the eight bytes that end the file. `None` = not known.
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
    stats: Mapping[int, ColumnStats] = field(default_factory=dict)
    checksum: int | None = None
    footer_bytes: int | None = None
    footer_checksum: int | None = None

    def at_level(self, level: int) -> DataFile:
        return replace(self, level=level)

    def inheriting(self, sequence: int) -> DataFile:
        """The file as seen after snapshot `sequence` added it."""
        if self.sequence is not None and self.min_sequence is not None:
            return self
        return replace(
            self,
            sequence=sequence if self.sequence is None else self.sequence,
            min_sequence=sequence if self.min_sequence is None else self.min_sequence,
        )


class VectorRef(NamedTuple):
    """Where a deletion vector lies: blob `[offset, offset + length)` of Puffin file `puffin`; `cardinality` dead rows."""

    puffin: str
    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True)
class BucketState:
    """A bucket at a snapshot: live files, and the vector of each file that has one (by file name)."""

    bucket: Bucket
    total_buckets: int
    files: tuple[DataFile, ...] = ()
    vectors: Mapping[str, VectorRef] = field(default_factory=dict)


@dataclass(frozen=True)
class BucketEdit:
    """What happens to one bucket: files removed, files added, vectors that replace the ones standing.

    A file in both `removed` and `added` (same name) is an upgrade: only its level changes. `vectors` names files that are live
    after the change. `base` is the state the change was computed from when it must still hold (a compaction); `None` for an
    append, which never conflicts. `changelog`: files that tell what the change does to rows; they are of this commit only.
    """

    bucket: Bucket
    total_buckets: int
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    vectors: Mapping[str, VectorRef] = field(default_factory=dict)
    base: BucketState | None = None
    changelog: tuple[DataFile, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.vectors or self.changelog)


@dataclass(frozen=True)
class CommitMessage:
    """What one task wrote to one bucket, to be committed by the driver.

    `append`: the new level-0 run, always valid. `compact`: the same rows already moved up or merged, valid only while
    `compact.base`
    stands; then it is used *instead of* `append`. A pure compaction has no `append`. `rows`: the user's rows, repeats of
    a key folded. `written`: every path the task wrote; what the commit does not use of them is removed after it.
    """

    bucket: Bucket
    append: BucketEdit | None = None
    compact: BucketEdit | None = None
    rows: int = 0
    written: tuple[str, ...] = ()
