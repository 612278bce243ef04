"""The commands that write many rows: `sql`, statements and a shell for them; `export`, the rows of a table.

The shell reads statements up to a semicolon, with history and completion of names by readline.
"""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import sqlglot
import typer
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.argument_reading import column_names, settings
from lsmlake.cli.arguments import Columns, SnapshotId, TagName, Timestamp, Where
from lsmlake.cli.opening import open_lake
from lsmlake.cli.progress import waiting
from lsmlake.cli.sql_output import FORMATS, Output, opened, output_of, write
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.sql import streamed_rows
from lsmlake.sql.streamed_rows import Streamed

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
    args = settings(arg, "--arg", as_written=True) or None
    shell = sql is None and sys.stdin.isatty()
    if shell and (args or chosen.takes_one_query):
        option = chosen.takes_one_query or "--arg"
        raise InvalidQuery("a shell does not take the option", where=option, cure="give the SQL after the command")
    lake = open_lake(ctx, time_zone=time_zone)
    if shell:
        run_shell(lake, lambda text: _run(lake, text, None, chosen))
        return
    texts, _ = statements(sys.stdin.read() if sql is None else sql)
    if chosen.takes_one_query and len(texts) != 1:
        raise InvalidQuery(f"{chosen.takes_one_query} takes one query", found=f"{len(texts)} statements", cure="write one")
    if sql is not None and not texts:
        raise InvalidQuery("the SQL is empty", found=repr(sql), cure="write a statement, or leave SQL out to read standard input")
    for text in texts:
        _run(lake, text, args, chosen)


def _run(lake: Lake, text: str, args: Mapping[str, object] | None, output: Output) -> None:
    with opened(output) as file:
        write(waiting(lambda: streamed_rows.sql(lake, text, args, query_for=output.takes_one_query)), output, file)


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


try:
    import readline
except ImportError:  # Windows
    readline = None


# -- the shell --------------------------------------------------------------------------------------------------------

_HISTORY, _HISTORY_MAX = "~/.lsmlake_history", 1000
_WELCOME = "Statements end with a semicolon. SHOW TABLES; lists the tables, exit or Ctrl-D ends the shell."
_HELP = """Queries: SELECT, EXPLAIN. Rows: INSERT, UPDATE, DELETE, MERGE.
Tables: CREATE, ALTER, DROP, TRUNCATE, SHOW, DESCRIBE. Upkeep: CALL.
Tab completes names of tables and columns; Ctrl-C drops the statement, or stops one that runs."""
_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "ON", "USING", "AS", "OF", "VERSION",
    "TIMESTAMP", "INSERT", "INTO", "OVERWRITE", "VALUES", "UPDATE", "SET", "DELETE", "MERGE", "WHEN", "MATCHED", "THEN", "CREATE",
    "TABLE", "DATABASE", "ALTER", "DROP", "TRUNCATE", "DESCRIBE", "SHOW", "TABLES", "DATABASES", "CALL", "EXPLAIN", "WITH",
    "DISTINCT",
)  # fmt: skip
_NAME = re.compile(r"([\w]+)\.([\w]+)")


def run_shell(lake: Lake, run: Callable[[str], None], read: Callable[[str], str] = input) -> None:
    """Reads and runs statements until the end of the input. An error is printed, and the shell goes on."""
    if readline is not None:
        _prepare(lake)
    print(_WELCOME)
    text = ""
    while True:
        try:
            line = read("  ...> " if text.strip() else "lsmlake> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            text = ""
            continue
        word = line.strip().lower().rstrip(";")
        if not text.strip() and word in ("exit", "quit"):
            return
        if not text.strip() and word == "help":
            print(_HELP)
            continue
        text += line + "\n"
        texts, whole = statements(text)
        if whole:
            text = ""
            _run_all(texts, run)


def _run_all(texts: Iterable[str], run: Callable[[str], None]) -> None:
    """Runs statements up to the first that fails."""
    try:
        for statement in texts:
            run(statement)
    except LakeError as error:
        print(error.for_command_line(), file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)


def statements(text: str) -> tuple[list[str], bool]:
    """The statements of a text, without the semicolons between them, and whether the last one is whole: it ends with a semicolon,
    neither in quotes nor in a comment."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except SqlglotError:
        return [text], False  # quotes or a comment without an end
    ends = [token.start for token in tokens if token.token_type is TokenType.SEMICOLON]
    starts = [0, *(end + 1 for end in ends)]
    texts = [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]
    whole = not tokens or tokens[-1].token_type is TokenType.SEMICOLON
    return [one for number, one in enumerate(texts) if one.strip() and (number < len(ends) or not whole)], whole


def _prepare(lake: Lake) -> None:
    history = Path(_HISTORY).expanduser()
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_MAX)
    atexit.register(_save, history)
    readline.set_completer_delims(" \t\n,();=<>+-*/")
    readline.set_completer(lambda word, state: _nth(completions(lake, readline.get_line_buffer(), word), state))
    readline.parse_and_bind("tab: complete")


def _save(history: Path) -> None:
    with suppress(OSError):
        readline.write_history_file(history)


def _nth(names: list[str], state: int) -> str | None:
    return names[state] if state < len(names) else None


def completions(lake: Lake, line: str, word: str) -> list[str]:
    """The words that begin with `word`: names of tables, columns of the tables in the line, keywords."""
    names: list[str] = []
    with suppress(LakeError):
        names += [name for name in lake.tables() if name.startswith(word)]
        names += [f"{name}." for name in lake.databases() if name.startswith(word)]
    for database, table in _NAME.findall(line):
        with suppress(LakeError):
            names += [name for name in lake.table(f"{database}.{table}").schema.names if name.startswith(word)]
    return [*dict.fromkeys(names), *(name for name in _WORDS if word and name.startswith(word.upper()))]
