"""`lsmlake alter`: change the options of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table, settings
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidOption
from lsmlake.maintain.alter import set_option, unset_option

Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set an option; may be repeated.")]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove an option; may be repeated.")]


def alter(
    ctx: typer.Context,
    table: TableName,
    set: Set = None,
    unset: Unset = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Set or remove options of a table, as one commit.

    If the new options give the files another meaning, the same commit compacts all buckets in full.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    alterations = [*(set_option(name, value) for name, value in settings(set).items()), *map(unset_option, unset or ())]
    if not alterations:
        raise InvalidOption("nothing to alter", cure="add --set NAME=VALUE or --unset NAME")
    before = dict(found.options)
    with spinner() as progress:
        progress.add_task("altering", total=None)
        snapshot = found.alter(*alterations)
    in_snapshot = f" in snapshot {snapshot.id}" if snapshot else ""
    done = "nothing changed" if before == dict(found.options) else f"altered{in_snapshot}"
    emit({"snapshot_id": snapshot.id if snapshot else None}, Sentences((f"{found.name}: {done}",)), json)
