"""`lsmlake rollback`: give a table the rows, columns and options of an older snapshot."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.travel import Moment
from lsmlake.refs.rollback import RollbackReport
from lsmlake.refs.rollback import rollback as roll_back
from lsmlake.report.text import counted

ToSnapshot = Annotated[int | None, typer.Option("--snapshot", metavar="N", help="Go back to this snapshot.")]
ToTag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="Go back to this tag.")]
_TIME = "Go back to the snapshot that was the latest at this time, in UTC unless it names a zone: '2026-01-31 12:00'."
ToTime = Annotated[str | None, typer.Option("--timestamp", metavar="TIME", help=_TIME)]
_CUT = "Afterwards remove the snapshots after the target, their tags, and the files that nothing else needs."
WithCut = Annotated[bool, typer.Option("--cut", help=_CUT)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]


def rollback(
    ctx: typer.Context,
    table: TableName,
    snapshot: ToSnapshot = None,
    tag: ToTag = None,
    timestamp: ToTime = None,
    cut: WithCut = False,
    dry_run: DryRun = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Go back to an older snapshot, as a new commit.

    The newer snapshots stay and can be read, unless --cut is given. Streams out of the table see the reverse changes.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    with spinner() as progress:
        task = progress.add_task("rolling back", total=None)
        moment, zone = Moment(snapshot, timestamp, tag), found.runtime.zone
        published, report = roll_back(
            found.meta,
            moment,
            zone,
            found.name,
            cut=cut,
            dry_run=dry_run,
            progress=lambda path: progress.update(task, description=f"deleting {path}"),
        )
    content = {"snapshot_id": None if dry_run else published.id, **asdict(report)}
    emit(content, Sentences((_sentence(found.name, published, report, cut, dry_run),)), json)


def _sentence(name: str, published: Snapshot, report: RollbackReport, cut: bool, dry_run: bool) -> str:
    if not report.undone:
        return f"{name}: snapshot {report.target} is the latest, nothing to do"
    rows = f"{report.rows_now:,} -> {report.rows_then:,} rows"
    schema = ", columns or options change" if report.schema_changes else ""
    undone = counted(len(report.undone), "newer snapshot")
    removed = [undone, *([counted(len(report.tags), "tag")] if report.tags else [])]
    removed += [counted(report.changelogs, "changelog")] if report.changelogs else []
    going = f"{', '.join(removed)} and {counted(report.files, 'file')}"
    if dry_run:
        fate = f"would remove {going}" if cut else f"{undone} would stay"
        return f"{name}: would go back to snapshot {report.target}{schema}: {rows}; {fate}"
    fate = f"removed {going}" if cut else f"{undone} can still be read"
    return f"{name}: snapshot {published.id} restores snapshot {report.target}{schema}: {rows}; {fate}"
