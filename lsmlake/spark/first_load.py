"""Spark writes the first rows of a table or partition with `bucket = auto` in several tasks, to several buckets.

Without partitions, the buckets are merged before the commit if there are few rows, so that a small table has one bucket. With
partitions, a large load first counts the rows of each partition: a new partition begins with as many buckets as tasks should
write it. A task divides a large bucket further (`write.write`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.compact.bucket_compaction import Picker, compact_bucket
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.divide import Divide, Division, NewBucket, OldBucket
from lsmlake.format.data_files import DELETES, BucketEdit, BucketState, CommitMessage
from lsmlake.lsm.cover import Cover, Covers, Share
from lsmlake.lsm.pick.reshaping import to_cover
from lsmlake.options.option_types import AUTO
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version
from lsmlake.write.write_request import WriteRequest

PARALLEL = 32
"""The maximum number of buckets."""
_SMALL_BYTES = 4 << 20  # of a bucket: smaller ones are merged
_TASK_ROWS = 1 << 20  # a task writes them in a few seconds


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


def counts_rows(version: Version, request: WriteRequest, last_rows: int) -> bool:
    """Whether a write counts the rows of each partition first. It then reads the partition columns of its data twice.

    Args:
        last_rows: The rows of the last write; 0: unknown. Writes of a table are of similar sizes.
    """
    schema = version.schema
    divides = version.options.layout.buckets == AUTO and schema.bucket_key and schema.partition_columns
    if not divides or schema.append_only or schema.moves_keys or request.deletes or request.cast is not None:
        return False
    return version.snapshot is None or not last_rows or last_rows > _TASK_ROWS


def rows_by_partition(rows, schema: Schema, partition: Sequence) -> dict[tuple, int]:
    """Counts the rows of each partition that has more than one task should write.

    Args:
        rows: A DataFrame.
        partition: The values of the partition fields as columns.
    """
    names = [f"p{i}" for i in range(len(partition))]
    values = rows.select(*(value.alias(name) for value, name in zip(partition, names, strict=True)))
    counted = values.groupBy(*names).agg(F.count("*").alias("rows")).where(f"rows > {_TASK_ROWS}").toArrow()
    fields = schema.partition_columns
    try:
        columns = [counted[name].cast(field.type) for name, field in zip(names, fields, strict=True)]
    except pa.ArrowInvalid:  # the tasks report the values that do not fit their columns
        return {}
    keys = zip(*(column.to_pylist() for column in columns), strict=True)
    return dict(zip(keys, counted["rows"].to_pylist(), strict=True))


def for_new_partitions(
    covers: Covers, spec: int, rows: Mapping[tuple, int], known: Collection[tuple], parallelism: int
) -> Covers:
    """The covers of a write whose large new partitions are written by several tasks.

    Args:
        covers: The covers of the partitions of the table.
        spec: The partition spec of the rows.
        rows: The result of `rows_by_partition`.
        known: The partitions whose buckets the write may not choose, by `Bucket.partition_key`.
        parallelism: How many tasks run at once.
    """
    share, own = max(_TASK_ROWS, sum(rows.values()) // parallelism), dict(covers.by_partition)
    for values, count in rows.items():
        parts = 1
        while parts * share < count and 2 * parts <= min(parallelism, PARALLEL):
            parts *= 2
        if parts > 1 and (spec, values) not in known:
            own[spec, values] = Cover(parts)
    return replace(covers, by_partition=own)


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
