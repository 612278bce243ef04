"""`lsmlake changes`: the row changes between two snapshots of a table."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer

from lsmlake.cli.arguments import Columns, Debug, Json, TableName, Warehouse, Where
from lsmlake.cli.opening import column_names, open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.cli.progress import spinner
from lsmlake.read.limit import first_rows
from lsmlake.report.rows import Rows
from lsmlake.schema.values import json_rows

_BEFORE = "The snapshot before the first change, by number, tag or time; 0: none."
Start = Annotated[str, typer.Argument(metavar="START", help=_BEFORE)]
End = Annotated[str | None, typer.Argument(metavar="END", help="The last snapshot, by number, tag or time; default: the latest.")]
Mode = Annotated[str, typer.Option("--mode", metavar="MODE", help="diff, changelog or delta.")]
Count = Annotated[int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N changes.")]


def changes(
    ctx: typer.Context,
    table: TableName,
    start: Start,
    end: End = None,
    mode: Mode = "diff",
    limit: Count = None,
    where: Where = None,
    columns: Columns = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List the changes between two snapshots of a table.

    Mode diff compares the two; changelog reads what the table's changelog-producer wrote; delta reads what the commits wrote.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    tags = found.meta.tags.names()
    first, last = _moment(start, tags), None if end is None else _moment(end, tags)
    selected = found.changes(first, last, mode=mode, where=where, columns=column_names(columns))
    with spinner() as progress:
        progress.add_task("reading", total=None)
        rows = selected.to_arrow() if limit is None else _first(selected.to_batches(), limit)
    emit(json_rows(rows), Rows(rows, "change"), json)


def _moment(text: str, tags: Sequence[str]) -> int | str | datetime.datetime:
    """A number or a time, unless a tag has it as its name."""
    if text in tags:
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return text


def _first(changes: pa.RecordBatchReader, limit: int) -> pa.Table:
    tables = (pa.Table.from_batches([batch]) for batch in changes)
    return pa.concat_tables([changes.schema.empty_table(), *first_rows(tables, limit)])
