"""Upsert without an engine: prepare, split, write every bucket, commit once."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.format.files import CommitMessage
from lsmlake.format.schema import Schema
from lsmlake.format.snapshot import Snapshot
from lsmlake.ops.choose import as_needed
from lsmlake.ops.commit import Identity, commit, replayed
from lsmlake.ops.compact import Choose
from lsmlake.ops.write import as_given, base_states, split, split_unfolded, write_onto
from lsmlake.options import INPUT
from lsmlake.store.metadata import Metadata


def inline_choice(meta: Metadata, schema: Schema, compact: bool | None) -> Choose | None:
    """What a writer compacts at once: as the options say (None), in any case (True) or nothing (False)."""
    options = schema.parsed_options
    wanted = not options.write_only if compact is None else compact
    return as_needed(options, meta.env.clock()) if wanted else None


def upsert_rows(meta: Metadata, schema: Schema, rows: pa.Table, identity: Identity, compact: bool | None) -> Snapshot | None:
    """Write prepared rows and commit. `None` if there are none; the earlier snapshot if `identity` has committed before.

    An error leaves the table as it was and removes what was written.
    """
    latest = meta.latest()
    if done := replayed(meta, identity, latest):
        return done
    choose = inline_choice(meta, schema, compact)
    options = schema.parsed_options
    parts = list(split(rows, schema, options.bucket))
    given = dict(split_unfolded(rows, schema, options.bucket)) if options.changelog_producer == INPUT else {}
    states = base_states(meta, schema, latest, [bucket for bucket, _ in parts]) if choose else {}
    messages: list[CommitMessage] = []
    try:
        while parts:
            bucket, part = parts.pop(0)
            told = [as_given(given.pop(bucket))] if given else []
            messages.append(write_onto(meta, schema, bucket, [part], latest, states.get(bucket), choose, told))
    except BaseException:
        meta.delete_quietly(path for message in messages for path in message.written)
        raise
    return commit(meta, schema, messages, identity).snapshot if messages else None
