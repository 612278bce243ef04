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

from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import Follows
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import check_new
from lsmlake.maintain.succession import succeed, versions
from lsmlake.schema.replaced import replaced
from lsmlake.schema.schema import Schema
from lsmlake.tables.metadata import Metadata
from lsmlake.write.arrival import Ordered
from lsmlake.write.replace import Overwrite
from lsmlake.write.write import new_files


def replace_table(
    meta: Metadata, name: str, wanted: Callable[[int, str], Schema], tables: Sequence[pa.Table], ordered: Ordered = Ordered.ALL
) -> Snapshot:
    """Replace a table.

    Args:
        meta: the table.
        name: its name, for messages.
        wanted: makes the schema, as if for a new table, given the time in milliseconds and the uuid of the table.
        tables: the rows.
        ordered: whether the rows of a key have an order.

    Raises:
        InvalidSchema: no table can have this schema, or this table cannot get it.
        InvalidData: a row does not fit. Nothing has changed.
        CommitConflict: other commits came first on every attempt.
    """
    for version in versions(meta, name, "replace"):
        time_ms = meta.env.clock()
        first = wanted(time_ms, version.schema.table_uuid)
        schema = replaced(version.schema, first, meta.schemas.ids()[-1] + 1, time_ms, name)
        check_new(schema, name)
        after = replace(version, schema=schema)
        messages = new_files(after, tables, ordered)
        overwrite, requires = Overwrite(messages, choose=list), (Follows(version.number),)
        request = Request(Identity(meta.env.ids()), messages, requires, overwrite.restate, remade=True, schema=schema)
        if published := succeed(after, request):
            return published
