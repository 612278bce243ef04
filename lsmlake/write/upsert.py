"""Upserts rows in this process: splits them by bucket, writes each bucket and commits once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lsmlake.commit.identity import Identity
from lsmlake.compact.bucket import Picker
from lsmlake.format.files import Bucket, CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.pick.strategy import as_needed
from lsmlake.options.changelog import INPUT
from lsmlake.storage.concurrency import together
from lsmlake.tables.version import Version
from lsmlake.write.arrival import Arrival
from lsmlake.write.bucket import base_states, split, split_input, write_alone, write_onto
from lsmlake.write.prepare import with_input_kinds
from lsmlake.write.replace import Check, Replacement, publish


def inline_picker(version: Version, compact: bool | None) -> Picker | None:
    """Returns the picker for inline compaction, None for no compaction. `compact`: True or False; None: as `write-only` says."""
    wanted = not version.options.write.write_only if compact is None else compact
    return as_needed(version.options.compaction, version.meta.env.clock()) if wanted else None


def upsert_rows(
    version: Version,
    rows: pa.Table,
    identity: Identity,
    pick: Picker | None,
    replaces: Replacement | None = None,
    check: Check | None = None,
    properties: Mapping[str, str] = {},
    arrival: Arrival | None = None,
) -> Snapshot | None:
    """Writes prepared rows, compacts what `pick` picks, and commits. An error removes the written files and leaves the table
    unchanged. `replaces`: the write is an overwrite, for which `pick` does not count. `check`, `properties`: see `Request`.
    `arrival`: the order of the rows; None: that of the table.

    Returns:
        The new snapshot, None if there are no rows, or the earlier snapshot if `identity` has committed before: `commit` finds it
        and removes what was written. A caller with input to read asks `replayed` first, and saves the work.
    """
    schema, options, env = version.schema, version.options, version.meta.env
    parts = list(split(rows, schema, options.layout.buckets, arrival=arrival))
    reports = options.changelog.producer == INPUT and replaces is None
    changelog = dict(split_input(rows, schema, options.layout.buckets, arrival=arrival)) if reports else {}
    states = base_states(version, [bucket for bucket, _ in parts]) if pick and replaces is None else {}

    def written(item: tuple[Bucket, pa.Table]) -> CommitMessage | None:
        bucket, part = item
        if replaces is not None:
            return write_alone(version, bucket, [part])
        changelog_rows = [with_input_kinds(changelog.pop(bucket))] if changelog else []
        return write_onto(version, bucket, [part], states.get(bucket), pick, changelog_rows)

    messages = together(written, _released(parts), env.workers, version.meta.files.discard)
    return publish(version, messages, identity, replaces, check, properties)


def _released(parts: list[tuple[Bucket, pa.Table]]) -> Iterator[tuple[Bucket, pa.Table]]:
    """Yields the parts and removes each from the list, so its memory is freed early."""
    while parts:
        yield parts.pop(0)
