"""Writes rows to a version of a table: what the verbs that write and INSERT have in common."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain

from lsmlake.api.inputs import as_input
from lsmlake.api.runtime import Runtime
from lsmlake.commit.replay import Identity, replayed
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain.alter import evolve
from lsmlake.schema.conform import Cast
from lsmlake.store.version import Version
from lsmlake.write.append import append_tables
from lsmlake.write.prepare import Request
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables


def write(
    version: Version,
    runtime: Runtime,
    name: str,
    data: object,
    request: Request,
    identity: Identity,
    compact: bool | None,
    evolving: bool = False,
) -> Snapshot | None:
    """Writes data, in this process or by the runtime that owns it. `name`: of the table. `compact`, `evolving`: see `upsert`."""
    evolved = partial(evolve, name=name, row_kind=request.row_kind, compactions=partial(runtime.compactions, version.meta))
    evolving = not request.deletes and (evolving or version.options.write.merge_schema) and not replayed(version, identity)
    if runtime.owns(data):
        found = runtime.columns_of(data.schema) if evolving else None
        version = evolved(version, found=found) if found is not None else version
        return runtime.upsert(version, data, identity, request=request, compact=compact)
    given = as_input(data, version.schema.plain_columns)
    tables = given.tables
    if given.text:
        request = replace(request, cast=Cast(runtime.zone))
    if evolving and (first := next((table for table in tables if table.num_rows), None)) is not None:
        version, tables = evolved(version, found=first.schema), chain([first], tables)
    if version.schema.append_only:
        return append_tables(version, tables, request, identity)
    return upsert_tables(version, tables, request, identity, inline_picker(version, compact))
