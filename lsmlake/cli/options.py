"""The arguments that commands share, and the way from them to a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from lsmlake.connect import connect
from lsmlake.errors import InvalidQuery
from lsmlake.lake import Lake
from lsmlake.table import Table

VARIABLE = "LSMLAKE_WAREHOUSE"
_DIRECTORY = f"Directory of the warehouse; else the environment variable {VARIABLE}."
_TRACEBACK = "Show the traceback of an error."

WarehouseFirst = Annotated[
    str | None, typer.Option("--warehouse", "-w", envvar=VARIABLE, show_envvar=False, metavar="DIR", help=_DIRECTORY)
]
"""Before the name of the command, where the environment variable counts as well."""
Warehouse = Annotated[str | None, typer.Option("--warehouse", "-w", metavar="DIR", help=_DIRECTORY)]
Debug = Annotated[bool, typer.Option("--debug", help=_TRACEBACK)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False)]
Buckets = Annotated[list[int] | None, typer.Option("--bucket", min=0, metavar="N", help="Only this bucket; may be repeated.")]

_PATH = re.compile(r"(?:(?P<warehouse>.*)/)?(?P<database>[^/]+)\.db/(?P<table>[^/]+)/?")


def open_lake(ctx: typer.Context, warehouse: str | None, debug: bool, spark: object | None = None) -> Lake:
    """The warehouse named last: after the command, before it, or by the environment. Raises InvalidQuery."""
    ctx.obj.debug |= debug
    location = warehouse or ctx.obj.warehouse
    if not location:
        raise InvalidQuery("no warehouse was named", cure=f"add --warehouse DIR or set {VARIABLE}")
    lake = connect(location, spark=spark)
    if not Path(location.removeprefix("file://")).expanduser().is_dir():
        raise InvalidQuery("no such warehouse", where=location, expected="a directory", cure=f"check --warehouse or {VARIABLE}")
    return lake


def open_table(lake: Lake, name: str) -> Table:
    """Raises TableNotFound or InvalidQuery, the latter with a proposal for what is nearly a name."""
    if "/" in name and (path := _PATH.fullmatch(name)):
        root = f" --warehouse {path['warehouse']}" if path["warehouse"] else ""
        raise InvalidQuery("a path, not a table name", where=repr(name), cure=f"write {path['database']}.{path['table']}{root}")
    if "." not in name and (homes := [database for database in lake.databases() if name in lake.tables(database)]):
        cure = f"did you mean {homes[0]}.{name}?"
        raise InvalidQuery("half a table name", where=repr(name), expected="database.table", cure=cure)
    return lake.table(name)
