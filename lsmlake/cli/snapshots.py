"""`lsmlake snapshots`: the history of a table."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.report.views import snapshots_view
from lsmlake.schema.values import json_rows


def snapshots(
    ctx: typer.Context, table: TableName, json: Json = False, warehouse: Warehouse = None, debug: Debug = False
) -> None:
    """List the snapshots of a table, the oldest first."""
    found = open_table(open_lake(ctx, warehouse, debug), table).snapshots()
    emit(json_rows(found), snapshots_view(found), json)
