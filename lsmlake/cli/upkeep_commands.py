"""The commands that look after a table: compact, analyze, roll back, remove what is old, copy, publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import typer
from rich.progress import Progress

from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.cli.argument_reading import column_names
from lsmlake.cli.arguments import Buckets, Columns, Positive, TableName
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.java import require_java
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.progress import busy, progress_bar
from lsmlake.compact.job import CompactBuckets, CompactionReport, compact_here
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need_spark
from lsmlake.maintain.copy import copy as copy_table
from lsmlake.read.travel import Moment, milliseconds
from lsmlake.refs.rollback import RollbackReport
from lsmlake.refs.rollback import rollback as roll_back
from lsmlake.report.listing_views import statistics_view
from lsmlake.report.text import counted, human_bytes, human_count, printable
from lsmlake.retention.orphans import remove_orphan_files
from lsmlake.schema.schema import Schema
from lsmlake.storage.location import storage_at
from lsmlake.tables.version import Metadata
from lsmlake.warehouse import connect

_DRY_RUN = "; dry run, nothing was changed"


def compact(
    ctx: typer.Context,
    table: TableName,
    *,
    full: bool = False,
    where: str | None = None,
    bucket: Buckets = None,
    spark: bool = False,
) -> CommandResult:
    """Merge the sorted runs of a table.

    Marks superseded rows as deleted and commits the result as one snapshot. Readers and writers are not blocked.

    Args:
        full: Compact every bucket into one run without dead rows.
        where (SQL): Only these partitions: "dt < '2026-01-01'".
        spark: Run on a local Spark, one task per bucket; needs Java.
    """
    if spark:
        need_spark("--spark")
        require_java()
    opened, wanted = open_table(open_lake(ctx), table), {"full": full, "where": where, "buckets": bucket or None}
    report = (_on_spark if spark else _here)(opened, partial(Table.compact, **wanted))
    return CommandResult(report, _told(opened, report, "nothing to compact"))


def rescale(
    ctx: typer.Context, table: TableName, *, buckets: str, where: str | None = None, spark: bool = False
) -> CommandResult:
    """Give the partitions of a table another number of buckets.

    One commit for each partition; readers and writers are not blocked. New partitions have as many buckets as the option `bucket`
    says.

    Args:
        buckets (N): The number of buckets of a partition, or auto: as many as suit its size.
        where (SQL): Only these partitions: "dt < '2026-01-01'".
        spark: Run on a local Spark; needs Java.
    """
    if spark:
        need_spark("--spark")
        require_java()
    opened = open_table(open_lake(ctx), table)
    report = (_on_spark if spark else _here)(opened, partial(Table.rescale, buckets=buckets, where=where))
    return CommandResult(report, _told(opened, report, "nothing to rescale"))


def _told(table: Table, report: CompactionReport, nothing: str) -> str:
    if report.snapshot_id is None:
        return f"{table.name}: {nothing}"
    files = f"{counted(report.files_in, 'file')} became {report.files_out:,}"
    moved = f", {report.upgraded:,} of them moved without a rewrite" if report.upgraded else ""
    written = f"{human_count(report.rows)} rows written in {human_bytes(report.bytes)}" if report.rows else "no row written"
    marked = f"{human_count(report.marked)} rows newly dead, snapshot {report.snapshot_id}"
    return f"{table.name}: {counted(report.buckets, 'bucket')}, {files}{moved}, {written}, {marked}"


class _Watched(Runtime):
    """The embedded runtime, with progress for each compacted bucket."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        return compact_here(meta, schema, partial(self.progress.track, description="compacting buckets"))


Run = Callable[[Table], CompactionReport]


def _here(table: Table, run: Run) -> CompactionReport:
    with progress_bar() as progress:
        return run(replace(table, runtime=_Watched(progress)))


def _on_spark(table: Table, run: Run) -> CompactionReport:
    from lsmlake.cli.session import local_session

    with busy("starting Spark") as say, local_session() as session:
        say("compacting on Spark")
        lake = connect(table.meta.env.storage.root, spark=session)
        return run(lake.table(table.name))


def analyze(table: Table, *, columns: Columns = None) -> CommandResult:
    """Compute statistics of a table's rows, as one commit.

    Counts the rows and, per column, distinct values (about), nulls, the least and greatest value and the lengths of texts.
    `lsmlake system TABLE statistics` shows them later.
    """
    with busy("reading"):
        snapshot = table.analyze(column_names(columns))
    if snapshot is None:
        return CommandResult([], f"{table.name}: nothing was written yet")
    statistics = table.system_table("statistics", snapshot=snapshot.id)
    return CommandResult(statistics, statistics_view(statistics))


def truncate(table: Table) -> CommandResult:
    """Remove all rows of a table, as one commit.

    Older snapshots keep the rows until they expire.
    """
    snapshot = table.truncate()
    done = f"truncated, snapshot {snapshot.id}" if snapshot else "no rows to remove"
    return CommandResult({"snapshot_id": snapshot.id if snapshot else None}, f"{table.name}: {done}")


def iceberg(table: Table, *, catalog: str | None = None, name: str | None = None) -> CommandResult:
    """Publish a table for readers of Apache Iceberg.

    Shows the address of the newest metadata file. With the option metadata.iceberg, every commit publishes. With --catalog, the
    table is registered in a catalog of Iceberg, or brought up to date there. PyIceberg finds the properties of the catalog in
    ~/.pyiceberg.yaml, or in environment variables such as PYICEBERG_CATALOG__PROD__URI.

    Args:
        catalog (NAME): The name of a catalog, such as prod.
        name (NAME): With --catalog: the table there, namespace.table; default: TABLE.
    """
    file = table.publish_iceberg(catalog=catalog, name=name)
    return CommandResult({"metadata_file": file}, file)


# -- the past -------------------------------------------------------------------------------------------------------------


def rollback(
    table: Table,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: str | None = None,
    cut: bool = False,
    dry_run: bool = False,
) -> CommandResult:
    """Go back to an older snapshot, as a new commit.

    The newer snapshots stay and can be read, unless --cut is given. Streams out of the table see the reverse changes.

    Args:
        snapshot (N): Go back to this snapshot.
        tag (NAME): Go back to this tag.
        timestamp (TIME): Go back to the snapshot that was the latest at this time, in UTC unless it names a zone:
            '2026-01-31 12:00'.
        cut: Afterwards remove the snapshots after the target, their tags, and the files that nothing else needs.
        dry_run: Only report what would be done.
    """
    moment, zone = Moment(snapshot, timestamp, tag), table.runtime.zone
    with busy("rolling back") as say:
        published, report = roll_back(
            table.meta, moment, zone, table.name, cut=cut, dry_run=dry_run, progress=lambda path: say(f"deleting {path}")
        )
    number = None if dry_run else published.id
    return CommandResult({"snapshot_id": number, **asdict(report)}, f"{table.name}: {_went_back(number, report, cut)}")


def _went_back(number: int | None, report: RollbackReport, cut: bool) -> str:
    """`number`: the new snapshot; None: this is a dry run."""
    if not report.undone:
        return f"snapshot {report.target} is the latest, nothing to do"
    schema = ", columns or options change" if report.schema_changes else ""
    then = f"{schema}: {report.rows_now:,} -> {report.rows_then:,} rows"
    undone = counted(len(report.undone), "newer snapshot")
    removed = [undone, *([counted(len(report.tags), "tag")] if report.tags else [])]
    removed += [counted(report.changelogs, "changelog")] if report.changelogs else []
    going = f"{', '.join(removed)} and {counted(report.files, 'file')}"
    if number is None:
        fate = f"would remove {going}" if cut else f"{undone} would stay"
        return f"would go back to snapshot {report.target}{then}; {fate}"
    fate = f"removed {going}" if cut else f"{undone} can still be read"
    return f"snapshot {number} restores snapshot {report.target}{then}; {fate}"


def expire(
    table: Table,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: str | None = None,
    limit: int | None = None,
    partitions: bool = False,
    dry_run: bool = False,
) -> CommandResult:
    """Remove old snapshots and the files that only they use.

    Without arguments, the table's options snapshot.* apply. Keeps the latest snapshot, and those that a consumer has yet to read.

    Args:
        retain_max (N): Keep at most N snapshots, regardless of age.
        retain_min (N): Keep at least N snapshots, regardless of age.
        older_than (TIME): Remove snapshots replaced before this time, in UTC unless it names a zone: '2026-01-31 12:00'.
        limit (N): Remove at most N snapshots.
        partitions: Drop the partitions older than partition.expiration-time instead.
        dry_run: Change nothing; report what would be removed.
    """
    if partitions:
        if (retain_max, retain_min, older_than, limit) != (None, None, None, None):
            cure = "give no other option but --dry-run"
            raise InvalidQuery("--partitions goes by the table's options", where=table.name, cure=cure)
        return _expire_partitions(table, dry_run)
    with busy("expiring snapshots"):
        report = table.expire_snapshots(
            retain_max=retain_max, retain_min=retain_min, older_than=older_than, limit=limit, dry_run=dry_run
        )
    reasons = "".join(f"; {count} more due, but {reason}" for reason, count in report.held.items())
    more = f" and {counted(report.changelogs, 'changelog')}" if report.changelogs else ""
    done = f"{counted(report.snapshots, 'snapshot')}{more} expired, {counted(report.files, 'file')} removed"
    done = done if report.snapshots or report.changelogs else "nothing to expire"
    return CommandResult(report, f"{table.name}: {done}{reasons}{_DRY_RUN if dry_run else ''}")


def _expire_partitions(table: Table, dry_run: bool) -> CommandResult:
    report = table.expire_partitions(dry_run=dry_run)
    content = {key: value for key, value in asdict(report).items() if key != "names"} | {"partitions": report.names}
    if not report.names:
        return CommandResult(content, f"{table.name}: no partition to expire")
    what = f"{table.name}: {counted(len(report.names), 'partition')}, {counted(report.rows, 'row')}: "
    end = f"; snapshot {report.snapshot_id}" if report.snapshot_id else _DRY_RUN
    return CommandResult(content, what + "; ".join(map(printable, report.names)) + end)


def orphans(table: Table, *, older_than: str | None = None, dry_run: bool = False, limit: int | None = None) -> CommandResult:
    """Remove files that nothing names.

    Killed writers leave such files. Deletes nothing if any metadata of the table cannot be read. Files that lsmlake did not write
    stay.

    Args:
        older_than (TIME): Only files last modified before this time, in UTC unless it names a zone; default: a day ago.
        dry_run: Delete nothing; list the files that would be deleted.
        limit (N): Delete at most N files.
    """
    if limit is not None and limit < 1:
        raise InvalidQuery("not a number of files", where="--limit", expected="1 or more", found=limit, cure="correct it")
    time_ms = None if older_than is None else milliseconds(older_than, table.runtime.zone)
    with busy("reading metadata") as say:
        report = remove_orphan_files(
            table.meta, time_ms, dry_run=dry_run, limit=limit, progress=lambda what: say(what.rpartition("/")[2])
        )
    if not report.files:
        return CommandResult(report, f"{table.name}: no orphan files")
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.kinds.items())
    total = f"{table.name}: {counted(report.files, 'orphan file')}, {human_bytes(report.bytes)} ({kinds})"
    if report.dry_run:
        return CommandResult(report, (*map(printable, report.paths), f"{total}; nothing was deleted"))
    return CommandResult(report, f"{total} removed")


# -- another warehouse ----------------------------------------------------------------------------------------------------


def copy(
    table: Table,
    url: str,
    *,
    snapshot: Positive = None,
    tag: str | None = None,
    timestamp: str | None = None,
    name: str | None = None,
) -> CommandResult:
    """Copy a table at one snapshot into another warehouse.

    Compares the checksum of each file with what was written once, and reads the copy back. The table appears in the target as a
    whole, at the end. After an interruption, the same command copies what is missing. Older snapshots, changelogs, tags, branches
    and consumers are not copied.

    Args:
        url: The warehouse of the copy: a directory, s3://..., gs://..., az://...
        snapshot (N): Copy this snapshot, not the latest.
        tag (NAME): Copy the snapshot with this tag.
        timestamp (TIME): Copy the snapshot of this time, in UTC unless it names a zone: '2026-01-31 12:00'.
        name (DATABASE.TABLE): The name of the copy; default: the same.
    """
    moment, zone = Moment(snapshot, timestamp, tag), table.runtime.zone
    with progress_bar() as progress:
        task = progress.add_task("copying files", total=None)

        def step(files: int, path: str) -> None:
            progress.update(task, total=files, advance=1)

        report = copy_table(table.meta, table.name, moment, zone, storage_at(url), name, progress=step)
    what = "the table without rows" if report.snapshot is None else f"snapshot {report.snapshot}"
    reused = f", {report.reused} of them were there already" if report.reused else ""
    size = f"{counted(report.files, 'file')}, {human_bytes(report.bytes)}"
    return CommandResult(report, f"{table.name}: {what} copied to {report.table} in {url}: {size}{reused}")
