"""The invariants of a table that one bucket's metadata can prove, as named predicates. Each is registered once and checked on
every publish, including appends, and by `verify`. Pure.

I1: key ranges within a run are disjoint. I3: a vector belongs to a live file and marks at most its rows. I5: a commit adds at
most one run to level 0 of a bucket. I6: a file is live once. I9: a bucket changes its total only when all of its files go.

Checked elsewhere: `maintain.verify` reads rows for I2 (at deeper levels a key is live in one file only) and snapshots for I4
(contiguous numbers) and I8 (no missing files); `commit.identity` ensures I7 (a commit is applied once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from lsmlake.errors import Corrupt
from lsmlake.format.files import DELETES, BucketEdit, BucketState
from lsmlake.lsm.levels import Levels

Invariant = Callable[[BucketState], Iterator[str]]


def apply(state: BucketState, edit: BucketEdit) -> BucketState:
    """The bucket after `edit`."""
    removed = {file.name for file in edit.removed}
    live = tuple(file for file in state.all_files if file.name not in removed) + edit.added
    files = tuple(file for file in live if file.source != DELETES)
    names = {file.name for file in files}
    vectors = {name: ref for name, ref in {**state.vectors, **edit.vectors}.items() if name in names}
    return BucketState(state.bucket, edit.total_buckets, files, vectors, tuple(file for file in live if file.source == DELETES))


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
    if len({file.name for file in state.all_files}) != len(state.all_files):
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
    """Check each edit applied to the current state of its bucket. None as a state: the bucket is empty, or the edit only adds
    files, which are checked against each other. Raises Corrupt."""
    counts = Counter(edit.bucket for edit, _ in edits)
    found = [f"I5: two edits of {bucket}" for bucket, count in counts.items() if count > 1]
    for edit, before in edits:
        if before is not None and edit.total_buckets != before.total_buckets and edit.added:
            left = {file.name for file in before.all_files} - {file.name for file in edit.removed}
            totals = f"{edit.total_buckets} as its total, not {before.total_buckets}"
            found += [f"I9: {edit.bucket} gets {totals}, and keeps {name}" for name in sorted(left)]
        found += violations(apply(before or BucketState(edit.bucket, edit.total_buckets), edit))
    if found:
        raise Corrupt(
            "the commit violates invariants of the table and was not published",
            where=where,
            found="; ".join(found),
            cure="run `lsmlake verify`, and report this",
        )
