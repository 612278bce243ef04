"""`lsmlake consumers`: the named readers of a table's changes."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.errors import InvalidQuery
from lsmlake.report.views import consumers_view
from lsmlake.schema.values import json_rows
from lsmlake.tables.consumers import is_consumer

Remove = Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Remove this consumer, then list the others.")]


def consumers(
    ctx: typer.Context,
    table: TableName,
    remove: Remove = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List the consumers of a table and what each reads next.

    Snapshots that a consumer has yet to read do not expire.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if remove is not None:
        if not is_consumer(found.meta, remove):
            raise InvalidQuery(
                "no such consumer", where=found.name, found=repr(remove), cure="`lsmlake consumers TABLE` lists them"
            )
        found.reset_consumer(remove)
    listed = found.consumers()
    emit(json_rows(listed), consumers_view(listed), json)
