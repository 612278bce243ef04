"""The arguments that commands share, and the completion of names in them, from the warehouse of the command line.

Imports nothing heavy, because `lsmlake --help` loads this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from lsmlake.cli.guard import VARIABLE
from lsmlake.errors import LakeError


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names database.table that begin with `incomplete`."""

    def named(databases) -> list[str]:
        database, dot, _ = incomplete.partition(".")
        homes = [name for name in databases.names() if (name == database if dot else name.startswith(database))]
        return [f"{name}.{table}" for name in homes for table in databases.tables(name)]

    return _offered(ctx, named, incomplete)


def database_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of databases that begin with `incomplete`."""
    return _offered(ctx, lambda databases: databases.names(), incomplete)


def _offered(ctx: typer.Context, names: Callable[..., list[str]], incomplete: str) -> list[str]:
    """The matching names; none if there is no readable warehouse, since an error would end up in the line that the user types."""
    from lsmlake.storage.location import storage_at
    from lsmlake.tables.databases import Databases

    first = ctx.find_root().params.get("warehouse")
    location = ctx.params.get("warehouse") or first or os.environ.get(VARIABLE)
    if not location:
        return []
    try:
        return [name for name in names(Databases(storage_at(location))) if name.startswith(incomplete)]
    except LakeError:
        return []


_DIRECTORY = f"Directory of the warehouse; default: the environment variable {VARIABLE}."
_TRACEBACK = "Show the traceback of an error."

WarehouseFirst = Annotated[
    str | None, typer.Option("--warehouse", "-w", envvar=VARIABLE, show_envvar=False, metavar="DIR", help=_DIRECTORY)
]
"""The option --warehouse before the command's name; it also reads the environment variable."""
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
"""Option types whose help text is in the docstring of the command."""
