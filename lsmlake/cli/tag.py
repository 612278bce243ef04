"""`lsmlake tag`: the tags of a table, which are names of snapshots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.api.table import Table
from lsmlake.cli.arguments import Debug, Json, SnapshotId, TableName, Timestamp, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.refs.tags import TagReport
from lsmlake.report.text import counted
from lsmlake.report.views import tags_view
from lsmlake.schema.values import json_rows

Create = Annotated[str | None, typer.Option("--create", metavar="NAME", help="Tag the latest snapshot, or the one given.")]
Replace = Annotated[bool, typer.Option("--replace", help="With --create: replace the tag if it exists.")]
Retain = Annotated[str | None, typer.Option("--retain", metavar="TIME", help="With --create: how long to keep the tag: '7 d'.")]
Rename = Annotated[str | None, typer.Option("--rename", metavar="NAME", help="Give this tag the name that --to says.")]
To = Annotated[str | None, typer.Option("--to", metavar="NAME", help="With --rename: the new name.")]
Delete = Annotated[str | None, typer.Option("--delete", metavar="NAME", help="Delete this tag, and files that only it needs.")]
Expire = Annotated[bool, typer.Option("--expire", help="Delete all tags whose time is over.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --delete or --expire: delete nothing, show what would be.")]


def tag(
    ctx: typer.Context,
    table: TableName,
    create: Create = None,
    snapshot: SnapshotId = None,
    timestamp: Timestamp = None,
    retain: Retain = None,
    replace: Replace = False,
    rename: Rename = None,
    to: To = None,
    delete: Delete = None,
    expire: Expire = False,
    dry_run: DryRun = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List, create, rename or delete the tags of a table.

    A tag names a snapshot. Its rows can be read by this name, with --tag of other commands, also after the snapshot has expired.
    """
    needed = {
        "--snapshot": ("--create", snapshot is not None),
        "--timestamp": ("--create", timestamp is not None),
        "--retain": ("--create", retain is not None),
        "--replace": ("--create", replace),
        "--to": ("--rename", to is not None),
        "--dry-run": ("--delete or --expire", dry_run),
    }
    verbs = {"--create": create, "--rename": rename, "--delete": delete, "--expire": expire or None}
    _check([name for name, value in verbs.items() if value is not None], needed)
    if rename is not None and to is None:
        raise InvalidQuery("--rename needs the new name", cure="add --to NAME")
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if delete is not None or expire:
        _remove(found, delete, dry_run, json)
        return
    if create is not None:
        found.create_tag(create, snapshot, timestamp=timestamp, retain=retain, replace=replace)
    if rename is not None:
        found.rename_tag(rename, to)
    listed = found.tags()
    emit(json_rows(listed), tags_view(listed), json)


def _check(given: list[str], needed: dict[str, tuple[str, bool]]) -> None:
    """Refuse options that have no effect. `needed`: option -> the options it belongs to, and whether it was given."""
    if len(given) > 1:
        raise InvalidQuery(f"{' and '.join(given)} exclude each other", cure="run one command after the other")
    for name, (verbs, is_given) in needed.items():
        if is_given and not set(verbs.split(" or ")) & set(given):
            raise InvalidQuery(f"{name} has no effect without {verbs}", cure=f"add {verbs}, or leave {name} out")


def _remove(found: Table, name: str | None, dry_run: bool, json: bool) -> None:
    with spinner() as progress:
        progress.add_task("deleting tags", total=None)
        report = found.expire_tags(dry_run=dry_run) if name is None else found.delete_tag(name, dry_run=dry_run)
    emit(asdict(report), Sentences(tuple(_sentences(found.name, report, dry_run))), json)


def _sentences(table: str, report: TagReport, dry_run: bool) -> list[str]:
    if not report.tags:
        return [f"{table}: no tag to delete"]
    would = "would be " if dry_run else ""
    files = f"{counted(report.files, 'file')} {would}removed"
    first = f"{table}: {', '.join(report.tags)} {would}deleted, {files}"
    return [first, *(f"{name}: its files were not deleted: {why}" for name, why in report.left.items())]
