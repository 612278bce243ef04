"""What must hold of a bucket, as named predicates: checked before a commit is published and by `verify`. Pure.

I1 inside a run key ranges are disjoint. I2, that above level 0 a key lives in one file, needs the rows: `verify` reads them.
I3 a vector names a live file and marks no more rows than it has.
I5 a commit adds at most one run to level 0 of a bucket (checked where commits are made).
"""

from __future__ import annotations

from lsmlake.format.files import BucketEdit, BucketState
from lsmlake.lsm.levels import Levels


def apply(state: BucketState, edit: BucketEdit) -> BucketState:
    """The bucket after `edit`."""
    gone = {file.name for file in edit.removed}
    files = tuple(file for file in state.files if file.name not in gone) + edit.added
    names = {file.name for file in files}
    vectors = {name: ref for name, ref in {**state.vectors, **edit.vectors}.items() if name in names}
    return BucketState(state.bucket, edit.total_buckets, files, vectors)


def violations(state: BucketState) -> list[str]:
    """Every violation of I1 and I3 as a sentence; empty if the bucket is sound."""
    where = f"partition {state.bucket.partition} bucket {state.bucket.number}"
    dead = {name: ref.cardinality for name, ref in state.vectors.items()}
    found = [f"I1: {where}: {text}" for text in Levels.of(state.files, dead).check()]
    rows = {file.name: file.rows for file in state.files}
    if len(rows) != len(state.files):
        found.append(f"I6: {where}: a file is live twice")
    for name, cardinality in dead.items():
        if name not in rows:
            found.append(f"I3: {where}: a vector names {name}, which is not live")
        elif cardinality > rows[name]:
            found.append(f"I3: {where}: the vector of {name} marks {cardinality} of {rows[name]} rows")
    return found
