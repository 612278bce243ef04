"""Opens the warehouse and the table that the arguments of a command name, with all their verbs."""

from __future__ import annotations

import typer

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.argument_reading import check_name, location_of
from lsmlake.warehouse import connect


def open_lake(ctx: typer.Context, *, create: bool = False, time_zone: str | None = None) -> Lake:
    """Open the warehouse. Raises InvalidQuery."""
    return connect(location_of(ctx, create=create), time_zone=time_zone)


def open_table(lake: Lake, name: str) -> Table:
    """Open a table. Raises TableNotFound, or InvalidQuery with a suggestion if `name` is almost a table name."""
    check_name(name, lake.databases, lake.tables)
    return lake.table(name)


def note_debug(ctx: typer.Context, debug: bool) -> None:
    """Record --debug, which can be given before or after the name of the command."""
    ctx.obj.debug |= debug
