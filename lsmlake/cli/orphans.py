"""`lsmlake orphans`: remove files that nothing names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.read.travel import milliseconds
from lsmlake.report.text import counted, printable
from lsmlake.report.units import human_bytes
from lsmlake.retention.orphans import OrphanReport, remove_orphan_files

_BEFORE = "Only files last modified before this time, in UTC unless it names a zone; default: a day ago."
OlderThan = Annotated[str | None, typer.Option("--older-than", metavar="TIME", help=_BEFORE)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Delete nothing; list the files that would be deleted.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Delete at most N files.")]


def orphans(
    ctx: typer.Context,
    table: TableName,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Remove files that nothing names.

    Killed writers leave such files. Deletes nothing if any metadata of the table cannot be read. Files that lsmlake did not write
    stay.
    """
    if limit is not None and limit < 1:
        raise InvalidQuery("not a number of files", where="--limit", expected="1 or more", found=limit, cure="correct it")
    found = open_table(open_lake(ctx, warehouse, debug), table)
    time_ms = None if older_than is None else milliseconds(older_than, found.runtime.zone)
    with spinner() as progress:
        task = progress.add_task("reading metadata", total=None)
        report = remove_orphan_files(
            found.meta,
            time_ms,
            dry_run=dry_run,
            limit=limit,
            progress=lambda what: progress.update(task, description=what.rpartition("/")[2]),
        )
    emit(asdict(report), Sentences(tuple(_lines(found.name, report))), json)


def _lines(name: str, report: OrphanReport) -> list[str]:
    if not report.files:
        return [f"{name}: no orphan files"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.kinds.items())
    total = f"{name}: {counted(report.files, 'orphan file')}, {human_bytes(report.bytes)} ({kinds})"
    if report.dry_run:
        return [*map(printable, report.paths), f"{total}; nothing was deleted"]
    return [f"{total} removed"]
