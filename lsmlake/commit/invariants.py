"""What must hold of a table, as named predicates over one bucket. Each is registered once and checked on every publish, of
appends too, and by `verify`. Pure.

I1 inside a run key ranges are disjoint. I3 a vector names a live file and marks no more rows than the file has. I5 a commit adds
at most one run to level 0 of a bucket. I6 a file is live once. The others need more than a bucket's metadata: I2, that beyond
level 0 a key is live in one file, needs the rows, and `verify` reads them; so it does the snapshots for I4, that their numbers
are contiguous, and I8, that none names a missing file. I7, a commit is applied once, is `commit.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lsmlake.errors import Corrupt
from lsmlake.format.files import BucketEdit, BucketState
from lsmlake.lsm.levels import Levels

Invariant = Callable[[BucketState], Iterator[str]]


def apply(state: BucketState, edit: BucketEdit) -> BucketState:
    """The bucket after `edit`."""
    gone = {file.name for file in edit.removed}
    files = tuple(file for file in state.files if file.name not in gone) + edit.added
    names = {file.name for file in files}
    vectors = {name: ref for name, ref in {**state.vectors, **edit.vectors}.items() if name in names}
    return BucketState(state.bucket, edit.total_buckets, files, vectors)


def _runs_are_disjoint(state: BucketState) -> Iterator[str]:
    dead = {name: ref.cardinality for name, ref in state.vectors.items()}
    yield from Levels.of(state.files, dead).check()


def _vectors_fit_live_files(state: BucketState) -> Iterator[str]:
    rows = {file.name: file.rows for file in state.files}
    for name, ref in state.vectors.items():
        if name not in rows:
            yield f"a vector names {name}, which is not live"
        elif ref.cardinality > rows[name]:
            yield f"the vector of {name} marks {ref.cardinality} of {rows[name]} rows"


def _files_are_live_once(state: BucketState) -> Iterator[str]:
    if len({file.name for file in state.files}) != len(state.files):
        yield "a file is live twice"


INVARIANTS: tuple[tuple[str, Invariant], ...] = (
    ("I1", _runs_are_disjoint),
    ("I3", _vectors_fit_live_files),
    ("I6", _files_are_live_once),
)


def violations(state: BucketState) -> list[str]:
    """Every violation as a sentence; empty if the bucket is sound."""
    where = f"partition {state.bucket.partition} bucket {state.bucket.number}"
    return [f"{name}: {where}: {text}" for name, holds in INVARIANTS for text in holds(state)]


def check_edits(edits: Sequence[tuple[BucketEdit, BucketState | None]], where: str) -> None:
    """Check every edit on top of the bucket as it is; None: the edit only adds files, and these are checked among themselves.
    Raises Corrupt."""
    buckets = [edit.bucket for edit, _ in edits]
    found = [f"I5: two edits of {bucket}" for bucket in {*buckets} if buckets.count(bucket) > 1]
    for edit, before in edits:
        found += violations(apply(before or BucketState(edit.bucket, edit.total_buckets), edit))
    if found:
        raise Corrupt(
            "a commit would break the table and was not made",
            where=where,
            found="; ".join(found),
            cure="run `lsmlake verify`, and report this",
        )
