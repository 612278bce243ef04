"""Writes rows to an append-only table: files in the order of the rows, at level 1, where no read merges them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import Opened, Origin, nan_columns
from lsmlake.format.data_files import APPEND, Bucket, BucketEdit, CommitMessage
from lsmlake.lsm.cover import Covers, route
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import together
from lsmlake.storage.write_group import WriteGroup
from lsmlake.tables.version import Version

LEVEL = 1
"""The level of all files of append-only tables."""


def append_files(version: Version, tables: Iterable[pa.Table], covers: Covers | None = None) -> list[CommitMessage]:
    """Writes prepared rows to files, and returns one message per bucket. An error removes what was written. `covers`: the buckets
    of each partition; None: those of `version`."""
    covers = covers or version.covers()
    messages: list[CommitMessage] = []
    held, size = [], 0
    try:
        for table in tables:
            held.append(table)
            size += table.nbytes  # of a slice, unlike get_total_buffer_size, not the whole buffers
            if size >= version.options.write.buffer_bytes:
                messages += _written(version, covers, pa.concat_tables(held))
                held, size = [], 0
        if held:
            messages += _written(version, covers, pa.concat_tables(held))
    except BaseException:
        version.meta.files.discard(messages)
        raise
    return joined(messages)


def joined(messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """Joins the appends of each bucket into one message, in the given order."""
    messages_by_bucket: dict[Bucket, CommitMessage] = {}
    for message in messages:
        known = messages_by_bucket.get(message.bucket)
        if known is not None:
            append = replace(message.append, added=known.append.added + message.append.added)
            message = CommitMessage(message.bucket, append, None, known.rows + message.rows, known.written + message.written)
        messages_by_bucket[message.bucket] = message
    return list(messages_by_bucket.values())


def _written(version: Version, covers: Covers, rows: pa.Table) -> list[CommitMessage]:
    def write(part: tuple[Bucket, pa.Table], opened: Opened | None = None) -> CommitMessage:
        bucket, table = part
        files = BucketFiles.of(version, bucket, opened)
        added = files.write([table], Origin(LEVEL, APPEND), nan_columns(table))
        edit = BucketEdit(bucket, covers.total(bucket), added=added)
        return CommitMessage(bucket, edit, rows=table.num_rows, written=files.paths(added))

    env = version.meta.env
    count, parts = by_bucket(rows, version.schema, covers)
    if count > 1 and WriteGroup.suits(env.storage, count, rows.nbytes):
        with WriteGroup.of(env.storage) as group:
            return [write(part, group.write) for part in parts]
    return together(write, parts, env.workers, version.meta.files.discard)


def by_bucket(rows: pa.Table, schema: Schema, covers: Covers) -> tuple[int, Iterator[tuple[Bucket, pa.Table]]]:
    """The number of buckets of rows, and the rows of each, in their order. `rows`: with the partition columns and the bucket
    key."""
    if not rows.num_rows:
        return 0, iter(())
    routed = route(rows, schema, covers)
    codes = routed.codes
    if (codes == codes[0]).all():
        return 1, iter([(routed.bucket(codes[0]), rows)])
    order = np.argsort(codes, kind="stable")
    edges = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), len(order)]
    parts = ((routed.bucket(codes[order[first]]), rows.take(order[first:last])) for first, last in pairwise(edges))
    return len(edges) - 1, parts
