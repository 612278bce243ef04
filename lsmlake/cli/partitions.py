"""`lsmlake partitions`: the partitions of a table."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Debug, Json, SnapshotId, TableName, TagName, Timestamp, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.report.views import partitions_view
from lsmlake.schema.values import json_rows


def partitions(
    ctx: typer.Context,
    table: TableName,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List the partitions of a table.

    For a table without partitions, prints one line.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table).partitions(snapshot, tag=tag, timestamp=timestamp)
    emit(json_rows(found), partitions_view(found), json)
