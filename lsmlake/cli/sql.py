"""`lsmlake sql`: statements of SQL, and a shell for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from lsmlake.api.lake import Lake
from lsmlake.cli.arguments import Debug, Warehouse
from lsmlake.cli.opening import open_lake, pairs
from lsmlake.cli.progress import waiting
from lsmlake.cli.sql_output import Output, opened, output_of, write
from lsmlake.cli.sql_shell import run_shell, statements
from lsmlake.errors import InvalidQuery
from lsmlake.sql import stream

Statement = Annotated[
    str | None, typer.Argument(metavar="SQL", help="Statements, separated by semicolons. Default: standard input, or a shell.")
]
_FORMAT = "table (its first 100 rows), csv, json (a line per row), parquet or arrow. Default: table, or by the name of --output."
Format = Annotated[str | None, typer.Option("--format", metavar="FORMAT", help=_FORMAT, show_default=False)]
File = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the rows of the query to this file.", show_default=False),
]
Array = Annotated[bool, typer.Option("--json", help="Print one JSON array for each statement.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="NAME=VALUE", help="The text that the parameter :NAME stands for; may be repeated."),
]
TimeZone = Annotated[
    str | None,
    typer.Option("--time-zone", metavar="ZONE", help="The zone of times without one. Default: UTC.", show_default=False),
]


def sql(
    ctx: typer.Context,
    statement: Statement = None,
    format: Format = None,
    output: File = None,
    arg: Arguments = None,
    time_zone: TimeZone = None,
    json: Array = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Run SQL statements, or a shell for them.

    Tables are written database.table. On a terminal without SQL a shell starts, with history and completion.
    """
    chosen = output_of(format, json, output)
    args = dict(pairs(arg, "NAME=VALUE")) or None
    shell = statement is None and sys.stdin.isatty()
    if shell and (args or chosen.takes_one_query):
        option = chosen.takes_one_query or "--arg"
        raise InvalidQuery("a shell does not take the option", where=option, cure="give the SQL after the command")
    lake = open_lake(ctx, warehouse, debug, time_zone=time_zone)
    if shell:
        run_shell(lake, lambda text: _run(lake, text, None, chosen))
        return
    found, _ = statements(sys.stdin.read() if statement is None else statement)
    if chosen.takes_one_query and len(found) != 1:
        raise InvalidQuery(f"{chosen.takes_one_query} takes one query", found=f"{len(found)} statements", cure="write one")
    for text in found:
        _run(lake, text, args, chosen)


def _run(lake: Lake, text: str, args: Mapping[str, object] | None, output: Output) -> None:
    with opened(output) as file:
        write(waiting(lambda: stream.sql(lake, text, args, query_for=output.takes_one_query)), output, file)
