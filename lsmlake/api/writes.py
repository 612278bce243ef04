"""Writes rows to a version of a table, for INSERT and the verbs that write."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.commit.request import replayed
from lsmlake.errors import InvalidData
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.places import sentence
from lsmlake.maintain.alter import evolve
from lsmlake.schema.conform import Cast
from lsmlake.tables.version import Version
from lsmlake.write.prepare import unstored
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

PROPERTY = "input"
"""The snapshot property with the recognised settings, such as the delimiter, with which the input files were read."""
_SAID_MAX = 2000


def write(version: Version, runtime: Runtime, name: str, data: object, request: WriteRequest) -> Snapshot | None:
    """Writes data, in this process or by the runtime that owns it. `name`: the name of the table."""
    compactions = partial(runtime.compactions, version.meta)

    def evolved(columns: pa.Schema) -> Version:
        return evolve(version, name, columns, unstored(columns, version.schema, request), compactions)

    evolves = not request.deletes and (request.evolve or version.options.write.merge_schema)
    evolves = evolves and not replayed(version, request.identity)
    if runtime.owns(data):
        request.files.check((), name, "a DataFrame")
        columns = runtime.columns_of(data.schema) if evolves else None
        return runtime.on_spark("upsert of a distributed data set").upsert(
            version if columns is None else evolved(columns), data, request
        )
    given = as_input(data, version.schema.plain_columns, options=request.files)
    tables = given.tables
    if given.text:
        request = replace(request, cast=Cast(runtime.zone))
    if given.files is not None:
        request = replace(request, properties=partial(_properties, given))
    try:
        if evolves and (first := next((table for table in tables if table.num_rows), None)) is not None:
            version, tables = evolved(first.schema), chain([first], tables)
        return write_tables(version, tables, request)
    except InvalidData as error:
        raise given.placed(error) from error.__cause__


def _properties(given: Input) -> dict[str, str]:
    said = "; ".join(map(sentence, given.recognised))
    return {PROPERTY: said[:_SAID_MAX]} if said else {}
