"""The command `sync`: a whole database in step with another system, by files of change events."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict

import typer

from lsmlake.api.sync.sync_report import SyncedTable, SyncReport
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cli.argument_reading import column_names, pairs, settings
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.opening import open_lake
from lsmlake.cli.progress import busy
from lsmlake.errors import InvalidQuery
from lsmlake.options.option_types import duration
from lsmlake.report.text import counted, printable
from lsmlake.schema.partitioning import split_terms


def sync(
    ctx: typer.Context,
    files: list[str],
    *,
    format: str,
    database: str,
    tables: str | None = None,
    excluding_tables: str | None = None,
    table_mapping: list[str] | None = None,
    table_prefix: str = "",
    table_suffix: str = "",
    merge_shards: bool = False,
    primary_key: list[str] | None = None,
    partition_by: list[str] | None = None,
    computed_column: list[str] | None = None,
    option: list[str] | None = None,
    evolve: str = "widen",
    all_text: bool = False,
    on_error: str = "reject",
    checkpoint: str | None = None,
    column: str | None = None,
    encoding: str | None = None,
    registry: str | None = None,
    every: str | None = None,
) -> CommandResult | None:
    """Apply change events of many tables to a database.

    Tables are created and altered as the events require. Each table gets each batch of files by one commit and, with
    --checkpoint, exactly once. A table that fails does not stop the others. The exit code is 1 if events were rejected.
    `lsmlake docs database_sync` says more.

    Args:
        files (FILES...): Files with an event per line, or Parquet with a column of events: paths, folders or globs.
        format (FORMAT): debezium-json, debezium-avro, canal-json, maxwell-json, ogg-json, aws-dms or mongodb; or a JSON object of
            the arguments of ChangeFormat: '{"name": "debezium-json", "timestamps": "micros"}'.
        database (NAME): The database of the warehouse; it is created if it does not exist.
        tables (REGEX): The tables to keep, by their whole names at the source; default: all.
        excluding_tables (REGEX): Tables not to keep.
        table_mapping (REGEX=NAME): The name of a table in the warehouse, by a pattern of its name at the source. Repeatable.
        table_prefix (TEXT): What the names of tables begin with, unless --table-mapping names them.
        table_suffix (TEXT): What these names end with.
        merge_shards: Several tables at the source may become one table; no key may be in two of them.
        primary_key (TABLE=NAMES): Key columns of a table, 'orders=id,line', or of all tables, 'id'. Default: those in the events.
        partition_by (TABLE=FIELDS): Partitions of a table that is created, 'orders=days(ts)', or of all, 'dt'.
        computed_column (TABLE.COLUMN=SQL): A column computed from the others: 'orders.dt=date(created)'. Repeatable.
        option (NAME=VALUE): An option of the tables that are created. Repeatable.
        evolve (RULE): What may change in the columns of tables: widen (also adds), add or refuse.
        all_text: Fields without a declared type are STRING; default: their values decide.
        on_error (RULE): reject writes events that cannot be applied to TABLE_rejected; raise fails after the other tables.
        checkpoint (DIR): Remembers which files were read. Default: all files are read.
        column (NAME): The column of the events in Parquet files; default: value.
        encoding (NAME): The encoding of text files, such as latin-1.
        registry (URL): With --format debezium-avro: the registry of the schemas, unless the JSON object names it.
        every (TIME): Look for new files again and again, such as 30s, until interrupted. Needs --checkpoint.
    """
    given = {
        "format": ChangeFormat.of_text(format, registry),
        "database": database,
        "tables": tables,
        "excluding_tables": excluding_tables,
        "table_mapping": dict(pairs(table_mapping, "REGEX=NAME", "--table-mapping")),
        "table_prefix": table_prefix,
        "table_suffix": table_suffix,
        "merge_shards": merge_shards,
        "primary_keys": _per_table(primary_key, "--primary-key", lambda text: column_names(text, "--primary-key") or []),
        "partition_by": _per_table(partition_by, "--partition-by", split_terms),
        "computed_columns": _computed(computed_column),
        "options": settings(option, "--option"),
        "evolve": evolve,
        "infer_types": not all_text,
        "on_error": on_error,
        "checkpoint": checkpoint,
        "column": column,
        "encoding": encoding,
    }
    lake = open_lake(ctx, create=True)
    if every is None:
        with busy("applying events"):
            return _result(lake.sync(files, **given))
    if checkpoint is None:
        raise InvalidQuery("--every needs --checkpoint", where="--every", found=every, cure="add --checkpoint DIR")
    seconds = duration.argument("every", every, "sync", "correct --every, or leave it out") / 1000
    while True:
        report = lake.sync(files, **given)
        for line in (*_lines(report), *_errors(report)) if report.batches else ():
            typer.echo(line)
        time.sleep(seconds)


def _per_table(texts: Sequence[str] | None, name: str, read) -> dict[str, list[str]] | list[str] | None:
    """The values of a repeatable option: one for all tables, or TABLE=VALUE."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return read(texts[0])
    if unnamed := [text for text in texts if "=" not in text]:
        cure = f"write {name} TABLE=..., once for each table"
        raise InvalidQuery(f"{name} for all tables stands alone", where=name, found=unnamed[0], cure=cure)
    return {table: read(value) for table, value in pairs(texts, "TABLE=NAMES", name)}


def _computed(texts: Sequence[str] | None) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, expression in pairs(texts, "TABLE.COLUMN=SQL", "--computed-column"):
        table, dot, column = name.partition(".")
        if not dot:
            cure = "write TABLE.COLUMN=SQL"
            raise InvalidQuery("a computed column has no table", where="--computed-column", found=name, cure=cure)
        found.setdefault(table, {})[column] = expression
    return found


def _result(report: SyncReport) -> CommandResult:
    return CommandResult(json.loads(json.dumps(asdict(report))), _lines(report), _errors(report))


def _lines(report: SyncReport) -> list[str]:
    if not report.batches:
        return ["no new events"]
    unmatched = [f"{name}: named by an option, and there is no such table" for name in report.unmatched]
    left_out = [printable(f"{name}: left out by --tables or --excluding-tables") for name in report.left_out]
    idle = [printable(f"{one}: decided nothing") for one in report.idle]
    return [*([_line(one) for one in report.tables] or ["no events of tables"]), *unmatched, *left_out, *idle]


def _line(one: SyncedTable) -> str:
    parts = [f"{counted(one.rows, 'row')} written by {counted(one.commits, 'commit')}"]
    parts += ["created"] if one.created else []
    parts += [f"columns added: {', '.join(one.columns_added)}"] if one.columns_added else []
    parts += [f"columns widened: {', '.join(one.columns_widened)}"] if one.columns_widened else []
    return printable(f"{one.table}: {'; '.join(parts)}")


def _errors(report: SyncReport) -> list[str]:
    found = []
    for one in report.tables:
        if one.rejected:
            why = "".join(f": {reason}" for reason in one.reasons)
            found.append(printable(f"{one.table}: {counted(one.rejected, 'event')} rejected{why}"))
    return [*found, *([f"{counted(report.rejected, 'event')} rejected: no table is named"] if report.rejected else [])]
