"""The mutable state of a compaction: the files and vectors of the bucket after the steps so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.spill import in_key_order
from lsmlake.format.data_files import Bucket, BucketState, DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.options.changelog_options import LOOKUP
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.tables.version import Metadata


@dataclass
class CompactionState:
    """The files and vectors of the bucket so far: `files`, `vectors` and `retained` change, `base` does not. `uncommitted`:
    level-0 files that are not in `base`; `cached_rows`: rows of these files by file name, so that they are not read again, with
    the columns `lookup_columns` or `columns_kept`, and maybe `_row_kind`."""

    bucket_files: BucketFiles
    rule: MergeRule
    base: BucketState
    uncommitted: tuple[DataFile, ...]
    cached_rows: Mapping[str, pa.Table]
    pool: Threads
    files: dict[str, DataFile] = field(default_factory=dict)
    vectors: dict[str, DeletionVector] = field(default_factory=dict)  # changed or read so far
    changed: set[str] = field(default_factory=set)
    written: list[DataFile] = field(default_factory=list)
    retained: tuple[DataFile, ...] = ()  # the files of retained deletes, oldest first
    rows_changed: bool = False  # a new merge rule may have changed any row

    @property
    def meta(self) -> Metadata:
        return self.bucket_files.meta

    @property
    def schema(self) -> Schema:
        return self.bucket_files.schema

    @property
    def bucket(self) -> Bucket:
        return self.base.bucket

    def levels(self) -> Levels:
        known = self.base.dead
        return Levels.of(self.files.values(), known | {name: len(vector) for name, vector in self.vectors.items()})

    def vector(self, name: str) -> DeletionVector:
        """Returns the current vector of a file, including the marks of this compaction."""
        if name not in self.vectors:
            self.vectors[name] = self.base_vector(name)
        return self.vectors[name]

    def load_vectors(self, names: Collection[str]) -> None:
        """Reads the vectors of the files together. Call this before rows of these files are marked."""
        missing = [file for file in self.base.files if file.name in names and file.name not in self.vectors]
        self.vectors.update(self.meta.vectors.read(self.base.vectors, missing))

    def base_vector(self, name: str) -> DeletionVector:
        """Reads the vector of a file in `base`."""
        files = [file for file in self.base.files if file.name == name]
        return self.meta.vectors.read(self.base.vectors, files).get(name, EMPTY)

    def mark(self, name: str, positions: np.ndarray) -> None:
        current = self.vector(name)
        vector = current | DeletionVector.of(positions)
        if len(vector) > len(current):
            self.vectors[name] = vector
            self.changed.add(name)

    def remove(self, name: str) -> None:
        del self.files[name]
        self.vectors.pop(name, None)
        self.changed.discard(name)

    def in_key_order(self, run: Sequence[DataFile], tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yields the rows of a run in key order. `tables`: the rows in the order of the files of the run."""
        if run[0].sorted:
            return tables
        buffer_bytes = self.schema.parsed_options.write.buffer_bytes
        return in_key_order(tables, self.schema.key, buffer_bytes, self.meta.env.limits.window_bytes)

    def rows(self, file: DataFile, columns: Iterable[str]) -> pa.Table:
        """Returns all rows of a level-0 file, including deleted ones. `columns`: some of `lookup_columns` and `_row_kind`."""
        if file.name in self.cached_rows:
            return self.cached_rows[file.name].select(list(columns))
        with self.bucket_files.open(file) as reader:
            return reader.read(range(reader.groups), list(columns))

    def fetch(self, file: DataFile, positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
        """As `BucketFiles.fetch`; rows that are in memory are not read again. A file that stays in the bucket is likely to be
        read by the next compactions."""
        cached, stored = self.cached_rows.get(file.name), self.schema.row_columns
        if cached is None or not {*columns} <= {*stored.names} & {*cached.column_names}:
            most = self.schema.parsed_options.changelog.lookup_bytes if file.name in self.files else 0
            yield from self.bucket_files.fetch_again(file, positions, columns, most)
            return
        rows = cached.select(list(columns))
        yield rows.take(pa.array(positions)).cast(pa.schema([stored.field(name) for name in columns]))


def columns_kept(schema: Schema, in_memory: bool) -> tuple[str, ...]:
    """Returns the columns of the rows that a writer keeps for the compaction that follows: all for a changelog, if they are in
    memory as they would be read, else those of the lookup."""
    whole = in_memory and schema.parsed_options.changelog.producer == LOOKUP
    if whole and not any(pa.types.is_nested(kind) for kind in schema.columns.types):
        return tuple(schema.columns.names)
    return lookup_columns(schema)


def lookup_columns(schema: Schema) -> tuple[str, ...]:
    """Returns the columns of level-0 rows that a compaction reads before it merges rows: the key and the sequence."""
    wanted = {*schema.key, *rule_of(schema).sequence.columns}
    return tuple(name for name in schema.columns.names if name in wanted)


def kinds(work: CompactionState, file: DataFile) -> np.ndarray:
    """Returns the row kinds of a level-0 file that has a `_row_kind` column."""
    return np.asarray(work.rows(file, [ROW_KIND])[ROW_KIND])
