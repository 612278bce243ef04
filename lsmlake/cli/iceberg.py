"""`lsmlake iceberg`: publish the Iceberg metadata of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit

Catalog = Annotated[str | None, typer.Option("--catalog", metavar="NAME", help="The name of a catalog, such as prod.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="With --catalog: the table there, namespace.table; default: TABLE.")
]


def iceberg(
    ctx: typer.Context,
    table: TableName,
    catalog: Catalog = None,
    name: Name = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Publish a table for readers of Apache Iceberg.

    Shows the address of the newest metadata file. With the option metadata.iceberg, every commit publishes. With --catalog, the
    table is registered in a catalog of Iceberg, or brought up to date there. PyIceberg finds the properties of the catalog in
    ~/.pyiceberg.yaml, or in environment variables such as PYICEBERG_CATALOG__PROD__URI.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    file = found.publish_iceberg(catalog=catalog, name=name)
    emit({"metadata_file": file}, Sentences((file,)), json)
