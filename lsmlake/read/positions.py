"""Reads the rows of a plan with their places, for statements that mark or restate them there.

A place is the number of a file and a position in it. Rows that are merged at read (rows of level 0 and, without deletion vectors,
of overlapping files) have the file number `MERGED` and a number of their own; they are read again by key.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import Bucket, DataFile, VectorRef
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.predicate import evaluate_live
from lsmlake.read.arrow_scan import Fresh, filtered, finished, freshen, groups_to_read, merge_at_read
from lsmlake.read.partition_match import is_of_partitions, partition_matches
from lsmlake.read.plan import Plan, Projection, Split
from lsmlake.schema.schema import RESERVED
from lsmlake.storage.concurrency import Once, ahead, together
from lsmlake.tables.version import Metadata, Version

FILE, POSITION = PLACE = f"{RESERVED}file", f"{RESERVED}position"
"""The columns for the place of a row: the number of its file, and its position there."""
MERGED = -1


class PlannedFile(NamedTuple):
    """A file of a plan. `ref`: its vector in the version that is read."""

    bucket: Bucket
    file: DataFile
    ref: VectorRef | None

    def vector(self, meta: Metadata) -> DeletionVector:
        return EMPTY if self.ref is None else meta.vectors.get(self.ref, self.file)


class Matched(NamedTuple):
    """Rows of a file. `positions`: int64, ascending; None: all live rows, which were not read. `ref` and `vector`: the dead rows
    of the file when it was read."""

    bucket: Bucket
    file: DataFile
    ref: VectorRef | None
    vector: DeletionVector
    positions: np.ndarray | None

    @property
    def rows(self) -> int:
        return self.file.rows - len(self.vector) if self.positions is None else len(self.positions)


class Placed(NamedTuple):
    """Rows of the file with this number. `positions`: int64, ascending."""

    number: int
    positions: np.ndarray
    rows: pa.Table

    def with_places(self) -> pa.Table:
        """The rows with the columns `PLACE`."""
        places = pa.array(np.full(len(self.positions), self.number, np.int64)), pa.array(self.positions)
        fields = [*self.rows.schema, *(pa.field(name, pa.int64()) for name in PLACE)]
        return pa.table([*self.rows.columns, *places], schema=pa.schema(fields))


def planned_files(splits: Sequence[Split]) -> list[PlannedFile]:
    """The files that are read without a merge."""
    return [PlannedFile(split.bucket, file, split.vectors.get(file.name)) for split in splits for file in split.files]


def live_in(files: BucketFiles, plan: Projection, file: DataFile, dead: DeletionVector, number: int = 0) -> Generator[Placed]:
    """Yields the rows of a file that are not dead and for which the predicate is true, with the columns of the plan."""
    with files.open(file) as reader:
        for chunk in reader.chunks(plan.needed, groups_to_read(reader, plan, dead, plan.needed)):
            live = ~dead.dead_mask(chunk.start, chunk.table.num_rows)
            if plan.predicate is not None:
                live = evaluate_live(plan.predicate, chunk.table, live)
            places, rows = np.flatnonzero(live), finished(chunk.table, plan)
            yield Placed(number, chunk.start + places, rows if live.all() else rows.take(pa.array(places)))


def matched(plan: Plan) -> list[Matched]:
    """Returns the files of the plan that hold matching rows, with the positions of these rows. Ignores level-0 rows. Reads the
    columns of the predicate, in the row groups that may match; nothing if partitions decide."""
    predicate, version = plan.predicate, plan.version
    of_partitions = predicate is not None and is_of_partitions(predicate, plan.schema)
    where = replace(plan, columns=())

    def look(place: PlannedFile) -> Matched:
        vector = place.vector(version.meta)
        whole = predicate is None or (partition_matches(predicate, plan.schema, place.bucket) if of_partitions else None)
        if whole is not None:
            return Matched(*place, vector, None if whole else np.empty(0, np.int64))
        parts = live_in(BucketFiles.of(version, place.bucket), where, place.file, vector)
        return Matched(*place, vector, np.concatenate([np.empty(0, np.int64), *(some.positions for some in parts)]))

    matches = together(look, planned_files(plan.splits), version.meta.env.workers, lambda done: None)
    return [one for one in matches if one.rows]


def rows_at(version: Version, one: Matched, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yields the matched rows of a file, in their order."""
    every = np.arange(one.file.rows)
    positions = every[one.vector.live_mask(every)] if one.positions is None else one.positions
    yield from BucketFiles.of(version, one.bucket).fetch(one.file, positions, columns)


class PlacedRows:
    """The matching rows of a plan at all levels, with their places, and other columns of rows by their places."""

    def __init__(self, planned: Plan) -> None:
        self._plan = planned
        self._files: list[PlannedFile] = []
        self._dead: dict[int, DeletionVector] = {}

    def read(self) -> Iterator[pa.Table]:
        """Yields the rows, with the columns of the plan and `PLACE`. Reads several files at a time."""
        merged = 0
        for placed in ahead(self._parts(), self._plan.version.meta.env.workers):
            if placed.number == MERGED:
                placed = placed._replace(positions=np.arange(merged, merged := merged + len(placed.positions)))
            if len(placed.positions):
                yield placed.with_places()

    def matched(self, number: int, positions: np.ndarray) -> Matched:
        """Rows of the file with this number. `positions`: ascending."""
        return Matched(*self._files[number], self._dead[number], positions)

    def fetch(self, number: int, positions: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Columns of rows of a file, in the order of their positions."""
        return pa.concat_tables(rows_at(self._plan.version, self.matched(number, positions), columns))

    def _parts(self) -> Iterator[Generator[Placed]]:
        for split in self._plan.splits:
            files = BucketFiles.of(self._plan.version, split.bucket)
            if split.merged:
                yield self._of_section(files, split)
                continue
            fresh = Once(partial(freshen, files, self._plan, split, self._plan.needed))
            for place in planned_files([split]):
                self._files.append(place)
                yield self._of_file(len(self._files) - 1, files, place.file, fresh)
            if split.level0:
                yield self._of_level0(fresh)

    def _of_file(self, number: int, files: BucketFiles, file: DataFile, fresh: Once[Fresh]) -> Generator[Placed]:
        self._dead[number] = dead = fresh().dead[file.name]
        yield from live_in(files, self._plan, file, dead, number)

    def _of_section(self, files: BucketFiles, split: Split) -> Generator[Placed]:
        yield from map(self._merged, merge_at_read(files, self._plan, split, self._plan.needed))

    def _of_level0(self, fresh: Once[Fresh]) -> Generator[Placed]:
        yield self._merged(fresh().rows)

    def _merged(self, rows: pa.Table) -> Placed:
        matching = filtered(rows, self._plan)
        return Placed(MERGED, np.arange(matching.num_rows), finished(matching, self._plan))


def by_file(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields (number of a file, its rows) of rows in the order of their places."""
    numbers = table[FILE].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        yield int(numbers[first]), table.slice(first, last - first)
