"""`lsmlake compact`: merge the sorted runs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from lsmlake.api.table import Table
from lsmlake.cli.arguments import Buckets, Debug, Json, TableName, Warehouse
from lsmlake.cli.java import require_java
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import WatchedRuntime, progress_bar, spinner
from lsmlake.compact.job import CompactionReport
from lsmlake.extras import need_spark
from lsmlake.report.text import counted
from lsmlake.report.units import human_bytes, human_count
from lsmlake.warehouse import connect

Full = Annotated[bool, typer.Option("--full", help="Compact every bucket into one run without dead rows.")]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only these partitions: \"dt < '2026-01-01'\".")]
OnSpark = Annotated[bool, typer.Option("--spark", help="Run on a local Spark, one task per bucket; needs Java.")]


def compact(
    ctx: typer.Context,
    table: TableName,
    full: Full = False,
    where: Where = None,
    bucket: Buckets = None,
    spark: OnSpark = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Merge the sorted runs of a table.

    Marks superseded rows as deleted and commits the result as one snapshot. Readers and writers are not blocked.
    """
    if spark:
        need_spark("--spark")
        require_java()
    lake = open_lake(ctx, warehouse, debug)
    found = open_table(lake, table)
    run = _on_spark if spark else _here
    report = run(found, full, where, bucket or None)
    emit(asdict(report), Sentences((_sentence(found.name, report),)), json)


def _here(table: Table, full: bool, where: str | None, buckets: Sequence[int] | None) -> CompactionReport:
    with progress_bar() as progress:
        return replace(table, runtime=WatchedRuntime(progress)).compact(full=full, where=where, buckets=buckets)


def _on_spark(table: Table, full: bool, where: str | None, buckets: Sequence[int] | None) -> CompactionReport:
    from lsmlake.cli.session import local_session

    with spinner() as progress:
        task = progress.add_task("starting Spark", total=None)
        with local_session() as session:
            progress.update(task, description="compacting on Spark")
            lake = connect(table.meta.env.storage.root, spark=session)
            return lake.table(table.name).compact(full=full, where=where, buckets=buckets)


def _sentence(name: str, report: CompactionReport) -> str:
    if report.snapshot_id is None:
        return f"{name}: nothing to compact"
    files = f"{counted(report.files_in, 'file')} became {report.files_out:,}"
    moved = f", {report.upgraded:,} of them moved without a rewrite" if report.upgraded else ""
    written = f"{human_count(report.rows)} rows written in {human_bytes(report.bytes)}" if report.rows else "no row written"
    marked = f"{human_count(report.marked)} rows newly dead"
    return f"{name}: {counted(report.buckets, 'bucket')}, {files}{moved}, {written}, {marked}, snapshot {report.snapshot_id}"
