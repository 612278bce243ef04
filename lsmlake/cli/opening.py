"""Opens the warehouse and the table that the arguments of a command name."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.guard import VARIABLE
from lsmlake.errors import InvalidOption, InvalidQuery
from lsmlake.storage.address import FILE, address_of
from lsmlake.storage.local import directory_at
from lsmlake.warehouse import connect

_PATH = re.compile(r"(?:(?P<warehouse>.*)/)?(?P<database>[^/]+)\.db/(?P<table>[^/]+)/?")


def open_lake(
    ctx: typer.Context, warehouse: str | None, debug: bool, *, create: bool = False, time_zone: str | None = None
) -> Lake:
    """Open the warehouse named after the command, else before it, else by the environment. With `create` it need not exist.
    Raises InvalidQuery."""
    note_debug(ctx, debug)
    location = warehouse or ctx.obj.warehouse
    if not location:
        raise InvalidQuery("no warehouse given", cure=f"add --warehouse DIR or set {VARIABLE}")
    lake = connect(location, time_zone=time_zone)
    if not create and not is_directory(location):
        cure = f"check --warehouse or {VARIABLE}; for a new warehouse make the directory"
        raise InvalidQuery("no such warehouse", where=location, expected="a directory", cure=cure)
    return lake


def is_directory(location: str) -> bool:
    """Whether `location` is a directory, as any warehouse of a file system is; or an address of another store."""
    address = address_of(location)
    return address.kind != FILE or directory_at(address.prefix).is_dir()


def note_debug(ctx: typer.Context, debug: bool) -> None:
    """Record --debug, which can be given before or after the name of the command."""
    ctx.obj.debug |= debug


def column_names(text: str | None) -> list[str] | None:
    """The value of --columns as names; None for all columns. Raises InvalidQuery if a name is empty."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        written = ",".join(filter(None, names))
        cure = f"write --columns {written}" if written else "leave --columns out for all columns"
        raise InvalidQuery("a column name is empty", where="--columns", found=repr(text), cure=cure)
    return names


def settings(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE. Raises InvalidOption."""
    return dict(pairs(texts, "NAME=VALUE"))


def pairs(texts: Sequence[str] | None, form: str) -> list[tuple[str, str]]:
    """Parse texts of a form such as OLD=NEW. Raises InvalidOption."""
    found = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOption(f"{form.partition('=')[2].lower()} is missing", found=repr(text), cure=f"write {form}")
        found.append((name.strip(), value.strip()))
    return found


def open_table(lake: Lake, name: str) -> Table:
    """Open a table. Raises TableNotFound, or InvalidQuery with a suggestion if `name` is almost a table name."""
    if "/" in name and (path := _PATH.fullmatch(name)):
        root = f" --warehouse {path['warehouse']}" if path["warehouse"] else ""
        raise InvalidQuery("a path, not a table name", where=repr(name), cure=f"write {path['database']}.{path['table']}{root}")
    if "." not in name and (homes := [database for database in lake.databases() if name in lake.tables(database)]):
        cure = f"did you mean {homes[0]}.{name}?"
        raise InvalidQuery("the table name lacks its database", where=repr(name), expected="database.table", cure=cure)
    return lake.table(name)
