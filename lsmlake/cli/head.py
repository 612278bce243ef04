"""`lsmlake head`: some rows of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.arguments import Columns, Debug, Json, SnapshotId, TableName, TagName, Timestamp, Warehouse, Where
from lsmlake.cli.opening import column_names, open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.cli.progress import spinner
from lsmlake.report.rows import Rows
from lsmlake.schema.values import json_rows

Count = Annotated[int, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N rows.")]


def head(
    ctx: typer.Context,
    table: TableName,
    limit: Count = 10,
    where: Where = None,
    columns: Columns = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Show some rows of a table.

    The order of rows is not defined. A terminal shows the columns that fit; --json and a pipe get all columns.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    moment = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp}
    scan = found.scan(where=where, columns=column_names(columns), limit=limit, **moment)
    with spinner() as progress:
        progress.add_task("reading", total=None)
        rows = scan.to_arrow()
    emit(json_rows(rows), Rows(rows), json)
