"""Spark writes the first rows of a table with `bucket = auto` in several tasks, to several buckets. If there are few rows, the
buckets are merged before the commit, so that a small table has one bucket.

A task divides a large bucket further (`write.write`). In a table with partitions each partition begins with one bucket.
"""

from __future__ import annotations

from dataclasses import replace

from lsmlake.compact.bucket_compaction import Picker, compact_bucket
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.divide import Divide, Division, NewBucket, OldBucket
from lsmlake.format.data_files import DELETES, BucketEdit, BucketState, CommitMessage
from lsmlake.lsm.cover import Cover, Covers, Share
from lsmlake.lsm.pick.reshaping import to_cover
from lsmlake.options.option_types import AUTO
from lsmlake.tables.version import Version

PARALLEL = 32
"""The maximum number of buckets."""
_SMALL_BYTES = 4 << 20  # of a bucket: smaller ones are merged


def in_parallel(version: Version, covers: Covers, parallelism: int, *, replaces: bool) -> Covers:
    """The covers to which a Spark write routes rows: several buckets for the first rows. `replaces`: the write replaces all
    rows of the table."""
    schema = version.schema
    if version.options.layout.buckets != AUTO or not schema.bucket_key or schema.partition_columns:
        return covers
    if version.snapshot is not None and version.live_files() and not replaces:
        return covers
    first = 1
    while 2 * first <= min(parallelism, PARALLEL):
        first *= 2
    return Covers(first)


def in_few(
    version: Version, covers: Covers, messages: list[CommitMessage], pick: Picker | None, divide: Divide, *, replaces: bool
) -> list[CommitMessage]:
    """The messages of a write to the buckets `covers` of `in_parallel`, merged into fewer buckets if they are small. `pick`:
    picks the inline compactions of an upsert."""
    first, meta = covers.first, version.meta
    edits = [message.compact if replaces and message.compact else message.append for message in messages]
    size, fewer = sum(file.bytes for edit in edits for file in edit.added), first
    while fewer > 1 and size < fewer * _SMALL_BYTES:
        fewer //= 2
    if fewer == first or any(edit.total_buckets != first for edit in edits):
        return messages
    given = {Share(edit.bucket.number, first): _given(edit) for edit in edits}
    works = [
        Division([given[share] for share in step.sources if share in given], step.targets)
        for step in to_cover(Cover(first), Cover(fewer))
        if any(share in given for share in step.sources)
    ]
    made = divide(meta, version.schema, works)
    meta.files.discard(messages)
    rows = {number: 0 for number in range(fewer)}
    for message in messages:
        rows[message.bucket.number % fewer] += message.rows
    return [_message(version, one, rows[one.bucket.number], pick, replaces=replaces) for one in made if one.files]


def _given(edit: BucketEdit) -> OldBucket:
    files = tuple(file for file in edit.added if file.source != DELETES)
    retained = tuple(file for file in edit.added if file.source == DELETES)
    return OldBucket(BucketState(edit.bucket, edit.total_buckets, files, edit.vectors, retained), edit.changelog)


def _message(version: Version, one: NewBucket, rows: int, pick: Picker | None, *, replaces: bool) -> CommitMessage:
    edit = BucketEdit(one.bucket, one.total, tuple(one.added), changelog=tuple(one.changelog))
    files = BucketFiles.of(version, one.bucket)
    written = files.paths(one.files)
    if replaces:
        return CommitMessage(one.bucket, compact=edit, rows=rows, written=written)
    message = CommitMessage(one.bucket, edit, rows=rows, written=written)
    compacted = pick and compact_bucket(files, BucketState(one.bucket, one.total), pick, {}, edit.added)
    if not compacted:
        return message
    compact = replace(compacted.compact, changelog=edit.changelog + compacted.compact.changelog)
    return replace(message, compact=compact, written=written + compacted.written)
