"""Upsert of a stream of tables without an rule: in memory while they fit `write-buffer-size`, else by sorted spills on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.commit.publish import Identity, commit, replayed
from lsmlake.compact.bucket import Picker
from lsmlake.format.files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.row_kinds import with_kinds
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata
from lsmlake.write.bucket import base_states, write_onto
from lsmlake.write.intake import Intake
from lsmlake.write.prepare import Request, prepare
from lsmlake.write.upsert import upsert_rows


def upsert_tables(
    meta: Metadata, schema: Schema, tables: Iterable[pa.Table], request: Request, identity: Identity, pick: Picker | None
) -> Snapshot | None:
    """Write all tables as one commit, as `upsert_rows` does. Tables without rows count for nothing, whatever their columns.

    A commit that has taken place is not written again, and then `tables` is not read. Raises InvalidData before the commit, which
    counts rows through all tables.
    """
    if done := replayed(meta, identity, meta.latest()):
        return done
    prepared = _prepared(tables, schema, request)
    held, size, limit = [], 0, schema.parsed_options.write.buffer_bytes
    for part in prepared:
        held.append(part)
        size += part.rows.get_total_buffer_size()
        if len(held) > 1 and size >= limit:  # one table was in memory before it came here
            return _upsert_spilled(meta, schema, chain(_given_up(held), prepared), identity, pick)
    rows = [part.rows for part in held if part.rows.num_rows]
    return upsert_rows(meta, schema, pa.concat_tables(with_kinds(rows)), identity, pick) if rows else None


class _Part(NamedTuple):
    """Prepared rows and their places in the input."""

    rows: pa.Table
    places: np.ndarray


def _prepared(tables: Iterable[pa.Table], schema: Schema, request: Request) -> Iterator[_Part]:
    first = 0
    for table in tables:
        if table.num_rows:
            rows, kept = prepare(table, schema, request, first)
            yield _Part(rows, first + (np.arange(rows.num_rows) if kept is None else kept))
        first += table.num_rows


def _given_up(parts: list[_Part]) -> Iterator[_Part]:
    """The parts, each released when it is taken."""
    while parts:
        yield parts.pop(0)


def _upsert_spilled(
    meta: Metadata, schema: Schema, parts: Iterator[_Part], identity: Identity, pick: Picker | None
) -> Snapshot | None:
    messages: list[CommitMessage] = []
    latest, buckets = meta.latest(), schema.parsed_options.layout.buckets
    try:
        with Intake(schema, None) as intake:
            for rows, places in parts:
                numbers = bucket_of([rows[name] for name in schema.bucket_key], buckets)
                intake.add(rows, numbers, places)
            for bucket, rows, given in intake.sorted():
                state = base_states(meta, schema, latest, [bucket]).get(bucket) if pick else None
                if message := write_onto(meta, schema, bucket, rows, latest, state, pick, given):
                    messages.append(message)
    except BaseException:
        meta.discard(messages)
        raise
    return commit(meta, schema, messages, identity).snapshot if messages else None
