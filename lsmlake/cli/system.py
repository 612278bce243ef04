"""`lsmlake system`: a system table of a table."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from lsmlake.api.readable import Readable
from lsmlake.api.system_tables import SUMMARIES
from lsmlake.cli.arguments import Columns, Debug, Json, SnapshotId, TableName, TagName, Timestamp, Warehouse
from lsmlake.cli.opening import column_names, open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.read.limit import first_rows
from lsmlake.report.rows import Rows
from lsmlake.report.views import statistics_view
from lsmlake.schema.values import json_rows

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The system table.", show_default=False)]
Count = Annotated[int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N rows.")]


def system(
    ctx: typer.Context,
    table: TableName,
    name: Name = None,
    limit: Count = None,
    columns: Columns = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Show a system table of a table, such as audit_log.

    Without NAME, list the system tables.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if name is None:
        rows = pa.table({"name": list(SUMMARIES), "description": list(SUMMARIES.values())})
    else:
        with spinner() as progress:
            progress.add_task("reading", total=None)
            rows = _first(found.system_table(name, snapshot=snapshot, tag=tag, timestamp=timestamp), limit)
    names = column_names(columns)
    if names is not None:
        if unknown := [each for each in names if each not in rows.column_names]:
            raise InvalidQuery(
                "unknown columns", expected=f"some of {rows.column_names}", found=unknown, cure="correct the names"
            )
        rows = rows.select(names)
    by_column = name == "statistics" and names is None and rows.num_rows
    emit(json_rows(rows), statistics_view(rows) if by_column else Rows(rows), json)


def _first(rows: pa.Table | Readable, limit: int | None) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows if limit is None else rows.slice(0, limit)
    if limit is None:
        return rows.to_arrow()
    batches = rows.to_batches()
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    return pa.concat_tables([batches.schema.empty_table(), *first_rows(tables, limit)])
