"""Rebase: may what was computed from one snapshot be published on top of another? Pure.

An append never conflicts. A compaction stands as long as nobody else compacted its bucket: its inputs are there, nothing above
level 0 and no vector has changed. New level-0 files do not matter to a compaction of committed files, for they are newer than
all it touched; but they do to one that moved the writer's own rows up, for those would then be older than what came before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lsmlake.format.files import Bucket, BucketEdit, BucketState, CommitMessage


@dataclass(frozen=True)
class Rebased:
    """The edits that may be published, and the buckets whose compaction was overtaken and has no append to fall back on."""

    edits: tuple[BucketEdit, ...]
    overtaken: tuple[Bucket, ...]


def rebase(messages: Sequence[CommitMessage], latest: Mapping[Bucket, BucketState]) -> Rebased:
    """`latest`: the state of every bucket in which a message has a compaction, as of the snapshot to build on; absent = empty."""
    edits, overtaken = [], []
    for message in messages:
        edit = _valid(message, latest)
        if edit is None:
            overtaken.append(message.bucket)
        elif not edit.empty:
            edits.append(edit)
    return Rebased(tuple(edits), tuple(overtaken))


def _valid(message: CommitMessage, latest: Mapping[Bucket, BucketState]) -> BucketEdit | None:
    if message.compact is None:
        return message.append
    base = message.compact.base
    now = latest.get(message.bucket) or BucketState(message.bucket, base.total_buckets)
    own_rows_moved = message.append is not None
    return message.compact if stands(base, now, own_rows_moved) else message.append


def stands(base: BucketState, now: BucketState, own_rows_moved: bool) -> bool:
    """Whether what was computed from `base` may be applied to `now`."""
    before = {(file.name, file.level) for file in base.files}
    after = {(file.name, file.level) for file in now.files}
    if dict(base.vectors) != dict(now.vectors) or not before <= after:
        return False
    return not (after - before) if own_rows_moved else all(level == 0 for _, level in after - before)
