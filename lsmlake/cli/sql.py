"""The commands that write many rows: `sql`, statements and a shell for them; `export`, the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Annotated

import pyarrow as pa
import typer

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.arguments import Columns, SnapshotId, TagName, Timestamp, Where
from lsmlake.cli.opening import open_lake
from lsmlake.cli.progress import waiting
from lsmlake.cli.reading import column_names, pairs
from lsmlake.cli.sql_formats import FORMATS
from lsmlake.cli.sql_output import Output, opened, output_of, write
from lsmlake.cli.sql_shell import run_shell, statements
from lsmlake.errors import InvalidQuery
from lsmlake.sql import stream
from lsmlake.sql.stream import Streamed

_File = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", show_default=False)]


def sql(
    ctx: typer.Context,
    sql: str | None = None,
    *,
    format: str | None = None,
    output: _File = None,
    arg: list[str] | None = None,
    time_zone: str | None = None,
    json: bool = False,
) -> None:
    """Run SQL statements, or a shell for them.

    Tables are written database.table. On a terminal without SQL a shell starts, with history and completion.

    Args:
        sql (SQL): Statements, separated by semicolons. Default: standard input, or a shell.
        format (FORMAT): table (its first 100 rows), csv, json (a line per row), parquet or arrow. Default: table, or by the name
            of --output.
        output (FILE): Write the rows of the query to this file.
        arg (NAME=VALUE): The text that the parameter :NAME stands for; may be repeated.
        time_zone (ZONE): The zone of times without one. Default: UTC.
        json: Print one JSON array for each statement.
    """
    chosen = output_of(format, json, output)
    args = dict(pairs(arg, "NAME=VALUE")) or None
    shell = sql is None and sys.stdin.isatty()
    if shell and (args or chosen.takes_one_query):
        option = chosen.takes_one_query or "--arg"
        raise InvalidQuery("a shell does not take the option", where=option, cure="give the SQL after the command")
    lake = open_lake(ctx, time_zone=time_zone)
    if shell:
        run_shell(lake, lambda text: _run(lake, text, None, chosen))
        return
    found, _ = statements(sys.stdin.read() if sql is None else sql)
    if chosen.takes_one_query and len(found) != 1:
        raise InvalidQuery(f"{chosen.takes_one_query} takes one query", found=f"{len(found)} statements", cure="write one")
    for text in found:
        _run(lake, text, args, chosen)


def _run(lake: Lake, text: str, args: Mapping[str, object] | None, output: Output) -> None:
    with opened(output) as file:
        write(waiting(lambda: stream.sql(lake, text, args, query_for=output.takes_one_query)), output, file)


def export(
    table: Table,
    *,
    output: _File = None,
    format: str | None = None,
    where: Where = None,
    columns: Columns = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    json: bool = False,
) -> None:
    """Write the rows of a table to a file or to standard output.

    The rows are read and written piece by piece, so a table may be larger than memory. Their order is not defined. A file appears
    under its name when it is whole.

    Args:
        output (FILE): Write to this file. Default: standard output.
        format (FORMAT): csv, json (a line per row), parquet or arrow. Default: by the name of --output, or csv.
        json: Write one JSON array.
    """
    chosen = output_of(format or (None if output or json else "csv"), json, output, formats=FORMATS[1:])
    names = column_names(columns)
    scan = table.scan(where=where, columns=names, snapshot=snapshot, tag=tag, timestamp=timestamp)
    with opened(chosen) as file:
        reader = waiting(scan.to_batches)
        write(Streamed(reader.schema, _batches(reader)), chosen, file)


def _batches(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    with closing(reader):
        yield from reader
