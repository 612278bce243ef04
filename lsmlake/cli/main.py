"""`lsmlake`: the command line. A command a file; this one puts them together."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from lsmlake.cli.compact import compact
from lsmlake.cli.expire import expire
from lsmlake.cli.files import files
from lsmlake.cli.guard import EXIT_CODES, GuardedGroup, Settings
from lsmlake.cli.java import require_java
from lsmlake.cli.ls import ls
from lsmlake.cli.options import Debug, WarehouseFirst
from lsmlake.cli.show import show
from lsmlake.cli.snapshots import snapshots
from lsmlake.cli.verify import verify

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lsmlake {version('lsmlake')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")]
Keep = Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Leave the warehouse in this directory.")]


@app.callback()
def lsmlake(ctx: typer.Context, warehouse: WarehouseFirst = None, debug: Debug = False, version: Version = False) -> None:
    """Primary-key tables on the data lake. Tables are named database.table."""
    ctx.obj = Settings(warehouse, debug)


@app.command()
def demo(ctx: typer.Context, keep: Keep = None, debug: Debug = False) -> None:
    """Run a year of real flights through a table.

    On a local Spark, so it needs Java; the result is proved against the source.
    """
    ctx.obj.debug |= debug
    require_java()
    from lsmlake.cli.demo.run import run_demo  # needs pyspark, which is slow to import, and an extra

    run_demo(keep)


for command in (ls, show, snapshots, files, compact, expire, verify):
    app.command()(command)


def run() -> None:
    """The console script."""
    sys.stdout.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no reason to stop
    app(prog_name="lsmlake")
