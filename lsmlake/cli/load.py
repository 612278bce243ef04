"""The commands that bring rows into a table: `load` from files, `adopt` from a table of another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

import pyarrow as pa
import typer

from lsmlake.api.lake import Lake
from lsmlake.api.lake_verbs.loading import added, created_from
from lsmlake.api.table import Table
from lsmlake.cdc.change_input import RAISE, REJECT
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cli.argument_reading import column_names, is_directory, partition_terms, settings
from lsmlake.cli.arguments import TableName
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.progress import busy
from lsmlake.errors import InvalidQuery, InvalidSchema
from lsmlake.format.paths import database_dir, split_name
from lsmlake.imports.adopt import ImportReport
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.places import sentence
from lsmlake.inputs.text_files import FileOptions
from lsmlake.report.text import counted
from lsmlake.storage.location import Outside, joined

_ICEBERG, _DELTA, _PARQUET = "iceberg", "delta", "parquet"


def load(
    ctx: typer.Context,
    table: TableName,
    files: list[str],
    *,
    create: bool = False,
    primary_key: str | None = None,
    partition_by: str | None = None,
    option: list[str] | None = None,
    cast: bool = False,
    row_kind: str | None = None,
    overwrite: bool = False,
    where: str | None = None,
    null_value: list[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    column: str | None = None,
    reject: bool = False,
) -> CommandResult:
    """Insert, replace or append the rows of files, as one commit.

    For rows with the same key, the last row of the last file wins. `--create` without `--primary-key` makes an append-only table.
    CSV values are converted to the types of the table's columns; if a value does not fit, the error names its file and line, and
    nothing is written. What is recognised of a file, such as its delimiter, is printed.

    Args:
        files (FILES...): Parquet, CSV, JSON or Excel: paths, folders or globs.
        create: Create the table first, with the columns of the files.
        primary_key (NAMES): With --create: the key columns, if any.
        partition_by (FIELDS): With --create: the partitions: 'dt', 'days(ts), bucket(16, id)'.
        option (NAME=VALUE): With --create: a table option.
        cast: Convert values of other types if nothing is lost; text is always converted.
        row_kind (NAME): The column with +I, -U, +U or -D; --create leaves it out of the table.
        overwrite: Replace the partitions of the rows; without partitions all rows.
        where (SQL): With --overwrite: replace these partitions: "dt = '2026-01-31'".
        null_value (WORD): A word in CSV and Excel files that means null, such as NA. Repeatable.
        delimiter (CHARACTER): Of CSV files; default: recognised among , ; | and tab.
        encoding (NAME): Of CSV and JSON files, such as latin-1; default: by the byte order mark, or UTF-8.
        format (FORMAT): The files have change events, one per line: debezium-json, debezium-avro, canal-json, maxwell-json,
            ogg-json, aws-dms, mongodb or plain; or a JSON object of the arguments of ChangeFormat:
            '{"name": "debezium-json", "timestamps": "micros"}'.
        column (NAME): With --format: the column of the events in Parquet or CSV files; default: value.
        reject: With --format: write events that cannot be read to the table TABLE_rejected, and go on.
    """
    texts = FileOptions.of(null_value, delimiter, encoding)
    of_rows = {"create": create, "primary_key": primary_key, "partition_by": partition_by, "option": option}
    of_rows |= {"row_kind": row_kind, "overwrite": overwrite, "where": where}
    _check_flags(table, is_events=format is not None, of_rows=of_rows, of_events={"column": column, "reject": reject})
    events = None if format is None else ChangeFormat.of_text(format)
    new_warehouse = create and not is_directory(ctx.obj.warehouse or "")
    lake = open_lake(ctx, create=create)
    if events is not None:
        return _loaded_events(open_table(lake, table), files, events, column, reject, cast, texts)
    if (overwrite and create) or (where is not None and not overwrite):
        flags = "--overwrite with --create" if overwrite else "--where without --overwrite"
        raise InvalidQuery("these options do not go together", where=table, found=flags, cure="leave one of them out")
    if not create and (given := _flags({"primary_key": primary_key, "partition_by": partition_by, "option": option})):
        cure = f"leave out {given}, which belong to --create, or add --create"
        raise InvalidSchema("only --create takes these options", where=table, found=given, cure=cure)
    if create:
        keys, partitions = column_names(primary_key, "--primary-key") or (), partition_terms(partition_by)
        options = settings(option, "--option")
        with _database(lake, split_name(table)[0], new_warehouse), _counted() as counter:
            given = as_input(files, inferred=True, options=texts)
            _, snapshot = created_from(
                lake,
                table,
                counter.watched(given),
                primary_key=keys,
                partition_by=partitions,
                options=options,
                comment=None,
                cast=cast,
                row_kind=row_kind,
            )
    else:
        opened = open_table(lake, table)
        given = as_input(files, opened.schema, options=texts)
        with _counted() as counter:
            data = counter.watched(given)
            if overwrite:
                snapshot = opened.overwrite(data, where, cast=cast, row_kind=row_kind)
            else:
                snapshot = added(opened, data, cast=cast, row_kind=row_kind)
    rows = counter.rows
    commit = f", snapshot {snapshot.id}" if snapshot else ", nothing to commit" if rows else ": the files are empty"
    recognised = {"recognised": given.recognised} if given.recognised else {}
    data = {"rows": rows, "snapshot_id": snapshot.id if snapshot else None} | recognised
    return CommandResult(data, (*map(sentence, given.recognised), f"{table}: {counted(rows, 'row')} loaded{commit}"))


def _check_flags(table: str, *, is_events: bool, of_rows: Mapping[str, object], of_events: Mapping[str, object]) -> None:
    """Refuses flags of rows with --format, and those of events without it."""
    if not is_events and (given := _flags(of_events)):
        cure = f"add --format, or leave out {given}"
        raise InvalidQuery("only change events, which --format reads, have these options", where=table, found=given, cure=cure)
    if is_events and (given := _flags(of_rows)):
        cure = f"leave out {given}: create the table first; events say themselves which rows they insert, update and delete"
        raise InvalidQuery("--format loads events into a table that exists", where=table, found=given, cure=cure)


def _flags(values: Mapping[str, object]) -> str:
    """The flags that are given."""
    return ", ".join(f"--{name.replace('_', '-')}" for name, value in values.items() if value not in (None, False, []))


def _loaded_events(
    table: Table, files: list[str], format: ChangeFormat, column: str | None, reject: bool, cast: bool, texts: FileOptions
) -> CommandResult:
    """Loads change events."""
    mode = REJECT if reject else RAISE
    with busy("loading"):
        snapshot = table.upsert(files, format=format, column=column, on_error=mode, cast=cast, **texts.given)
    told = "no rows to commit" if snapshot is None else f"{counted(snapshot.delta_rows, 'row')} written, snapshot {snapshot.id}"
    data = {"rows": snapshot.delta_rows if snapshot else 0, "snapshot_id": snapshot.id if snapshot else None}
    return CommandResult(data, (f"{table.name}: {told}",))


@contextmanager
def _database(lake: Lake, name: str, new_warehouse: bool = False) -> Iterator[None]:
    """Create a database if there is none. After an error, remove database, folder and warehouse, if new and empty."""
    storage = lake.env.storage
    new_database, new_folder = name not in lake.databases(), database_dir(name) not in storage.folders("")
    lake.create_database(name, if_not_exists=True)
    try:
        yield
    except BaseException:
        if new_database and not lake.tables(name):
            lake.drop_database(name)
        if new_folder:
            storage.prune("" if new_warehouse else database_dir(name))
        raise


class _Counter:
    """Counts rows as they are read, and says so."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.rows, self._say = 0, say

    def watched(self, given: Input) -> Input:
        return given._replace(tables=self._counted(given.tables))

    def _counted(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            self.rows += table.num_rows
            self._say(f"loading: {counted(self.rows, 'row')} read")
            yield table


@contextmanager
def _counted() -> Iterator[_Counter]:
    with busy("loading") as say:
        yield _Counter(say)


# -- tables of other formats ----------------------------------------------------------------------------------------------


def adopt(
    lake: Lake,
    source: str,
    table: TableName,
    *,
    format: str | None = None,
    primary_key: str | None = None,
    unpartitioned: bool = False,
    option: list[str] | None = None,
    snapshot: int | None = None,
    newest: bool = False,
    link: bool = False,
) -> CommandResult:
    """Make a table of an Iceberg or Delta table, or Parquet files.

    The files stay as they are: the table gets its own names of them, so both sides may change and expire theirs. Files in a form
    that some reader of tables misreads are written anew. `lsmlake docs import` says more.

    Args:
        source: The folder or address of the other table, or of Parquet files.
        format (NAME): iceberg, delta or parquet; default: what is there.
        primary_key (NAMES): The key columns, if any.
        unpartitioned: Leave the partitions out.
        option (NAME=VALUE): A table option.
        snapshot (N): A snapshot of Iceberg, or a version of Delta, not the latest.
        newest: Of an Iceberg folder, take the newest metadata file, whether a catalog has it or not.
        link: Parquet files never change in place: make links, not copies. Of Iceberg and Delta tables links are made anyway.
    """
    with _database(lake, split_name(table)[0]), busy("adopting files"):
        given = {
            "primary_key": column_names(primary_key, "--primary-key") or [],
            "partition_by": [] if unpartitioned else None,
            "options": settings(option, "--option"),
        }
        report = _adopted(lake, source, table, format or _format_of(source), given, snapshot, newest, link)
    kept = "1 file as it is" if report.adopted == 1 else f"{report.adopted:,} files as they are"
    deleted = f", {counted(report.deleted_rows, 'deleted row')} left out" if report.deleted_rows else ""
    anew = (f"{counted(count, 'file')} written anew: {why}" for why, count in report.rewritten.items())
    data = {**asdict(report), "rewritten": dict(report.rewritten)}
    return CommandResult(data, (f"{report.table}: {counted(report.rows, 'row')}, {kept}{deleted}", *anew))


def _adopted(
    lake: Lake, source: str, table: str, format: str, given: dict, snapshot: int | None, newest: bool, link: bool
) -> ImportReport:
    if link and format in (_ICEBERG, _DELTA):
        raise InvalidQuery("only Parquet files need a promise that they never change", where=source, cure="leave --link out")
    if format == _ICEBERG:
        return lake.import_iceberg(source, table, snapshot=snapshot, newest=newest, **given)
    if newest:
        raise InvalidQuery("only an Iceberg table has metadata files to choose from", where=source, cure="leave --newest out")
    if format == _DELTA:
        return lake.import_delta(source, table, version=snapshot, **given)
    if format != _PARQUET:
        expected = f"{_ICEBERG}, {_DELTA} or {_PARQUET}"
        raise InvalidQuery("unknown format", where="--format", expected=expected, found=repr(format), cure="correct it")
    if snapshot is not None:
        raise InvalidQuery("Parquet files have no snapshots", where=source, cure="leave --snapshot out")
    return lake.import_parquet(source, table, link=link, **given)


def _format_of(source: str) -> str:
    """The format of the data in a place."""
    outside = Outside()
    if ".metadata.json" in source or any(".metadata.json" in one.path for one in outside.list(joined(source, "metadata"))):
        return _ICEBERG
    return _DELTA if any(outside.list(joined(source, "_delta_log"))) else _PARQUET
