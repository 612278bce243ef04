"""Shared parts of the listings of SQL: patterns of names, rows of text, and the tables and views of a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.sql.token_reader import Words
from lsmlake.tables.databases import Databases
from lsmlake.tables.views import Views
from lsmlake.types.type_text import format_type_of

Fits = Callable[[str], bool]


class Listed(NamedTuple):
    """A table or view. `database`: "" for a temporary view."""

    database: str
    name: str
    is_view: bool

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}" if self.database else self.name


def pattern(words: Words) -> Fits:
    """[LIKE] 'pattern' at the end of a statement: `*` matches any text, `|` separates alternatives; case is ignored."""
    given = words.literal("a pattern") if words.take("LIKE") or words.is_text() else "*"
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in given.split("|"))
    regex = re.compile("|".join(parts), re.IGNORECASE)
    return lambda name: regex.fullmatch(name) is not None


def database_in(words: Words) -> str | None:
    """[IN | FROM database]"""
    return words.identifier("a database") if words.take_one("IN", "FROM") else None


def tables_of(lake: Lake, database: str | None) -> Iterator[Listed]:
    """The tables of a database. None: of the current database, or of all databases if none is current."""
    for home in _homes(lake, database):
        yield from (Listed(home, name, False) for name in lake.tables(home))


def views_of(lake: Lake, database: str | None) -> Iterator[Listed]:
    """The views of a database (see `tables_of`), then the temporary views."""
    for home in _homes(lake, database):
        Databases(lake.env.storage).need(home)
        yield from (Listed(home, name, True) for name in Views(lake.env.storage).names(home))
    yield from (Listed("", name, True) for name in sorted(lake.session.views))


def _homes(lake: Lake, database: str | None) -> Sequence[str]:
    chosen = database or lake.session.database
    return lake.databases() if chosen is None else [chosen]


def texts(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> pa.Table:
    """A table of text columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))


def type_of(field: pa.Field) -> str:
    """The type of a column as text, with NOT NULL if the column has it."""
    return format_type_of(field) + ("" if field.nullable else " NOT NULL")


def quoted_text(text: str) -> str:
    """Text in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
