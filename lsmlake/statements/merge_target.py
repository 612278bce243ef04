"""The target of a MERGE: its candidate rows with their places, and other columns of rows by their places.

A place is the number of a file and a position in it. Rows that come of a merge at read, which are those of level 0 and, without
deletion vectors, of overlapping files, have the number `MERGED` and a number of their own; they are read again by key.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import Bucket, DataFile, VectorRef
from lsmlake.predicate import evaluate
from lsmlake.read.plan import Plan, Split
from lsmlake.read.positions import Matched
from lsmlake.read.scan import Fresh, filtered, freshen, groups_to_read, merge_at_read
from lsmlake.statements.merge_join import FILE, POSITION
from lsmlake.statements.statement import TARGET
from lsmlake.storage.concurrency import Once, ahead

MERGED = -1


class _TargetFile(NamedTuple):
    """A file of the target."""

    bucket: Bucket
    file: DataFile
    ref: VectorRef | None


class _CandidateRows(NamedTuple):
    """Candidate rows. `positions`: in the file with this number; None: the rows come of a merge."""

    number: int
    positions: np.ndarray | None
    rows: pa.Table


class MergeTarget:
    """The candidate rows of a plan: those that satisfy its predicate. `names`: the columns that the join reads."""

    def __init__(self, planned: Plan, names: Sequence[str]) -> None:
        self.plan, self.names = planned, list(names)
        filtered_by = planned.predicate.columns if planned.predicate else frozenset()
        self._needed = [*self.names, *sorted(filtered_by - {*self.names})]
        self._fields = pa.schema([planned.schema.plain_columns.field(name) for name in self.names])
        self._stored: list[_TargetFile] = []
        self._dead: dict[int, DeletionVector] = {}

    def rows(self) -> Iterator[pa.Table]:
        """Yields the rows, with `names` renamed, and their places. Reads several files at a time."""
        merged = 0
        for number, positions, rows in ahead(self._parts(), self.plan.version.meta.env.workers):
            if positions is None:
                positions = np.arange(merged, merged := merged + rows.num_rows)
            if len(positions):
                yield placed(rows, np.full(len(positions), number, np.int64), positions)

    def matched(self, number: int, positions: np.ndarray) -> Matched:
        """Rows of a file. `positions`: ascending."""
        return Matched(*self._stored[number], self._dead[number], positions)

    def fetch(self, number: int, positions: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Columns of rows of a file, in the order of their positions."""
        bucket, file, _ = self._stored[number]
        return pa.concat_tables(BucketFiles.of(self.plan.version, bucket).fetch(file, positions, columns))

    def _parts(self) -> Iterator[Generator[_CandidateRows]]:
        for split in self.plan.splits:
            files = BucketFiles.of(self.plan.version, split.bucket)
            if split.merged:
                yield self._of_section(files, split)
                continue
            fresh = Once(partial(freshen, files, self.plan, split, self._needed))
            for file in split.files:
                self._stored.append(_TargetFile(split.bucket, file, split.vectors.get(file.name)))
                yield self._of_file(len(self._stored) - 1, files, file, fresh)
            if split.level0:
                yield self._of_level0(fresh)

    def _of_file(self, number: int, files: BucketFiles, file: DataFile, fresh: Once[Fresh]) -> Generator[_CandidateRows]:
        predicate, dead = self.plan.predicate, fresh().dead[file.name]
        self._dead[number] = dead
        with files.open(file) as reader:
            for chunk in reader.chunks(self._needed, groups_to_read(reader, self.plan, dead, self._needed)):
                live = ~dead.dead_mask(chunk.start, chunk.table.num_rows)
                if predicate is not None:
                    live &= np.asarray(evaluate(predicate, chunk.table))
                found = np.flatnonzero(live)
                rows = chunk.table.select(self.names).cast(self._fields)
                yield _CandidateRows(number, chunk.start + found, rows if live.all() else rows.take(pa.array(found)))

    def _of_level0(self, fresh: Once[Fresh]) -> Generator[_CandidateRows]:
        yield self._merged(fresh().rows)

    def _of_section(self, files: BucketFiles, split: Split) -> Generator[_CandidateRows]:
        for table in merge_at_read(files, self.plan, split, self._needed):
            yield self._merged(table)

    def _merged(self, rows: pa.Table) -> _CandidateRows:
        return _CandidateRows(MERGED, None, filtered(rows, self.plan).select(self.names).cast(self._fields))


def placed(rows: pa.Table, files: np.ndarray, positions: np.ndarray) -> pa.Table:
    """Rows of the target as the join takes them."""
    columns = {TARGET + name: rows[name] for name in rows.column_names}
    return pa.table({**columns, FILE: pa.array(files), POSITION: pa.array(positions)})


def by_file(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields (file number, its rows) of rows in the order of their places."""
    numbers = table[FILE].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        yield int(numbers[first]), table.slice(first, last - first)
