"""`lsmlake files`: the data files of a snapshot."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Debug, Json, SnapshotId, TableName, TagName, Timestamp, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.report.views import files_view
from lsmlake.schema.values import json_rows


def files(
    ctx: typer.Context,
    table: TableName,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List the live data files of a table.

    Ordered by partition and bucket, the newest run first.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table).files(snapshot, tag=tag, timestamp=timestamp)
    emit(json_rows(found), files_view(found), json)
