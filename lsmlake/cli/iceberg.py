"""`lsmlake iceberg`: publish the Iceberg metadata of a table."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit


def iceberg(ctx: typer.Context, table: TableName, json: Json = False, warehouse: Warehouse = None, debug: Debug = False) -> None:
    """Publish a table for readers of Apache Iceberg.

    Shows the address of the newest metadata file. With the option metadata.iceberg, every commit does this.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    file = found.publish_iceberg()
    emit({"metadata_file": file}, Sentences((file,)), json)
