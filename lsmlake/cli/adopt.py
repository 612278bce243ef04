"""`lsmlake adopt`: make a table of one of another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from lsmlake.api.lake import Lake
from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import column_names, open_lake, settings
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.format.paths import split_name
from lsmlake.imports.adopt import ImportReport
from lsmlake.report.text import counted
from lsmlake.storage.outside import Outside, joined

_ICEBERG, _DELTA, _PARQUET = "iceberg", "delta", "parquet"
_FORMATS = f"{_ICEBERG}, {_DELTA} or {_PARQUET}"

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="The folder or address of the other table, or of Parquet files.", show_default=False),
]
Format = Annotated[str | None, typer.Option("--format", metavar="NAME", help=f"{_FORMATS}; default: what is there.")]
PrimaryKey = Annotated[str | None, typer.Option("--primary-key", metavar="NAMES", help="The key columns, if any.")]
Unpartitioned = Annotated[bool, typer.Option("--unpartitioned", help="Leave the partitions out.")]
Option = Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="A table option.")]
AtSnapshot = Annotated[
    int | None, typer.Option("--snapshot", metavar="N", help="A snapshot of Iceberg, or a version of Delta, not the latest.")
]
Newest = Annotated[
    bool, typer.Option("--newest", help="Of an Iceberg folder, take the newest metadata file, whether a catalog has it or not.")
]
Link = Annotated[bool, typer.Option("--link", help="Parquet files never change in place: make links, not copies.")]


def adopt(
    ctx: typer.Context,
    source: Source,
    table: TableName,
    format: Format = None,
    primary_key: PrimaryKey = None,
    unpartitioned: Unpartitioned = False,
    option: Option = None,
    snapshot: AtSnapshot = None,
    newest: Newest = False,
    link: Link = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Make a table of an Iceberg or Delta table, or Parquet files.

    The files stay as they are: the table gets its own names of them, so both sides may change and expire theirs. Files in a form
    that some reader of tables misreads are written anew. `lsmlake docs import` says more.
    """
    lake = open_lake(ctx, warehouse, debug)
    with _database(lake, split_name(table)[0]), spinner() as progress:
        progress.add_task("adopting files", total=None)
        there = format or _format_of(source)
        report = _adopted(lake, source, table, there, primary_key, unpartitioned, option, snapshot, newest, link)
    emit({**asdict(report), "rewritten": dict(report.rewritten)}, Sentences(_sentences(report)), json)


@contextmanager
def _database(lake: Lake, name: str) -> Iterator[None]:
    """Creates a database if there is none; removes it after an error."""
    there = name in lake.databases()
    lake.create_database(name, if_not_exists=True)
    try:
        yield
    except BaseException:
        if not there and not lake.tables(name):
            lake.drop_database(name)
        raise


def _adopted(
    lake: Lake,
    source: str,
    table: str,
    format: str,
    primary_key: str | None,
    unpartitioned: bool,
    option: list[str] | None,
    snapshot: int | None,
    newest: bool,
    link: bool,
) -> ImportReport:
    key, options, partition_by = column_names(primary_key) or [], settings(option), [] if unpartitioned else None
    if format == _ICEBERG:
        return lake.import_iceberg(
            source, table, key, snapshot=snapshot, partition_by=partition_by, options=options, newest=newest
        )
    if newest:
        raise InvalidQuery("only an Iceberg table has metadata files to choose from", where=source, cure="leave --newest out")
    if format == _DELTA:
        return lake.import_delta(source, table, key, version=snapshot, partition_by=partition_by, options=options)
    if format != _PARQUET:
        raise InvalidQuery("unknown format", where="--format", expected=_FORMATS, found=repr(format), cure="correct it")
    if snapshot is not None:
        raise InvalidQuery("Parquet files have no snapshots", where=source, cure="leave --snapshot out")
    return lake.import_parquet(source, table, key, partition_by=partition_by, options=options, link=link)


def _format_of(source: str) -> str:
    """What is in a place."""
    outside = Outside()
    if ".metadata.json" in source or any(".metadata.json" in one.path for one in outside.list(joined(source, "metadata"))):
        return _ICEBERG
    return _DELTA if any(outside.list(joined(source, "_delta_log"))) else _PARQUET


def _sentences(report: ImportReport) -> tuple[str, ...]:
    kept = "1 file as it is" if report.adopted == 1 else f"{report.adopted:,} files as they are"
    rows = f"{counted(report.rows, 'row')}, {kept}"
    deleted = f", {counted(report.deleted_rows, 'deleted row')} left out" if report.deleted_rows else ""
    anew = (f"{counted(count, 'file')} written anew: {why}" for why, count in report.rewritten.items())
    return f"{report.table}: {rows}{deleted}", *anew
