"""`lsmlake sql`: statements of SQL, and a shell for them."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from typing import Annotated

import pyarrow as pa
import typer

from lsmlake.api.lake import Lake
from lsmlake.cli.arguments import Debug, Json, Warehouse
from lsmlake.cli.opening import open_lake, pairs
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.cli.sql_shell import run_shell, statements
from lsmlake.errors import InvalidQuery
from lsmlake.report.rows import Rows
from lsmlake.schema.values import json_rows, texts

_FORMATS = ("table", "csv", "json")
Statement = Annotated[
    str | None, typer.Argument(metavar="SQL", help="Statements, separated by semicolons. Default: standard input, or a shell.")
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, csv or json.")]
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
    format: Format = "table",
    arg: Arguments = None,
    time_zone: TimeZone = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Run SQL statements, or a shell for them.

    Tables are written database.table. On a terminal without SQL a shell starts, with history and completion.
    """
    if format not in _FORMATS:
        raise InvalidQuery("unknown format", where="--format", expected=" or ".join(_FORMATS), found=repr(format))
    lake, chosen = open_lake(ctx, warehouse, debug, time_zone=time_zone), "json" if json else format
    args = dict(pairs(arg, "NAME=VALUE")) or None
    if statement is None and sys.stdin.isatty():
        run_shell(lake, lambda text: _run(lake, text, None, chosen))
        return
    found, _ = statements(sys.stdin.read() if statement is None else statement)
    for text in found:
        _run(lake, text, args, chosen)


def _run(lake: Lake, text: str, args: dict[str, str] | None, format: str) -> None:
    with spinner() as progress:
        progress.add_task("running", total=None)
        rows = lake.sql(text, args).to_arrow()
    if format == "csv":
        emit(None, Sentences(tuple(_csv(rows))), False)
    elif rows.num_columns or format == "json":
        emit(json_rows(rows), Rows(rows), format == "json")
    else:
        emit(None, Sentences(("done",)), False)


def _csv(rows: pa.Table) -> Iterable[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(zip(*(texts(column) for column in rows.columns), strict=True))
    return buffer.getvalue().rstrip("\n").split("\n")
