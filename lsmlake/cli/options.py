"""`lsmlake options`: the reference of all options, and the options of a table."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from lsmlake.cli.arguments import Debug, Json, OptionalTableName, Warehouse
from lsmlake.cli.opening import note_debug, open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.maintain.listings import option_reference
from lsmlake.report.reference import Reference
from lsmlake.report.views import options_view
from lsmlake.schema.values import json_rows

All = Annotated[bool, typer.Option("--all", help="Include the options that the table does not set.")]


def options(
    ctx: typer.Context,
    table: OptionalTableName = None,
    all: All = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List the options of a table, or all supported options.

    With TABLE, list the options that the table sets; without it, every option with its default and meaning.
    """
    if table is None:
        note_debug(ctx, debug)
        found = option_reference()
        emit(json_rows(found), Reference(found), json)
        return
    found = open_table(open_lake(ctx, warehouse, debug), table).options_table()
    listed: pa.Table = found if all else found.filter(pc.is_valid(found["value"]))
    emit(json_rows(listed), options_view(listed, found.num_rows - listed.num_rows), json)
