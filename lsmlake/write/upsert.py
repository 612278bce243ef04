"""Upserts rows in this process: splits them by bucket, writes each bucket and commits once."""

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
from lsmlake.write.bucket import base_states, split, split_input, write_onto
from lsmlake.write.prepare import with_input_kinds


def inline_picker(meta: Metadata, schema: Schema, compact: bool | None) -> Picker | None:
    """Returns the picker for inline compaction, None for no compaction. `compact`: True or False; None: as `write-only` says."""
    options = schema.parsed_options
    wanted = not options.write.write_only if compact is None else compact
    return as_needed(options.compaction, meta.env.clock()) if wanted else None


def upsert_rows(meta: Metadata, schema: Schema, rows: pa.Table, identity: Identity, pick: Picker | None) -> Snapshot | None:
    """Writes prepared rows, compacts what `pick` picks, and commits. An error removes the written files and leaves the table
    unchanged.

    Returns:
        The new snapshot, None if there are no rows, or the earlier snapshot if `identity` has committed before.
    """
    latest = meta.latest()
    if done := replayed(meta, identity, latest):
        return done
    options = schema.parsed_options
    parts = list(split(rows, schema, options.layout.buckets))
    changelog = dict(split_input(rows, schema, options.layout.buckets)) if options.changelog.producer == INPUT else {}
    states = base_states(meta, schema, latest, [bucket for bucket, _ in parts]) if pick else {}

    def written(item: tuple[Bucket, pa.Table]) -> CommitMessage | None:
        bucket, part = item
        changelog_rows = [with_input_kinds(changelog.pop(bucket))] if changelog else []
        return write_onto(meta, schema, bucket, [part], latest, states.get(bucket), pick, changelog_rows)

    messages = together(written, _released(parts), meta.env.workers, meta.discard)
    return commit(meta, schema, messages, identity).snapshot if messages else None


def _released(parts: list[tuple[Bucket, pa.Table]]) -> Iterator[tuple[Bucket, pa.Table]]:
    """Yields the parts and removes each from the list, so its memory is freed early."""
    while parts:
        yield parts.pop(0)
