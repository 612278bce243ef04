"""`lsmlake load`: upsert the rows of files into a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import pyarrow as pa
import typer
from rich.progress import Progress

from lsmlake.api.lake import Lake
from lsmlake.api.lake_verbs.loading import added, created_from
from lsmlake.api.table import Table
from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import column_names, is_directory, open_lake, open_table, settings
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery, InvalidSchema
from lsmlake.format.paths import database_dir, split_name
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input, as_input
from lsmlake.inputs.file_options import FileOptions
from lsmlake.inputs.places import sentence
from lsmlake.report.text import counted
from lsmlake.schema.partitioning import split_terms

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="Parquet, CSV, JSON or Excel: paths, folders or globs.", show_default=False),
]
Create = Annotated[bool, typer.Option("--create", help="Create the table first, with the columns of the files.")]
PrimaryKey = Annotated[str | None, typer.Option("--primary-key", metavar="NAMES", help="With --create: the key columns, if any.")]
PartitionBy = Annotated[
    str | None,
    typer.Option("--partition-by", metavar="FIELDS", help="With --create: the partitions: 'dt', 'days(ts), bucket(16, id)'."),
]
Option = Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="With --create: a table option.")]
CastValues = Annotated[
    bool, typer.Option("--cast", help="Convert values of other types if nothing is lost; text is always converted.")
]
RowKind = Annotated[
    str | None,
    typer.Option("--row-kind", metavar="NAME", help="The column with +I, -U, +U or -D; --create leaves it out of the table."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the partitions of the rows; without partitions all rows.")]
Within = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="With --overwrite: replace these partitions: \"dt = '2026-01-31'\"."),
]
NullValue = Annotated[
    list[str] | None,
    typer.Option("--null-value", metavar="WORD", help="A word in CSV and Excel files that means null, such as NA. Repeatable."),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="Of CSV files; default: recognised among , ; | and tab.")
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Of CSV and JSON files, such as latin-1; default: by the byte order mark, or UTF-8."
    ),
]


def load(
    ctx: typer.Context,
    table: TableName,
    files: Files,
    create: Create = False,
    primary_key: PrimaryKey = None,
    partition_by: PartitionBy = None,
    option: Option = None,
    cast: CastValues = False,
    row_kind: RowKind = None,
    overwrite: Overwrite = False,
    where: Within = None,
    null_value: NullValue = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Insert, replace or append the rows of files, as one commit.

    For rows with the same key, the last row of the last file wins. `--create` without `--primary-key` makes an append-only table.
    CSV values are converted to the types of the table's columns; if a value does not fit, the error names its file and line, and
    nothing is written. What is recognised of a file, such as its delimiter, is printed.
    """
    texts = FileOptions.of(null_value, delimiter, encoding)
    new_warehouse = create and not is_directory(warehouse or ctx.obj.warehouse or "")
    lake = open_lake(ctx, warehouse, debug, create=create)
    if (overwrite and create) or (where and not overwrite):
        found = "--overwrite with --create" if overwrite else "--where without --overwrite"
        raise InvalidQuery("these options do not go together", where=table, found=found, cure="leave one of them out")
    if create:
        keys, partitions = column_names(primary_key) or (), split_terms(partition_by or "")
        options = settings(option)
        with _no_folders_after_an_error(lake, table, new_warehouse), spinner() as progress:
            counter, given = _Counter(progress), as_input(files, inferred=True, options=texts)
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
            rows = counter.rows
    else:
        if primary_key or partition_by or option:
            raise InvalidSchema(
                "the table exists already",
                where=table,
                cure="leave out --primary-key, --partition-by and --option, which belong to --create",
            )
        opened = open_table(lake, table)
        given = as_input(files, opened.schema, options=texts)
        rows, snapshot = _insert(opened, given, cast, row_kind, overwrite, where)
    commit = f", snapshot {snapshot.id}" if snapshot else ", nothing to commit" if rows else ": the files are empty"
    recognised = {"recognised": given.recognised} if given.recognised else {}
    emit(
        {"rows": rows, "snapshot_id": snapshot.id if snapshot else None} | recognised,
        Sentences((*map(sentence, given.recognised), f"{table}: {counted(rows, 'row')} loaded{commit}")),
        json,
    )


@contextmanager
def _no_folders_after_an_error(lake: Lake, name: str, new_warehouse: bool) -> Iterator[None]:
    """Create the database of table `name`. After an error, remove database, folder and warehouse, if new and empty."""
    database, storage = split_name(name)[0], lake.env.storage
    new_database, new_folder = database not in lake.databases(), database_dir(database) not in storage.folders("")
    lake.create_database(database, if_not_exists=True)
    try:
        yield
    except BaseException:
        if new_database and not lake.tables(database):
            lake.drop_database(database)
        if new_folder:
            storage.prune("" if new_warehouse else database_dir(database))
        raise


def _insert(
    table: Table, given: Input, cast: bool, row_kind: str | None, overwrite: bool, where: str | None
) -> tuple[int, Snapshot | None]:
    with spinner() as progress:
        counter = _Counter(progress)
        data = counter.watched(given)
        if overwrite:
            snapshot = table.overwrite(data, where, cast=cast, row_kind=row_kind)
        else:
            snapshot = added(table, data, cast=cast, row_kind=row_kind)
        return counter.rows, snapshot


class _Counter:
    """Counts rows as they are read."""

    def __init__(self, progress: Progress) -> None:
        self.rows = 0
        self._progress, self._task = progress, progress.add_task("loading", total=None)

    def watched(self, given: Input) -> Input:
        return given._replace(tables=self._counted(given.tables))

    def _counted(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            self.rows += table.num_rows
            self._progress.update(self._task, description=f"loading: {counted(self.rows, 'row')} read")
            yield table
