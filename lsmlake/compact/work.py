"""A bucket while it is being compacted: its files and vectors as they would be now. The one mutable thing of a compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import Bucket, BucketState, DataFile
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.store.data_reader import DataReader
from lsmlake.store.metadata import Metadata


@dataclass
class Work:
    """`files` and `vectors` change, `base` does not. `waiting`: files just written, at level 0, not in `base`; `own`: of their
    rows, by name, so they need not be read again, the columns of `own_columns` and maybe `_row_kind`."""

    meta: Metadata
    schema: Schema
    rule: MergeRule
    base: BucketState
    waiting: tuple[DataFile, ...]
    own: Mapping[str, pa.Table]
    pool: Executor
    files: dict[str, DataFile] = field(default_factory=dict)
    vectors: dict[str, DeletionVector] = field(default_factory=dict)  # changed or read so far
    changed: set[str] = field(default_factory=set)
    written: list[DataFile] = field(default_factory=list)
    remade: bool = False  # every row may be another

    @property
    def bucket(self) -> Bucket:
        return self.base.bucket

    def levels(self) -> Levels:
        known = {name: ref.cardinality for name, ref in self.base.vectors.items()}
        return Levels.of(self.files.values(), known | {name: len(vector) for name, vector in self.vectors.items()})

    def vector(self, name: str) -> DeletionVector:
        """As it stands now, the marks made so far included."""
        if name not in self.vectors:
            self.vectors[name] = self.base_vector(name)
        return self.vectors[name]

    def base_vector(self, name: str) -> DeletionVector:
        """As it was before anything was marked. Reads it."""
        files = [file for file in self.base.files if file.name == name]
        return self.meta.vectors(self.base.vectors, files).get(name, EMPTY)

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

    def reader(self, file: DataFile) -> DataReader:
        return DataReader(self.meta.env, self.meta.paths.data(file), file, self.schema)

    def rows(self, file: DataFile, columns: Iterable[str]) -> pa.Table:
        """All rows of a level-0 file, dead ones included; of the columns in `own_columns` and `_row_kind`."""
        if file.name in self.own:
            return self.own[file.name].select(list(columns))
        with self.reader(file) as reader:
            return reader.read(range(reader.groups), list(columns))


def own_columns(schema: Schema) -> tuple[str, ...]:
    """What a compaction asks of level-0 rows before it merges any: the key and the sequence."""
    wanted = {*schema.key, *rule_of(schema).sequence.columns}
    return tuple(name for name in schema.columns.names if name in wanted)


def kinds(work: Work, file: DataFile) -> np.ndarray:
    """The row kinds of a level-0 file that has them."""
    return np.asarray(work.rows(file, [ROW_KIND])[ROW_KIND])
