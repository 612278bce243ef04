"""Upsert without an rule: prepare, split, write every bucket, commit once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lsmlake.commit.publish import Identity, commit, replayed
from lsmlake.compact.bucket import Picker
from lsmlake.format.files import Bucket, CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.pick.strategy import as_needed
from lsmlake.options.changelog import INPUT
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata
from lsmlake.store.together import together
from lsmlake.write.bucket import base_states, split, split_given, write_onto
from lsmlake.write.prepare import as_given


def inline_picker(meta: Metadata, schema: Schema, compact: bool | None) -> Picker | None:
    """What a writer compacts at once: as the options say (None), in any case (True) or nothing (False)."""
    options = schema.parsed_options
    wanted = not options.write.write_only if compact is None else compact
    return as_needed(options.compaction, meta.env.clock()) if wanted else None


def upsert_rows(meta: Metadata, schema: Schema, rows: pa.Table, identity: Identity, pick: Picker | None) -> Snapshot | None:
    """Write prepared rows, compact as `pick` wants it, and commit. `None` if there are none; the earlier snapshot if `identity`
    has committed before.

    An error leaves the table as it was and removes what was written.
    """
    latest = meta.latest()
    if done := replayed(meta, identity, latest):
        return done
    options = schema.parsed_options
    parts = list(split(rows, schema, options.layout.buckets))
    given = dict(split_given(rows, schema, options.layout.buckets)) if options.changelog.producer == INPUT else {}
    states = base_states(meta, schema, latest, [bucket for bucket, _ in parts]) if pick else {}

    def written(item: tuple[Bucket, pa.Table]) -> CommitMessage | None:
        bucket, part = item
        told = [as_given(given.pop(bucket))] if given else []
        return write_onto(meta, schema, bucket, [part], latest, states.get(bucket), pick, told)

    messages = together(written, _given_up(parts), meta.env.workers, meta.discard)
    return commit(meta, schema, messages, identity).snapshot if messages else None


def _given_up(parts: list[tuple[Bucket, pa.Table]]) -> Iterator[tuple[Bucket, pa.Table]]:
    """The parts, each let go of as it is taken."""
    while parts:
        yield parts.pop(0)
