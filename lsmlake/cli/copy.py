"""`lsmlake copy`: copy a table at one snapshot into another warehouse."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import progress_bar
from lsmlake.maintain.copy import CopyReport
from lsmlake.maintain.copy import copy as copy_table
from lsmlake.read.travel import Moment
from lsmlake.report.text import counted
from lsmlake.report.units import human_bytes
from lsmlake.storage.location import storage_at

Target = Annotated[
    str, typer.Argument(metavar="URL", help="The warehouse of the copy: a directory, s3://..., gs://..., az://...")
]
AtSnapshot = Annotated[int | None, typer.Option("--snapshot", min=1, metavar="N", help="Copy this snapshot, not the latest.")]
AtTag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="Copy the snapshot with this tag.")]
_TIME = "Copy the snapshot of this time, in UTC unless it names a zone: '2026-01-31 12:00'."
AtTime = Annotated[str | None, typer.Option("--timestamp", metavar="TIME", help=_TIME)]
NewName = Annotated[str | None, typer.Option("--name", metavar="DATABASE.TABLE", help="The name of the copy; default: the same.")]


def copy(
    ctx: typer.Context,
    table: TableName,
    url: Target,
    snapshot: AtSnapshot = None,
    tag: AtTag = None,
    timestamp: AtTime = None,
    name: NewName = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Copy a table at one snapshot into another warehouse.

    Compares the checksum of each file with what was written once, and reads the copy back. The table appears in the target as a
    whole, at the end. After an interruption, the same command copies what is missing. Older snapshots, changelogs, tags, branches
    and consumers are not copied.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    with progress_bar() as progress:
        task = progress.add_task("copying files", total=None)
        moment, zone = Moment(snapshot, timestamp, tag), found.runtime.zone
        report = copy_table(
            found.meta,
            found.name,
            moment,
            zone,
            storage_at(url),
            name,
            progress=lambda files, path: progress.update(task, total=files, advance=1),
        )
    emit(asdict(report), Sentences((_sentence(found.name, url, report),)), json)


def _sentence(name: str, url: str, report: CopyReport) -> str:
    what = "the table without rows" if report.snapshot is None else f"snapshot {report.snapshot}"
    there = f", {report.reused} of them were there already" if report.reused else ""
    size = f"{counted(report.files, 'file')}, {human_bytes(report.bytes)}"
    return f"{name}: {what} copied to {report.table} in {url}: {size}{there}"
