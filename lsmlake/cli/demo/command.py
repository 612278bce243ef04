"""`lsmlake demo`: the command, and the checks before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug
from lsmlake.cli.demo.demo_engine import EngineName
from lsmlake.cli.opening import note_debug

Keep = Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Leave the warehouse in this directory.")]


_ENGINE = "Where it runs: spark or python. Default: spark, if Java is there."
On = Annotated[str | None, typer.Option("--engine", metavar="ENGINE", help=_ENGINE, show_default=False)]


def demo(ctx: typer.Context, keep: Keep = None, engine: On = None, debug: Debug = False) -> None:
    """Run a year of real flights through a table.

    Runs on a local Spark, or without Java in this process. Compares the result with the source.
    """
    note_debug(ctx, debug)
    chosen = EngineName.of(engine)
    from lsmlake.cli.demo.run import run_demo

    run_demo(keep, chosen)
