"""`lsmlake truncate`: remove all rows of a table."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit


def truncate(ctx: typer.Context, table: TableName, json: Json = False, warehouse: Warehouse = None, debug: Debug = False) -> None:
    """Remove all rows of a table, as one commit.

    Older snapshots keep the rows until they expire.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    snapshot = found.truncate()
    text = f"{found.name}: truncated, snapshot {snapshot.id}" if snapshot else f"{found.name}: no rows to remove"
    emit({"snapshot_id": snapshot.id if snapshot else None}, Sentences((text,)), json)
