"""Changes rows of an append-only table in Spark tasks: in one job, each task writes new rows to files and reports the places of
the rows to remove, as bitmaps. The driver commits both at once (`write.row_edit`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lsmlake.errors import LakeError
from lsmlake.format.data_files import CommitMessage
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.read.positions import FILE, POSITION, Matched
from lsmlake.spark import tasks
from lsmlake.statements.clause import ACTION
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.prepare import prepare
from lsmlake.write.row_edit import Rewritten, discard_rewritten, rewritten_file
from lsmlake.write.write_request import WriteRequest


def column(number: int) -> str:
    """The name of the column with the new values of a column, by number: `mapInArrow` takes dots and backticks for syntax."""
    return f"c{number}"


@dataclass
class Edit:
    """The result of one task, or of all tasks. `places`: (number of the clause, file) -> positions of target rows; `rows`: the
    number of target rows, with repeats; `inserted`: the number of new rows; `added`: the files written."""

    places: dict[tuple[int, int], DeletionVector] = field(default_factory=dict)
    rows: int = 0
    inserted: int = 0
    added: list[CommitMessage] = field(default_factory=list)

    @property
    def repeats(self) -> bool:
        """Whether a row of the target occurred several times."""
        by_file: dict[int, DeletionVector] = {}
        for (_, file), vector in self.places.items():
            by_file[file] = by_file.get(file, EMPTY) | vector
        return sum(map(len, by_file.values())) < self.rows

    def count(self, clauses: Sequence[int]) -> int:
        """The number of target rows of these clauses."""
        return sum(len(vector) for (clause, _), vector in self.places.items() if clause in clauses)

    @property
    def removed(self) -> dict[int, DeletionVector]:
        """The rows to remove, by file."""
        vectors: dict[int, DeletionVector] = {}
        for (clause, file), vector in self.places.items():
            if clause:
                vectors[file] = vectors.get(file, EMPTY) | vector
        return vectors


@dataclass(frozen=True)
class RowWriting:
    """The value that every task receives.

    Attributes:
        version: the version that the statement changes.
        writes: the numbers of the clauses that write rows.
        inserts: the numbers of the clauses that insert rows. Such rows have no place in a file.
    """

    version: Version
    writes: Sequence[int]
    inserts: Sequence[int]


def run(writing: RowWriting, rows) -> Edit:
    """Executes changes in tasks. `rows`: `ACTION`, `FILE`, `POSITION` and, if a clause writes rows, the new values."""
    done, errors = tasks.collect(rows.mapInArrow(partial(_task, writing), tasks.RESULT))
    edit = Edit()
    for part in done:
        for place, vector in part.places.items():
            edit.places[place] = edit.places.get(place, EMPTY) | vector
        edit.rows += part.rows
        edit.inserted += part.inserted
        edit.added += part.added
    if errors:
        writing.version.meta.files.discard(edit.added)
        raise errors[0]
    return edit


def here(writing: RowWriting, batches: Iterable[pa.RecordBatch]) -> Edit:
    """Executes changes in this process. Removes the written files if it fails."""
    edit, noted = Edit(), []
    try:
        edit.added = append_files(writing.version, _new_rows(writing, batches, edit, noted))
        edit.places = _places(noted)
        edit.rows = sum(len(one[0]) for one in noted)
    except LakeError:
        writing.version.meta.files.discard(edit.added)
        raise
    return edit


def _task(writing: RowWriting, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        outcome: object = here(writing, batches)
    except LakeError as error:
        outcome = error
    yield tasks.result(outcome)  # even if the task fails after this point, the driver may commit the files


def _new_rows(
    writing: RowWriting, batches: Iterable[pa.RecordBatch], edit: Edit, noted: list[tuple[np.ndarray, ...]]
) -> Iterator[pa.Table]:
    schema = writing.version.schema
    names = schema.columns.names
    for batch in batches:
        action = batch[ACTION].to_numpy(zero_copy_only=False)
        old = pa.array(~np.isin(action, writing.inserts))
        edit.inserted += batch.num_rows - old.true_count
        noted.append(tuple(batch[name].filter(old).to_numpy(zero_copy_only=False) for name in (ACTION, FILE, POSITION)))
        if not writing.writes:
            continue
        rows = pa.Table.from_batches([batch]).filter(pa.array(np.isin(action, writing.writes)))
        if rows.num_rows:
            rows = rows.select([column(place) for place in range(len(names))]).rename_columns(names)
            yield prepare(rows, schema, WriteRequest(), None)[0]


def _places(noted: Sequence[tuple[np.ndarray, ...]]) -> dict[tuple[int, int], DeletionVector]:
    if not noted:
        return {}
    actions, files, positions = (np.concatenate(parts) for parts in zip(*noted, strict=True))
    order = np.lexsort((positions, files, actions))
    actions, files, positions = actions[order], files[order], positions[order]
    ends = np.flatnonzero((np.diff(actions) != 0) | (np.diff(files) != 0)) + 1
    edges = [0, *ends.tolist(), len(order)] if len(order) else [0]
    return {(int(actions[first]), int(files[first])): DeletionVector.of(positions[first:last]) for first, last in pairwise(edges)}


def rewritten(spark, version: Version, removed: Sequence[Matched]) -> list[Rewritten]:
    """A `Rewrite` in tasks, one per file."""
    done, errors = tasks.spread(spark, partial(rewritten_file, version), removed)
    if errors:
        discard_rewritten(version, done)
        raise errors[0]
    return done
