"""Reads the arguments of commands: the warehouse, a table in it to read from, names and settings.

This module loads neither the verbs of a lake nor SQL, which take half a second; `cli.opening` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import typer

from lsmlake.cli.guard import VARIABLE
from lsmlake.errors import InvalidOption, InvalidQuery
from lsmlake.schema.partitioning import split_terms
from lsmlake.storage.address import FILE, address_of
from lsmlake.storage.env import Env
from lsmlake.storage.local import directory_at
from lsmlake.storage.location import storage_at
from lsmlake.tables.databases import Databases, metadata_of
from lsmlake.tables.version import Metadata

_PATH = re.compile(r"(?:(?P<warehouse>.*)/)?(?P<database>[^/]+)\.db/(?P<table>[^/]+)/?")


def location_of(ctx: typer.Context, *, create: bool = False) -> str:
    """The address of the warehouse: after the command, else before it, else from the environment. `create`: it need not exist.
    Raises InvalidQuery."""
    location = ctx.obj.warehouse
    if not location:
        raise InvalidQuery("no warehouse given", cure=f"add --warehouse DIR or set {VARIABLE}")
    is_there = is_directory(location)  # raises if the text is not an address
    if not create and not is_there:
        cure = f"check --warehouse or {VARIABLE}; for a new warehouse make the directory"
        raise InvalidQuery("no such warehouse", where=location, expected="a directory", cure=cure)
    return location


def take_place(ctx: typer.Context, place: str | None) -> None:
    """Makes the argument WAREHOUSE of a command the warehouse. Raises InvalidQuery if --warehouse names another one."""
    if place is None:
        return
    sources = [one.get_parameter_source("warehouse") for one in (ctx, ctx.parent) if one is not None]
    if ctx.obj.warehouse != place and any(source is not None and source.name == "COMMANDLINE" for source in sources):
        cure = "leave one of them out"
        raise InvalidQuery("two warehouses are named", found=f"{place} and --warehouse {ctx.obj.warehouse}", cure=cure)
    ctx.obj.warehouse = place


def open_env(ctx: typer.Context) -> Env:
    """The warehouse to read from, without the verbs of a lake."""
    return Env(storage_at(location_of(ctx)))


def open_metadata(ctx: typer.Context, name: str) -> Metadata:
    """A table to read from, as `open_env`. Raises as `open_table`."""
    env = open_env(ctx)
    databases = Databases(env.storage)
    check_name(name, databases.names, databases.tables)
    return metadata_of(env, name)


def is_directory(location: str) -> bool:
    """Whether `location` is a directory, or else an address of a store that has no directories."""
    address = address_of(location)
    return address.kind != FILE or directory_at(address.prefix).is_dir()


def column_names(text: str | None, option: str = "--columns") -> list[str] | None:
    """The value of an option as names; None: it is not given. Raises InvalidQuery if a name is empty."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        written = ",".join(filter(None, names))
        cure = f"write {option} {written}" if written else f"leave {option} out"
        raise InvalidQuery("a column name is empty", where=option, found=repr(text), cure=cure)
    return names


def partition_terms(text: str | None) -> list[str]:
    """The value of --partition-by as terms; none: it is not given. Raises InvalidQuery if a term is empty."""
    terms = [] if text is None else split_terms(text)
    if text is not None and not (terms and all(terms)):
        raise InvalidQuery("a partition is empty", where="--partition-by", found=repr(text), cure="leave it out")
    return terms


def settings(texts: Sequence[str] | None, option: str, *, as_written: bool = False) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE, the values of `option`. `as_written`: see `pairs`. Raises InvalidOption, also for a
    repeated name."""
    return dict(pairs(texts, "NAME=VALUE", option, as_written=as_written))


def pairs(
    texts: Sequence[str] | None, form: str, option: str | None = None, *, as_written: bool = False
) -> list[tuple[str, str]]:
    """Parse texts of a form such as OLD=NEW, the values of `option`. Raises InvalidOption, also for a repeated name. `option`:
    None: the caller checks the names. `as_written`: a value is a text of the user, whose blanks count."""
    split = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOption(f"{form.partition('=')[2].lower()} is missing", found=repr(text), cure=f"write {form}")
        split.append((name.strip(), value if as_written else value.strip()))
    names = [name for name, _ in split]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice and option is not None:
        cure = f"write {option} {form} once for each name"
        raise InvalidOption(f"{option} names {', '.join(twice)} twice", found=list(texts or ()), cure=cure)
    return split


def check_name(name: str, databases: Callable[[], list[str]], tables: Callable[[str], list[str]]) -> None:
    if "/" in name and (path := _PATH.fullmatch(name)):
        root = f" --warehouse {path['warehouse']}" if path["warehouse"] else ""
        raise InvalidQuery("a path, not a table name", where=repr(name), cure=f"write {path['database']}.{path['table']}{root}")
    if "." not in name and (homes := [database for database in databases() if name in tables(database)]):
        cure = f"did you mean {homes[0]}.{name}?"
        raise InvalidQuery("the table name lacks its database", where=repr(name), expected="database.table", cure=cure)
