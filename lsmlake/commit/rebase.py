"""Rebase: decides which edits computed from one snapshot can be published on top of another. Pure.

An append never conflicts. A compaction whose requirement (`commit.requirements`) is not met falls back to the append of the same
message, or is dropped. An overwrite never conflicts: it replaces the buckets as they are when it is published (`replacing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lsmlake.commit.requirements import BucketAsRead, FilesAsRead
from lsmlake.format.files import Bucket, BucketEdit, BucketState, CommitMessage


@dataclass(frozen=True)
class Rebased:
    """The edits that can be published, and the buckets whose compaction was overtaken and has no append to fall back to."""

    edits: tuple[BucketEdit, ...]
    overtaken: tuple[Bucket, ...]


def rebase(messages: Sequence[CommitMessage], latest: Mapping[Bucket, BucketState]) -> Rebased:
    """Choose one edit per message.

    Args:
        latest: the state, as of the snapshot to build on, of every bucket that a message compacts; absent: the bucket is empty.
    """
    edits, overtaken = [], []
    for message in messages:
        edit = _valid_edit(message, latest)
        if edit is None:
            overtaken.append(message.bucket)
        elif not edit.empty:
            edits.append(edit)
    return Rebased(tuple(edits), tuple(overtaken))


def replacing(messages: Sequence[CommitMessage], latest: Mapping[Bucket, BucketState]) -> tuple[CommitMessage, ...]:
    """The messages of an overwrite: the content of every bucket of `latest` is replaced by what `messages` wrote to it.

    Args:
        messages: one per bucket with new rows; written as if the bucket was empty.
        latest: the state, as of the snapshot to build on, of every bucket to replace.
    """
    written = {message.bucket: message for message in messages}
    return tuple(_replacing(written.get(bucket), latest.get(bucket)) for bucket in dict.fromkeys([*latest, *written]))


def _replacing(message: CommitMessage | None, state: BucketState | None) -> CommitMessage:
    if message is None:
        edit = BucketEdit(state.bucket, state.total_buckets, removed=state.all_files, base=state)
        return CommitMessage(state.bucket, compact=edit)
    new = message.compact or message.append
    state = state or BucketState(message.bucket, new.total_buckets)
    edit = BucketEdit(message.bucket, new.total_buckets, new.added, state.all_files, new.vectors, state)
    return replace(message, append=None, compact=edit)


def _valid_edit(message: CommitMessage, latest: Mapping[Bucket, BucketState]) -> BucketEdit | None:
    if message.compact is None:
        return message.append
    base = message.compact.base
    now = latest.get(message.bucket) or BucketState(message.bucket, base.total_buckets)
    needed = FilesAsRead(base) if message.compact.only_files else BucketAsRead(base, alone=message.append is not None)
    return message.compact if needed.met(now) else message.append
