"""Writes rows to a version of a table: what the verbs that write and INSERT have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.commit.identity import Identity, replayed
from lsmlake.errors import InvalidData
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.file_options import FileOptions
from lsmlake.inputs.places import sentence
from lsmlake.maintain.alter import evolve
from lsmlake.schema.conform import Cast
from lsmlake.tables.version import Version
from lsmlake.write.append import append_tables
from lsmlake.write.prepare import Request, unstored
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables

PROPERTY = "input"
"""The property of a snapshot that says how the files of its rows were read, as far as this was recognised."""
_SAID_MAX = 2000


def write(
    version: Version,
    runtime: Runtime,
    name: str,
    data: object,
    request: Request,
    identity: Identity,
    compact: bool | None,
    evolving: bool = False,
    options: FileOptions = FileOptions(),
) -> Snapshot | None:
    """Writes data, in this process or by the runtime that owns it. `name`: of the table. `compact`, `evolving`: see `upsert`.
    `options`: how text files are read."""
    compactions = partial(runtime.compactions, version.meta)

    def evolved(found: pa.Schema) -> Version:
        return evolve(version, name, found, unstored(found, version.schema, request), compactions)

    evolving = not request.deletes and (evolving or version.options.write.merge_schema) and not replayed(version, identity)
    if runtime.owns(data):
        options.check((), name, "a DataFrame")
        found = runtime.columns_of(data.schema) if evolving else None
        version = evolved(found) if found is not None else version
        return runtime.upsert(version, data, identity, request=request, compact=compact)
    given = as_input(data, version.schema.plain_columns, options=options)
    try:
        return _written(version, runtime, given, request, identity, compact, evolved if evolving else None)
    except InvalidData as error:
        raise given.placed(error) from error.__cause__


def _written(
    version: Version,
    runtime: Runtime,
    given: Input,
    request: Request,
    identity: Identity,
    compact: bool | None,
    evolved: Callable[[pa.Schema], Version] | None,
) -> Snapshot | None:
    tables = given.tables
    if given.text:
        request = replace(request, cast=Cast(runtime.zone))
        request = replace(request, order_by=request.order_by and replace(request.order_by, untyped=True))
    if given.files is not None:
        request = replace(request, properties=partial(_properties, given))
    if evolved is not None and (first := next((table for table in tables if table.num_rows), None)) is not None:
        version, tables = evolved(first.schema), chain([first], tables)
    if version.schema.append_only:
        return append_tables(version, tables, request, identity)
    return upsert_tables(version, tables, request, identity, inline_picker(version, compact))


def _properties(given: Input) -> dict[str, str]:
    said = "; ".join(map(sentence, given.recognised))
    return {PROPERTY: said[:_SAID_MAX]} if said else {}
