"""The shell of `lsmlake sql`: reads statements up to a semicolon, with history and completion of names by readline."""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.api.lake import Lake
from lsmlake.errors import LakeError

try:
    import readline
except ImportError:  # Windows
    readline = None

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
        found, whole = statements(text)
        if whole:
            text = ""
            _run_all(found, run)


def _run_all(found: Iterable[str], run: Callable[[str], None]) -> None:
    """Runs statements up to the first that fails."""
    try:
        for statement in found:
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
    found = [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]
    whole = not tokens or tokens[-1].token_type is TokenType.SEMICOLON
    return [one for number, one in enumerate(found) if one.strip() and (number < len(ends) or not whole)], whole


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


def _nth(found: list[str], state: int) -> str | None:
    return found[state] if state < len(found) else None


def completions(lake: Lake, line: str, word: str) -> list[str]:
    """The words that begin with `word`: names of tables, columns of the tables in the line, keywords."""
    found: list[str] = []
    with suppress(LakeError):
        found += [name for name in lake.tables() if name.startswith(word)]
        found += [f"{name}." for name in lake.databases() if name.startswith(word)]
    for database, table in _NAME.findall(line):
        with suppress(LakeError):
            found += [name for name in lake.table(f"{database}.{table}").schema.names if name.startswith(word)]
    return [*dict.fromkeys(found), *(name for name in _WORDS if word and name.startswith(word.upper()))]
