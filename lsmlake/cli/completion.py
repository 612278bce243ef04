"""Shell completion of table and database names, from the warehouse of the command line or the environment."""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from lsmlake.cli.guard import VARIABLE
from lsmlake.errors import LakeError


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names database.table that begin with `incomplete`."""

    def named(lake) -> list[str]:
        database, dot, _ = incomplete.partition(".")
        databases = [name for name in lake.databases() if (name == database if dot else name.startswith(database))]
        return [f"{name}.{table}" for name in databases for table in lake.tables(name)]

    return _offered(ctx, named, incomplete)


def database_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of databases that begin with `incomplete`."""
    return _offered(ctx, lambda lake: lake.databases(), incomplete)


def _offered(ctx: typer.Context, names: Callable[..., list[str]], incomplete: str) -> list[str]:
    """The matching names; none if there is no readable warehouse, since an error would end up in the line that the user types."""
    from lsmlake.warehouse import connect

    first = ctx.find_root().params.get("warehouse")
    location = ctx.params.get("warehouse") or first or os.environ.get(VARIABLE)
    if not location:
        return []
    try:
        return [name for name in names(connect(location)) if name.startswith(incomplete)]
    except LakeError:
        return []
