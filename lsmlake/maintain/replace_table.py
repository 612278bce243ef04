"""Replaces a table: its columns, options and rows, by one commit. Older snapshots stay, each with its own columns.

1. Make the next schema (`schema.replaced`).
2. Write the rows to files under it. Nothing names them yet.
3. Store the schema, and publish a snapshot with these files and no others, directly after the version of step 1. If another
   commit comes first, start again. A failure before the publication leaves the table as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from lsmlake.commit.commit import Succession, commit
from lsmlake.commit.replay import Identity
from lsmlake.errors import CommitConflict, CommitUnknown, LakeError
from lsmlake.format.files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.replaced import replaced
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version
from lsmlake.write.append import appended_files
from lsmlake.write.upsert_tables import sorted_files

_ROUNDS = 5


def replace_table(meta: Metadata, name: str, wanted: Callable[[int, str], Schema], tables: Sequence[pa.Table]) -> Snapshot:
    """Replace a table.

    Args:
        meta: the table.
        name: its name, for messages.
        wanted: makes the schema, as if for a new table, given the time in milliseconds and the uuid of the table.
        tables: the rows.

    Raises:
        InvalidSchema: no table can have this schema, or this table cannot get it.
        InvalidData: a row does not fit. Nothing has changed.
        CommitConflict: other commits came first on every attempt.
    """
    for _ in range(_ROUNDS):
        version = Version.latest(meta)
        time_ms = meta.env.clock()
        first = wanted(time_ms, version.schema.table_uuid)
        schema = replaced(version.schema, first, meta.schemas.ids()[-1] + 1, time_ms, name)
        rule_of(schema, name)
        after = replace(version, schema=schema)
        messages = appended_files(after, tables) if schema.append_only else sorted_files(after, tables)
        if published := _publish(version, after, messages):
            return published
    raise CommitConflict(
        "other commits came first on every attempt",
        where=name,
        found=f"{_ROUNDS} attempts",
        cure="pause the writers of the table and replace it again",
    )


def _publish(version: Version, after: Version, messages: Sequence[CommitMessage]) -> Snapshot | None:
    """Step 3; None if another commit or alteration came first."""
    meta, stored = version.meta, False
    try:
        stored = meta.schemas.put(after.schema)
    finally:
        if not stored:
            meta.files.discard(messages)
    if not stored:
        return None
    succession = Succession(after.schema, version.number, remade=True)
    try:
        return commit(after, messages, Identity(meta.env.ids()), succession=succession, replaces=list).snapshot
    except CommitUnknown:
        raise
    except LakeError as failed:
        meta.files.delete_quietly([meta.paths.schema(after.schema.id)])
        if isinstance(failed, CommitConflict):
            return None
        raise
