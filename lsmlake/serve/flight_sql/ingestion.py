"""Bulk ingestion: rows that a client sends become one commit of a table, as `Table.upsert` or `Table.append` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidQuery, TableExists, TableNotFound
from lsmlake.serve.flight_sql.flight_messages import CommandStatementIngest, TableDefinitionOptions
from lsmlake.serve.flight_sql.wire_format import decode
from lsmlake.sql.information_schema import CATALOG
from lsmlake.tables.databases import Databases

_CREATE, _APPEND = 1, 2
_LEAVE_OUT = "leave it out"


def ingest(lake: Lake, asked: CommandStatementIngest, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes the rows; returns their number. A table that is created is an append-only one.

    Raises:
        InvalidQuery: the command asks for something that no table has.
        TableExists, TableNotFound: by the options of the command.
        As `Table.upsert`.
    """
    name, definition = _name(asked), decode(TableDefinitionOptions, asked.definition)
    count = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    rows = pa.RecordBatchReader.from_batches(schema, counted())
    databases = Databases(lake.env.storage)
    if not databases.is_table(databases.root(name)):
        if definition.if_not_exist != _CREATE:
            raise TableNotFound(f"there is no table {name!r}", cure="create it by SQL, or let the driver create it")
        lake.create_table_from(name, rows, cast=True)
        return count
    if definition.if_exists != _APPEND:
        found = "replace" if definition.if_exists == 3 else "create"
        cure = "append to it; to replace its rows, TRUNCATE it before"
        raise TableExists(f"table {name!r} exists", found=f"the mode {found}", cure=cure)
    table = lake.table(name)
    write = table.upsert if table.primary_key else table.append
    write(rows, cast=True)
    return count


def _name(asked: CommandStatementIngest) -> str:
    """The name of the table as database.table. Refuses what the command asks for beside it."""
    if asked.temporary:
        raise InvalidQuery("there are no temporary tables", cure=_LEAVE_OUT)
    if asked.options:
        raise InvalidQuery("bulk ingestion has no options", found=f"{len(asked.options)} options", cure=_LEAVE_OUT)
    if asked.catalog not in (None, "", CATALOG):
        raise InvalidQuery("there is no such catalog", expected=CATALOG, found=asked.catalog, cure=_LEAVE_OUT)
    return f"{asked.schema}.{asked.table}" if asked.schema else asked.table
