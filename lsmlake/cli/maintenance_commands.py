"""The commands that look after a whole warehouse: `maintain` and `health`."""

from __future__ import annotations

import json as json_text
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import pyarrow as pa
import typer

from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder, plan_of, told
from lsmlake.api.metrics import Metrics
from lsmlake.beside import Signal
from lsmlake.cli.argument_reading import location_of, take_place
from lsmlake.cli.arguments import Json
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.guard import FAILED
from lsmlake.cli.java import require_java
from lsmlake.cli.opening import open_lake
from lsmlake.cli.output import Sentences, emit
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need_spark
from lsmlake.maintain import work_history
from lsmlake.maintain.work_history import WorkRecord
from lsmlake.report.listing_views import view_of
from lsmlake.report.text import counted, human_bytes, printable
from lsmlake.schema.values import json_rows
from lsmlake.warehouse import connect

Place = Annotated[str | None, typer.Argument(metavar="WAREHOUSE", help="Default: --warehouse.", show_default=False)]
Tables = Annotated[list[str] | None, typer.Option("--table", metavar="TABLE", help="Only this table; may be repeated.")]


def maintain(
    ctx: typer.Context,
    place: Place = None,
    *,
    once: bool = False,
    every: str | None = None,
    plan: bool = False,
    table: Tables = None,
    workers: int | None = None,
    memory: str | None = None,
    bytes_per_second: str | None = None,
    metrics_port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
    spark: bool = False,
    json: Json = False,
) -> None:
    """Do what is due in all tables, once or again and again.

    Compacts, splits and merges buckets, expires snapshots, tags, partitions and consumers, publishes Iceberg metadata that lags
    behind, renews statistics, and removes orphan files once a week; the most useful work first. Several maintainers share the
    work. The options maintain.* of tables and databases say when and how much. Ctrl-C or SIGTERM ends it within seconds.

    Args:
        once: Return when nothing is due any more. The default, unless --every is given.
        every (TIME): Look again and again, such as every 30s. Prints a line for each work; with --json an object per line.
        plan: Do nothing; list what is due, why, and its cost. Only --table and --json go with it.
        workers (N): How many tables to work on at once; default: the cores of this machine, at most 4.
        memory (SIZE): The memory that all work may need at once, as estimated; default: 4gb.
        bytes_per_second (SIZE): How much to read and write, on average, such as 50mb.
        metrics_port (N): Serve metrics for Prometheus on this port of this machine.
        spark: Compact on a local Spark; needs Java.
    """
    take_place(ctx, place)
    order = MaintenanceOrder(once or None, every, table or None, workers, memory, bytes_per_second)
    if plan:
        order.check_plan()
        if spark or metrics_port is not None:
            flag = "--spark" if spark else "--metrics-port"
            raise InvalidQuery("a plan does no work", found=flag, cure=f"leave out --plan or {flag}")
    with _lake(ctx, spark) as lake:
        if plan:
            planned = plan_of(order.maintainer(lake.env, lake.runtime, Signal()))
            emit(json_rows(planned) if json else None, view_of("plan", planned), json)
            return
        failed = _run(lake, order, json, metrics_port)
    if failed:
        raise typer.Exit(FAILED)


@contextmanager
def _lake(ctx: typer.Context, spark: bool) -> Iterator[Lake]:
    if not spark:
        yield open_lake(ctx)
        return
    need_spark("--spark")
    require_java()
    from lsmlake.cli.session import local_session

    with local_session() as session:
        yield connect(location_of(ctx), spark=session)


def _run(lake: Lake, order: MaintenanceOrder, as_json: bool, metrics_port: int | None) -> bool:
    """Works until nothing is due or a signal comes; returns whether a table failed."""
    stop = Signal()
    every_ms, maintainer = order.every_ms(), order.maintainer(lake.env, lake.runtime, stop)
    before = signal.signal(signal.SIGTERM, lambda *_: stop.give())
    metrics = None if metrics_port is None else Metrics(lake)
    end = metrics.serve(metrics_port) if metrics is not None else None
    records: list[WorkRecord] = []
    try:
        for session in maintainer.once() if every_ms is None else maintainer.every(every_ms / 1000):
            done = told(session, lake.env.clock())
            if metrics is not None:
                metrics.count(done)
            if every_ms is None:
                records += done
            else:
                _print(done, as_json)
    finally:
        signal.signal(signal.SIGTERM, before)
        if end is not None:
            end()
    if every_ms is None:
        listed = work_history.listing(records)
        emit(json_rows(listed), view_of("maintenance", listed), as_json)
    errors = [record for record in records if record.error]
    for record in errors:
        typer.echo(f"error: {record.table}: {printable(record.error)}", err=True)
    return bool(errors)


def _print(records: list[WorkRecord], as_json: bool) -> None:
    rows = json_rows(work_history.listing(records)) if as_json else []
    lines = [json_text.dumps(row) for row in rows] if as_json else [line_of(record) for record in records]
    emit(None, Sentences(tuple(lines)), False)
    sys.stdout.flush()


def line_of(record: WorkRecord) -> str:
    """A work as one line of text."""
    if record.error is not None:
        return printable(f"{record.table}: {record.kind} failed: {record.error}")
    took = f" in {(record.end_ms - record.start_ms) / 1000:.1f} s" if record.start_ms is not None else ""
    size = f", {human_bytes(record.bytes_in)} in" if record.bytes_in is not None else ""
    size += f", {human_bytes(record.bytes_out)} out" if record.bytes_out is not None else ""
    files = f", {counted(record.files_in, 'file')} became {record.files_out or 0:,}" if record.files_in is not None else ""
    return printable(f"{record.table}: {record.kind}{took}: {record.reason}{files}{size}")


def health(
    ctx: typer.Context,
    place: Place = None,
    *,
    table: Tables = None,
    level0_runs: int | None = None,
    unmerged_time: str | None = None,
    dead_share: float | None = None,
    consumer_lag: int | None = None,
    publication_lag: int | None = None,
    commit_time: str | None = None,
) -> CommandResult:
    """Show the health of all tables.

    The exit code is 1 if a table exceeds a threshold, or cannot be read. Thresholds are the options maintain.alert.* of tables
    and databases, unless the command line gives them.

    Args:
        level0_runs (N): The most sorted runs that may wait at level 0 of a bucket.
        unmerged_time (TIME): The longest time that a row may wait at level 0, such as 1h.
        dead_share (SHARE): The greatest share of dead rows, such as 0.3.
        consumer_lag (N): How many snapshots a consumer may be behind.
        publication_lag (N): How many snapshots Iceberg metadata may be behind.
        commit_time (TIME): The longest time without a commit.
    """
    take_place(ctx, place)
    rows = open_lake(ctx).health(
        table or None,
        level0_runs=level0_runs,
        unmerged_time=unmerged_time,
        dead_share=dead_share,
        consumer_lag=consumer_lag,
        publication_lag=publication_lag,
        commit_time=commit_time,
    )
    return CommandResult(rows, view_of("health", rows), tuple(_problems(rows)))


def _problems(rows: pa.Table) -> Iterator[str]:
    for row in rows.select(["table_name", "problems", "error"]).to_pylist():
        for problem in row["problems"]:
            yield printable(f"{row['table_name']}: {row['error'] or problem}")
