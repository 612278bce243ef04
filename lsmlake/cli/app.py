"""The command line, whose commands are files of their own: `commands.py` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake import __version__
from lsmlake.cli.arguments import Debug, WarehouseFirst
from lsmlake.cli.commands import CONTEXT, add_to
from lsmlake.cli.guard import EXIT_CODES, GuardedGroup, Settings

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    context_settings=CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lsmlake {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")]


@app.callback()
def lsmlake(ctx: typer.Context, warehouse: WarehouseFirst = None, debug: Debug = False, version: Version = False) -> None:
    """Primary-key tables on the data lake. Tables are named database.table."""
    ctx.obj = Settings(warehouse, debug)


add_to(app)
