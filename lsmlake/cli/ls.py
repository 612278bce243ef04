"""`lsmlake ls`: the tables of a warehouse."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow.compute as pc
import typer

from lsmlake.api.lake import Lake
from lsmlake.cli.arguments import DatabaseName, Debug, Json, Warehouse
from lsmlake.cli.guard import FAILED, one_line
from lsmlake.cli.opening import open_lake
from lsmlake.cli.output import emit
from lsmlake.errors import LakeError
from lsmlake.report.views import tables_view


def ls(
    ctx: typer.Context, database: DatabaseName = None, json: Json = False, warehouse: Warehouse = None, debug: Debug = False
) -> None:
    """List the tables of the warehouse.

    Row counts include all rows at level 0, even those that replace others. A database without tables is listed by its name. A
    table that cannot be read is listed without numbers; its error goes to standard error, and the exit code is 1.
    """
    lake = open_lake(ctx, warehouse, debug)
    records = list(_records(lake, lake.databases() if database is None else [database]))
    emit(records, tables_view(records, database or lake.env.storage.root), json)
    broken = [record for record in records if record["error"]]
    for record in broken:
        typer.echo(f"error: {record['error']}", err=True)
    if broken:
        raise typer.Exit(FAILED)


def _records(lake: Lake, databases: list[str]) -> Iterator[dict[str, object]]:
    """One record per table, and one per database without tables."""
    for database in databases:
        tables = lake.tables(database)
        if not tables:
            yield {"name": database, "database": database, "table": None, "error": None}
        for table in tables:
            yield {"name": f"{database}.{table}", "database": database, "table": table, **_holdings(lake, f"{database}.{table}")}


def _holdings(lake: Lake, name: str) -> dict[str, object]:
    try:
        table = lake.table(name)
        version = table.version
        schema, latest = version.schema, version.snapshot
        live = version.live() if latest else None
    except LakeError as broken:
        return {"error": one_line(broken)}
    return {
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "comment": schema.comment,
        "snapshot_id": latest.id if latest else None,
        "commit_time": datetime.datetime.fromtimestamp(latest.time_ms / 1000, datetime.timezone.utc) if latest else None,
        "rows": latest.total_rows if latest else 0,
        "files": live.num_rows if latest else 0,
        "bytes": (pc.sum(live["bytes"]).as_py() or 0) if latest else 0,
        "error": None,
    }
