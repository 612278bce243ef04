"""The arguments that commands share. Light to import: `lsmlake --help` needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.completion import database_names, table_names
from lsmlake.cli.guard import VARIABLE

_DIRECTORY = f"Directory of the warehouse; else the environment variable {VARIABLE}."
_TRACEBACK = "Show the traceback of an error."

WarehouseFirst = Annotated[
    str | None, typer.Option("--warehouse", "-w", envvar=VARIABLE, show_envvar=False, metavar="DIR", help=_DIRECTORY)
]
"""Before the name of the command, where the environment variable counts as well."""
Warehouse = Annotated[str | None, typer.Option("--warehouse", "-w", metavar="DIR", help=_DIRECTORY)]
Debug = Annotated[bool, typer.Option("--debug", help=_TRACEBACK)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False, autocompletion=table_names)]
DatabaseName = Annotated[
    str | None,
    typer.Argument(metavar="[DATABASE]", help="Only its tables.", show_default=False, autocompletion=database_names),
]
OptionalTableName = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="database.table", show_default=False, autocompletion=table_names)
]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help='Only rows of which this is true: "amount > 10".')]
Columns = Annotated[str | None, typer.Option("--columns", metavar="NAMES", help="Only these columns, separated by commas.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", min=1, metavar="N", help="Of this snapshot, not the latest.")]
Buckets = Annotated[list[int] | None, typer.Option("--bucket", min=0, metavar="N", help="Only this bucket; may be repeated.")]
