"""Writes rows in this process: prepares them, collects them (`write.intake`), writes each bucket and commits once.

Tasks of Spark use `bucket_messages` and `append_files`, and the driver commits with `publish`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.commit.commit import commit
from lsmlake.commit.identity import replayed
from lsmlake.commit.request import Request
from lsmlake.compact.bucket import Picker
from lsmlake.compact.reshape import as_needed as as_needed_buckets
from lsmlake.compact.reshape import reshape
from lsmlake.errors import LakeError, SnapshotNotFound
from lsmlake.files.divide import Divide, divide
from lsmlake.format.files import Bucket, BucketState, CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.cover import Covers
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.strategy import as_needed
from lsmlake.options.types import AUTO
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import together
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.arrival import Arrival, Ordered
from lsmlake.write.bucket import base_states, write_alone, write_onto
from lsmlake.write.intake import BucketRows, Intake
from lsmlake.write.order import Order
from lsmlake.write.prepare import order_of, prepare
from lsmlake.write.replace import Overwrite, Replacement
from lsmlake.write.request import WriteRequest

_log = logging.getLogger("lsmlake")
_SPLIT_INLINE_BYTES = 8 << 20  # rewritten in 0.3 seconds


class Part(NamedTuple):
    """Prepared rows and their order."""

    rows: pa.Table
    arrival: Arrival

    @staticmethod
    def of(rows: pa.Table, first: int = 0) -> Part:
        """Rows in the order of the table, the first with this number."""
        return Part(rows, Arrival(first + np.arange(rows.num_rows)))


def write_tables(version: Version, tables: Iterable[pa.Table], request: WriteRequest) -> Snapshot | None:
    """Writes all tables in one commit: rows of users, in memory up to `write-buffer-size`. Tables without rows are ignored,
    whatever their columns.

    Returns:
        The new snapshot, None if there are no rows, or the earlier snapshot if `request.identity` has committed before: then
        `tables` is not read.

    Raises:
        InvalidData: A row is invalid; row numbers count through all tables. Nothing is committed.
    """
    if done := replayed(version, request.identity):
        return done
    return write_parts(version, _prepared(tables, version.schema, request), request, picker(version, request.compact))


def write_parts(version: Version, parts: Iterable[Part], request: WriteRequest, pick: Picker | None = None) -> Snapshot | None:
    """Writes rows that are prepared in one commit. An error removes the written files and leaves the table unchanged. `pick`:
    what to compact inline; an overwrite does not use it."""
    if version.schema.append_only:
        return publish(version, append_files(version, (part.rows for part in parts), covers_for(version, request)), request)
    return publish(version, _files_of(version, parts, request, pick), request)


def new_files(version: Version, tables: Iterable[pa.Table], ordered: Ordered = Ordered.ALL) -> list[CommitMessage]:
    """Writes the rows of a new table to files, under a key at the last level; returns one message per bucket. An error removes
    what was written. `ordered`: see `WriteRequest`."""
    request = WriteRequest(ordered=ordered, replaces=Replacement(everything=True))
    parts = _prepared(tables, version.schema, request)
    if version.schema.append_only:
        return append_files(version, (part.rows for part in parts), covers_for(version, request))
    return _files_of(version, parts, request, None)


def picker(version: Version, compact: bool | None) -> Picker | None:
    """Returns the picker for inline compaction, None for no compaction. `compact`: True or False; None: as `write-only` says."""
    wanted = not version.options.write.write_only if compact is None else compact
    return as_needed(version.options.compaction, version.meta.env.clock()) if wanted else None


def _prepared(tables: Iterable[pa.Table], schema: Schema, request: WriteRequest) -> Iterator[Part]:
    first, order = 0, None
    for table in tables:
        if table.num_rows:
            order = order or (Order() if schema.append_only else order_of(table.schema, schema, request))
            rows, kept = prepare(order.without_own(table), schema, request, first)
            places = first + (np.arange(rows.num_rows) if kept is None else kept)
            yield Part(rows, Arrival(places, order.values(table, rows, kept), request.ordered))
        first += table.num_rows


def covers_for(version: Version, request: WriteRequest) -> Covers:
    """The buckets that the rows of a write go to: those of `version`, or of new partitions, if the write replaces partitions. If
    the version has expired, a commit divides what was written for buckets that the table has not."""
    first = version.options.layout.first_buckets
    if request.replaces is not None:
        return Covers(first)
    try:
        with version.unless_expired():
            return version.covers()
    except SnapshotNotFound:
        return Covers(first)


def known_partitions(version: Version, request: WriteRequest) -> Callable[[], Collection[tuple]] | None:
    """Finds the partitions whose buckets a write may not choose; None: it chooses none."""
    if version.options.layout.buckets != AUTO:
        return None
    return frozenset if request.replaces is not None else version.partitions


def _files_of(version: Version, parts: Iterable[Part], request: WriteRequest, pick: Picker | None) -> list[CommitMessage]:
    known = known_partitions(version, request)
    with Intake(version.schema, covers_for(version, request), request, prepared=True, known=known) as intake:
        for part in parts:
            if part.rows.num_rows:
                intake.add(part.rows, part.arrival)
        return bucket_messages(version, intake, pick, version.meta.env.workers)


def bucket_messages(version: Version, intake: Intake, pick: Picker | None, workers: int = 1) -> list[CommitMessage]:
    """Writes the rows of an intake, bucket by bucket; returns one message per bucket. An error removes what was written.
    `workers`: how many buckets at once, if the rows are in memory."""
    overwrites, states = intake.request.replaces is not None, None
    collected: Iterable[BucketRows] = intake.sorted()
    if intake.in_memory:
        parts = list(collected)
        states = base_states(version, [part.bucket for part in parts]) if pick and not overwrites else {}
        collected = _released(parts)

    def state_of(bucket: Bucket) -> BucketState | None:
        known = states if states is not None else base_states(version, [bucket]) if pick else {}
        return known.get(bucket)

    def written(part: BucketRows) -> CommitMessage | None:
        if overwrites:
            return write_alone(version, part.bucket, part.total, part.rows)
        return write_onto(version, part.bucket, part.total, part.rows, state_of(part.bucket), pick, part.changelog)

    return together(written, collected, workers if intake.in_memory else 1, version.meta.files.discard)


def _released(parts: list[BucketRows]) -> Iterator[BucketRows]:
    """Yields the parts and removes each from the list, so its memory is freed early."""
    while parts:
        yield parts.pop(0)


def publish(
    version: Version, messages: Sequence[CommitMessage], request: WriteRequest, divide: Divide = divide
) -> Snapshot | None:
    """Commits what a write made. Returns None if there was nothing to commit. `divide`: see `Request`."""
    replaces = request.replaces
    if not messages and (replaces is None or request.requires is not None):
        return None
    restate = None if replaces is None else Overwrite.of(replaces, version.schema, messages).restate
    remade, properties = replaces is not None, request.properties()
    wanted = Request(request.identity, messages, request.requires, restate, remade, properties, divide=divide)
    snapshot = commit(version, wanted).snapshot
    if snapshot is not None:
        _split_small(version, snapshot, messages)
        if _log.isEnabledFor(logging.INFO):
            _tell(version.meta, snapshot, messages)
    return snapshot


def _split_small(version: Version, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
    """After a write that has compacted: splits the buckets that have grown too large under `bucket = auto`, if that is quick. The
    write has succeeded, so it does not fail here."""
    layout = version.options.layout
    if layout.buckets != AUTO or not version.schema.bucket_key:
        return
    large = {message.bucket for message in messages if layout.target_bytes < _bytes_after(message) <= _SPLIT_INLINE_BYTES}
    if not large:
        return
    with suppress(LakeError):
        now = Version.at(version.meta, snapshot)
        partitions = dict.fromkeys(bucket.partition_key for bucket in large)
        reshape(now, as_needed_buckets(now, _SPLIT_INLINE_BYTES), large.__contains__, partitions=partitions)


def _bytes_after(message: CommitMessage) -> int:
    """The bytes of a bucket after an inline compaction; 0 without one."""
    edit = message.compact
    if edit is None or edit.base is None:
        return 0
    gone = sum(file.bytes for file in edit.removed)
    return sum(file.bytes for file in (*edit.base.files, *edit.added)) - gone


def _tell(meta: Metadata, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
    """Says in the log what a write has made of its buckets, which it reads."""
    compact_ms = [message.compact_ms for message in messages if message.compact is not None]
    told = meta.paths.root, snapshot.id, snapshot.delta_rows, len(messages), len(compact_ms)
    try:
        states = Version.at(meta, snapshot).states([message.bucket for message in messages])
    except LakeError as error:  # the write has succeeded; such as a snapshot that has expired already
        _log.info("%s: snapshot %d, %d rows, %d buckets, %d of them compacted; their runs are not known: %s", *told, error)
        return
    runs = max((len(Levels.of(state.files).level0_runs) for state in states.values()), default=0)
    line = "%s: snapshot %d, %d rows, %d buckets, %d of them compacted in %.2f s, at most %d runs at level 0"
    _log.info(line, *told, sum(compact_ms) / 1000, runs)
