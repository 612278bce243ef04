"""The arguments that commands share. Imports nothing heavy, because `lsmlake --help` loads this module."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.completion import database_names, table_names
from lsmlake.cli.guard import VARIABLE

_DIRECTORY = f"Directory of the warehouse; default: the environment variable {VARIABLE}."
_TRACEBACK = "Show the traceback of an error."

WarehouseFirst = Annotated[
    str | None, typer.Option("--warehouse", "-w", envvar=VARIABLE, show_envvar=False, metavar="DIR", help=_DIRECTORY)
]
"""The option before the command's name; it also reads the environment variable."""
Warehouse = Annotated[str | None, typer.Option("--warehouse", "-w", metavar="DIR", help=_DIRECTORY)]
Debug = Annotated[bool, typer.Option("--debug", help=_TRACEBACK)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False, autocompletion=table_names)]
DatabaseName = Annotated[
    str | None,
    typer.Argument(metavar="DATABASE", help="Only its tables.", show_default=False, autocompletion=database_names),
]
OptionalTableName = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="database.table", show_default=False, autocompletion=table_names)
]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help='Only rows that satisfy this: "amount > 10".')]
Columns = Annotated[str | None, typer.Option("--columns", metavar="NAMES", help="Only these columns, separated by commas.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", min=1, metavar="N", help="Read this snapshot, not the latest.")]
TagName = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="Read the snapshot with this tag.")]
_AT_TIME = "Read the snapshot of this time, in UTC unless it names a zone: '2026-01-31 12:00'."
Timestamp = Annotated[str | None, typer.Option("--timestamp", metavar="TIME", help=_AT_TIME)]
Buckets = Annotated[list[int] | None, typer.Option("--bucket", min=0, metavar="N", help="Only this bucket; may be repeated.")]
Limit = Annotated[int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="Show at most N rows.")]
Positive = Annotated[int | None, typer.Option(min=1)]
Natural = Annotated[int | None, typer.Option(min=0)]
"""Options that a command explains itself."""
