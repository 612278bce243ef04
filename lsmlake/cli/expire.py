"""`lsmlake expire`: remove old snapshots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.report.text import counted, printable
from lsmlake.retention.partition_expiry import PartitionExpiryReport
from lsmlake.retention.snapshot_expiry import ExpireReport

RetainMax = Annotated[int | None, typer.Option("--retain-max", metavar="N", help="Keep at most N snapshots, regardless of age.")]
RetainMin = Annotated[int | None, typer.Option("--retain-min", metavar="N", help="Keep at least N snapshots, regardless of age.")]
_REPLACED = "Remove snapshots replaced before this time, in UTC unless it names a zone: '2026-01-31 12:00'."
OlderThan = Annotated[str | None, typer.Option("--older-than", metavar="TIME", help=_REPLACED)]
Partitions = Annotated[
    bool, typer.Option("--partitions", help="Drop the partitions older than partition.expiration-time instead.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; report what would be removed.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Remove at most N snapshots.")]


def expire(
    ctx: typer.Context,
    table: TableName,
    retain_max: RetainMax = None,
    retain_min: RetainMin = None,
    older_than: OlderThan = None,
    limit: Limit = None,
    partitions: Partitions = False,
    dry_run: DryRun = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Remove old snapshots and the files that only they use.

    Without arguments, the table's options snapshot.* apply. Keeps the latest snapshot, and those that a consumer has yet to read.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if partitions:
        if (retain_max, retain_min, older_than, limit) != (None, None, None, None):
            raise InvalidQuery("--partitions goes by the table's options", where=table, cure="give no other option but --dry-run")
        dropped = found.expire_partitions(dry_run=dry_run)
        shown = {key: value for key, value in asdict(dropped).items() if key != "names"} | {"partitions": dropped.names}
        emit(shown, Sentences((_dropped(found.name, dropped),)), json)
        return
    with spinner() as progress:
        progress.add_task("expiring snapshots", total=None)
        report = found.expire_snapshots(
            retain_max=retain_max, retain_min=retain_min, older_than=older_than, limit=limit, dry_run=dry_run
        )
    text = _sentence(found.name, report)
    emit(asdict(report), Sentences((f"{text}; dry run, nothing was changed" if dry_run else text,)), json)


def _dropped(name: str, report: PartitionExpiryReport) -> str:
    if not report.names:
        return f"{name}: no partition to expire"
    texts = "; ".join(map(printable, report.names))
    what = f"{name}: {counted(len(report.names), 'partition')}, {counted(report.rows, 'row')}: {texts}"
    return f"{what}; snapshot {report.snapshot_id}" if report.snapshot_id else f"{what}; dry run, nothing was changed"


def _sentence(name: str, report: ExpireReport) -> str:
    reasons = "".join(f"; {count} more due, but {reason}" for reason, count in report.held.items())
    if not (report.snapshots or report.changelogs):
        return f"{name}: nothing to expire{reasons}"
    more = f" and {counted(report.changelogs, 'changelog')}" if report.changelogs else ""
    return f"{name}: {counted(report.snapshots, 'snapshot')}{more} expired, {counted(report.files, 'file')} removed{reasons}"
