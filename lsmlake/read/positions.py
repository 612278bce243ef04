"""Finds the rows that satisfy a predicate by their positions in files, for statements that remove or replace them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import Bucket, DataFile, VectorRef
from lsmlake.predicate import evaluate
from lsmlake.read.partitions import is_of_partitions, partition_matches
from lsmlake.read.plan import Plan
from lsmlake.read.scan import matching_groups
from lsmlake.storage.concurrency import together
from lsmlake.tables.version import Version


class Matched(NamedTuple):
    """The live rows of a file that satisfy a predicate. `positions`: int64, ascending; None: all live rows, which were not read.
    `ref` and `vector`: the dead rows of the file when it was read."""

    bucket: Bucket
    file: DataFile
    ref: VectorRef | None
    vector: DeletionVector
    positions: np.ndarray | None

    @property
    def rows(self) -> int:
        return self.file.rows - len(self.vector) if self.positions is None else len(self.positions)


def matched(plan: Plan) -> list[Matched]:
    """Returns the files of the plan that hold matching rows, and where. Level-0 rows are not looked at. Reads the columns of the
    predicate, in the row groups that may match; nothing if partitions decide."""
    places = [(split.bucket, file, split.vectors.get(file.name)) for split in plan.splits for file in split.files]
    predicate = plan.predicate
    of_partitions = predicate is not None and is_of_partitions(predicate, plan.schema)

    def look(place: tuple[Bucket, DataFile, VectorRef | None]) -> Matched:
        bucket, file, ref = place
        vector = EMPTY if ref is None else plan.version.meta.vectors.get(ref, file)
        whole = predicate is None or (partition_matches(predicate, plan.schema, bucket) if of_partitions else None)
        if whole is not None:
            return Matched(bucket, file, ref, vector, None if whole else np.empty(0, np.int64))
        found = [np.empty(0, np.int64), *_positions(plan, bucket, file, vector)]
        return Matched(bucket, file, ref, vector, np.concatenate(found))

    found = together(look, places, plan.version.meta.env.workers, lambda done: None)
    return [one for one in found if one.rows]


def _positions(plan: Plan, bucket: Bucket, file: DataFile, vector: DeletionVector) -> Iterator[np.ndarray]:
    with BucketFiles.of(plan.version, bucket).open(file) as reader:
        for chunk in reader.chunks(sorted(plan.predicate.columns), matching_groups(reader, plan)):
            wanted = np.asarray(evaluate(plan.predicate, chunk.table)) & ~vector.dead_mask(chunk.start, chunk.table.num_rows)
            yield chunk.start + np.flatnonzero(wanted)


def rows_at(version: Version, one: Matched, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yields the matched rows of a file, in their order."""
    every = np.arange(one.file.rows)
    positions = every[one.vector.live_mask(every)] if one.positions is None else one.positions
    yield from BucketFiles.of(version, one.bucket).fetch(one.file, positions, columns)
