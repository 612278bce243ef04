"""Upserts a stream of tables in this process: in memory up to `write-buffer-size`, then with sorted spill files (`intake`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.commit.identity import Identity, replayed
from lsmlake.compact.bucket import Picker
from lsmlake.format.files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.row_kinds import with_kinds
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version
from lsmlake.write.arrival import Arrival, Ordered
from lsmlake.write.bucket import base_states, write_alone, write_onto
from lsmlake.write.intake import Intake
from lsmlake.write.prepare import Request, order_of, prepare
from lsmlake.write.replace import Replacement, publish
from lsmlake.write.upsert import upsert_rows


def upsert_tables(
    version: Version, tables: Iterable[pa.Table], request: Request, identity: Identity, pick: Picker | None
) -> Snapshot | None:
    """Writes all tables in one commit, see `upsert_rows`; `request.replaces` makes it an overwrite. Tables without rows are
    ignored, whatever their columns.

    If `identity` has committed before, `tables` is not read.

    Raises:
        InvalidData: A row is invalid; row numbers count through all tables. Nothing is committed.
    """
    if done := replayed(version, identity):
        return done
    return upsert_parts(version, _prepared(tables, version.schema, request), request, identity, pick)


def upsert_parts(
    version: Version, prepared: Iterator[Part], request: Request, identity: Identity, pick: Picker | None
) -> Snapshot | None:
    """Writes rows that are prepared in one commit. Parts without rows are ignored. Of rows with one key the last wins."""
    held, size, limit = [], 0, version.options.write.buffer_bytes
    for part in prepared:
        held.append(part)
        size += part.rows.get_total_buffer_size()
        if len(held) > 1 and size >= limit:  # a single table is in memory already
            messages = _messages(version, chain(_released(held), prepared), request.replaces, pick)
            return publish(version, messages, identity, request.replaces, request.check, request.properties())
    rows = [part.rows for part in held if part.rows.num_rows]
    if not rows:
        return publish(version, [], identity, request.replaces, request.check, request.properties())
    arrivals = [part.arrival for part in held if part.rows.num_rows]
    arrival = None if arrivals[0].of_data else Arrival.joined(arrivals)
    together, properties = pa.concat_tables(with_kinds(rows)), request.properties()
    return upsert_rows(version, together, identity, pick, request.replaces, request.check, properties, arrival)


class Part(NamedTuple):
    """Prepared rows and their order."""

    rows: pa.Table
    arrival: Arrival


def _prepared(tables: Iterable[pa.Table], schema: Schema, request: Request) -> Iterator[Part]:
    first, order = 0, None
    for table in tables:
        if table.num_rows:
            order = order or order_of(table.schema, schema, request)
            rows, kept = prepare(order.without_own(table), schema, request, first)
            places = first + (np.arange(rows.num_rows) if kept is None else kept)
            yield Part(rows, Arrival(places, order.values(table, rows, kept), request.ordered))
        first += table.num_rows


def sorted_files(version: Version, tables: Iterable[pa.Table], ordered: Ordered = Ordered.ALL) -> list[CommitMessage]:
    """Writes the rows of a new table to files at the last level, and returns one message per bucket. An error removes what was
    written. `ordered`: see `Request`."""
    return _messages(version, _prepared(tables, version.schema, Request(ordered=ordered)), Replacement(everything=True), None)


def _released(parts: list[Part]) -> Iterator[Part]:
    """Yields the parts and removes each from the list, so its memory is freed early."""
    while parts:
        yield parts.pop(0)


def _messages(version: Version, parts: Iterable[Part], replaces: Replacement | None, pick: Picker | None) -> list[CommitMessage]:
    """Writes rows, spilling those that do not fit into memory."""
    messages: list[CommitMessage] = []
    schema, buckets = version.schema, version.options.layout.buckets
    try:
        with Intake(schema, None, changelog=replaces is None) as intake:
            for rows, arrival in parts:
                numbers = bucket_of([rows[name] for name in schema.bucket_key], buckets)
                intake.add(rows, numbers, arrival)
            for bucket, rows, changelog in intake.sorted():
                if replaces is not None:
                    message = write_alone(version, bucket, rows)
                else:
                    state = base_states(version, [bucket]).get(bucket) if pick else None
                    message = write_onto(version, bucket, rows, state, pick, changelog)
                if message:
                    messages.append(message)
    except BaseException:
        version.meta.files.discard(messages)
        raise
    return messages
