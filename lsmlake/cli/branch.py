"""`lsmlake branch`: the branches of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.report.text import counted
from lsmlake.report.views import branches_view
from lsmlake.schema.values import json_rows

_AT = "Create a branch at the latest snapshot, or at another."
Create = Annotated[str | None, typer.Option("--create", metavar="NAME", help=_AT)]
Snapshot = Annotated[int | None, typer.Option("--snapshot", min=1, metavar="N", help="With --create: begin at this snapshot.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="With --create: begin at this tag.")]
Rename = Annotated[str | None, typer.Option("--rename", metavar="NAME", help="Give this branch the name that --to says.")]
To = Annotated[str | None, typer.Option("--to", metavar="NAME", help="With --rename: the new name.")]
Delete = Annotated[str | None, typer.Option("--delete", metavar="NAME", help="Delete this branch, and files that only it needs.")]
_FORWARD = "Make the commits of this branch the commits of the table, which must have no others since."
Forward = Annotated[str | None, typer.Option("--fast-forward", metavar="NAME", help=_FORWARD)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --delete: delete nothing, show what would be.")]


def branch(
    ctx: typer.Context,
    table: TableName,
    create: Create = None,
    snapshot: Snapshot = None,
    tag: Tag = None,
    rename: Rename = None,
    to: To = None,
    delete: Delete = None,
    fast_forward: Forward = None,
    dry_run: DryRun = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List, create, rename, delete or fast-forward to branches.

    A branch has commits, schemas and tags of its own. Other commands take it as 'database.table$branch_NAME'.
    """
    verbs = {"--create": create, "--rename": rename, "--delete": delete, "--fast-forward": fast_forward}
    needed = {"--snapshot": ("--create", snapshot), "--tag": ("--create", tag), "--to": ("--rename", to)}
    _check([name for name, value in verbs.items() if value is not None], needed | {"--dry-run": ("--delete", dry_run or None)})
    if rename is not None and to is None:
        raise InvalidQuery("--rename needs the new name", cure="add --to NAME")
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if delete is not None:
        with spinner() as progress:
            progress.add_task("deleting the branch", total=None)
            report = found.delete_branch(delete, dry_run=dry_run)
        would, files = "would be " if dry_run else "", counted(report.files, "file")
        sentence = f"{found.name}: branch {delete} {would}deleted, {files} {would}removed"
        emit(asdict(report), Sentences((sentence,)), json)
        return
    if fast_forward is not None:
        latest = found.fast_forward(fast_forward)
        number = None if latest is None else latest.id
        emit({"snapshot_id": number}, Sentences((f"{found.name}: at snapshot {number or 0} of branch {fast_forward}",)), json)
        return
    if create is not None:
        found.create_branch(create, tag=tag, snapshot=snapshot)
    if rename is not None:
        found.rename_branch(rename, to)
    listed = found.branches()
    emit(json_rows(listed), branches_view(listed), json)


def _check(given: list[str], needed: dict[str, tuple[str, object]]) -> None:
    """Refuse options that have no effect. `needed`: option -> the option it belongs to, and its value."""
    if len(given) > 1:
        raise InvalidQuery(f"{' and '.join(given)} exclude each other", cure="run one command after the other")
    for name, (verb, value) in needed.items():
        if value is not None and verb not in given:
            raise InvalidQuery(f"{name} has no effect without {verb}", cure=f"add {verb}, or leave {name} out")
