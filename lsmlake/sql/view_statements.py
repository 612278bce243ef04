"""CREATE VIEW, ALTER VIEW, and views in FROM. A view is a named query, and keeps the columns that it was created with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidQuery, InvalidSchema, TableExists, TableNotFound
from lsmlake.format.paths import table_dir
from lsmlake.format.view import View, ViewColumn
from lsmlake.sql.token_reader import Words, full_name
from lsmlake.tables.databases import Databases
from lsmlake.tables.views import Views
from lsmlake.types import ddl
from lsmlake.types.type_text import format_type_of


@dataclass(frozen=True)
class Analysed:
    """An analysed query: its columns, and the names of the views that it reads, directly or through other views."""

    columns: pa.Schema
    views: frozenset[str]


Analyse = Callable[[str, bool], Analysed]
"""Reads the text of a query. The second argument: whether it can read temporary views."""


@dataclass
class _Head:
    """The part of CREATE VIEW before AS."""

    temporary: bool
    replaces: bool
    exists: bool = False
    names: list[tuple[str, str | None]] = field(default_factory=list)
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def create_view(lake: Lake, words: Words, analyse: Analyse, *, replaces: bool) -> Callable[[], object]:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(column [COMMENT 'text'], ...)] [COMMENT 'text']
    [TBLPROPERTIES (...)] AS query; the words after OR REPLACE."""
    if words.follows("GLOBAL"):
        words.refuse("there are no global temporary views", cure="leave GLOBAL out")
    head = _Head(bool(words.take_one("TEMP", "TEMPORARY")), replaces)
    words.need("VIEW")
    if head.temporary and lake.session.served:
        words.refuse("clients of a server share its session", cure="create a view in a database")
    head.exists = words.take("IF", "NOT", "EXISTS")
    if head.exists and replaces:
        words.refuse("OR REPLACE and IF NOT EXISTS exclude each other", cure="use one of them")
    place = words.place
    name = words.name() if head.temporary else full_name(lake, words)
    if head.temporary and "." in name:
        words.place = place
        words.refuse("a temporary view is in no database", cure="leave the database out")
    _read_clauses(words, head)
    view = _view(lake, words.rest("a query"), head, analyse, name)
    return lambda: _put(lake, name, view, head)


def _read_clauses(words: Words, head: _Head) -> None:
    if words.follows("("):
        head.names = words.listed(lambda: _column(words))

    def refuse() -> NoReturn:
        words.refuse(
            "this is not supported in CREATE VIEW",
            expected="[(columns)] [COMMENT 'text'] [TBLPROPERTIES (...)] AS query",
            cure="leave it out: a view has the columns of then" if words.follows("WITH") else "",
        )

    readers = {"COMMENT": lambda: words.literal("a comment"), "TBLPROPERTIES": lambda: words.pairs("a property")}
    given = words.clauses(readers, refuse)
    head.comment, head.properties = given.get("COMMENT", head.comment), given.get("TBLPROPERTIES", head.properties)


def _column(words: Words) -> tuple[str, str | None]:
    name = words.identifier("a column")
    return name, words.literal("a comment") if words.take("COMMENT") else None


def _view(lake: Lake, text: str, head: _Head, analyse: Analyse, name: str) -> View:
    analysed = analyse(text, head.temporary)
    if name.lower() in analysed.views:
        raise InvalidQuery(
            "the view would read itself", where=f"view {name}", found=", ".join(sorted(analysed.views)), cure="correct the query"
        )
    fields = analysed.columns
    if head.names and len(head.names) != len(fields):
        raise InvalidQuery(
            "the list names another number of columns than the query gives",
            where=f"view {name}",
            expected=len(fields),
            found=len(head.names),
            cure="name each column, or leave the list out",
        )
    names = head.names or [(one, None) for one in fields.names]
    repeated = [one for one, count in Counter(one.lower() for one, _ in names).items() if count > 1]
    if repeated:
        what = "two columns of the view have the same name"
        raise InvalidQuery(what, where=f"view {name}", found=repeated[0], cure="write AS in the query, or name the columns")
    columns = _columns(fields, names, name)
    return View(text, columns, lake.session.database, head.comment, lake.env.clock(), head.properties)


def _columns(fields: pa.Schema, names: Sequence[tuple[str, str | None]], view: str) -> tuple[ViewColumn, ...]:
    seen: Counter[str] = Counter()
    made = []
    for column, (own, comment) in zip(fields, names, strict=True):
        type_text = format_type_of(column)
        try:
            ddl.parse_columns(f"c {type_text}", intervals=True)
        except InvalidSchema as unknown:
            raise InvalidQuery(
                f"a view cannot have column {own}", where=f"view {view}", expected=ddl.TYPES, found=type_text, cure="cast it"
            ) from unknown
        made.append(ViewColumn(own, type_text, comment, column.name, seen[column.name.lower()]))
        seen[column.name.lower()] += 1
    return tuple(made)


def _put(lake: Lake, name: str, view: View, head: _Head) -> None:
    if head.temporary:
        made = lake.session.put_view(name, view, replaces=head.replaces)
    else:
        _check_no_table(lake, name)
        made = Views(lake.env.storage).put(name, view, replaces=head.replaces)
        try:
            _check_no_table(lake, name)  # a table may have been created meanwhile
        except TableExists:
            Views(lake.env.storage).drop(name)
            raise
    if not made and not head.exists:
        raise TableExists(f"view {name!r} exists", cure="choose another name, or write CREATE OR REPLACE VIEW")


def _check_no_table(lake: Lake, name: str) -> None:
    if Databases(lake.env.storage).is_table(table_dir(name)):
        raise TableExists(f"a table has the name {name!r}", cure="choose another name")


def alter_view(lake: Lake, words: Words, analyse: Analyse) -> Callable[[], object]:
    """ALTER VIEW name AS query | RENAME TO name | SET TBLPROPERTIES (...) | UNSET TBLPROPERTIES [IF EXISTS] (...); the words
    after VIEW."""
    place = words.place
    name = words.name()
    temporary = "." not in name and lake.session.view(name) is not None
    if not temporary:
        words.place = place
        name = full_name(lake, words)
    old = lake.session.view(name) if temporary else Views(lake.env.storage).get(name)
    if old is None:
        raise TableNotFound(f"there is no view {name!r}", cure="SHOW VIEWS lists the views")
    head = _Head(temporary, True, comment=old.comment, properties=dict(old.properties))
    if words.take("AS"):
        new = _view(lake, words.rest("a query"), head, analyse, name)
        return lambda: _put(lake, name, new, head)
    if words.take("RENAME", "TO"):
        new_name = words.identifier("a name") if temporary else full_name(lake, words)
        return lambda: _rename(lake, name, new_name, old, head)
    if words.take("SET", "TBLPROPERTIES"):
        new = replace(old, properties={**old.properties, **words.pairs("a property")})
        return lambda: _put(lake, name, new, head)
    if words.take("UNSET", "TBLPROPERTIES"):
        optional = words.take("IF", "EXISTS")
        going = words.listed(lambda: words.literal("a property"))
        if (missing := [one for one in going if one not in old.properties]) and not optional:
            words.refuse(f"the property {missing[0]} is not set", cure="write UNSET TBLPROPERTIES IF EXISTS")
        new = replace(old, properties={key: value for key, value in old.properties.items() if key not in going})
        return lambda: _put(lake, name, new, head)
    words.refuse("this ALTER VIEW is not supported", expected="AS query, RENAME TO, SET / UNSET TBLPROPERTIES")


def _rename(lake: Lake, name: str, new_name: str, view: View, head: _Head) -> None:
    head.replaces = False
    _put(lake, new_name, view, head)
    _ = lake.session.drop_view(name) if head.temporary else Views(lake.env.storage).drop(name)


def columns_of(view: View) -> Iterator[pa.Field]:
    """The columns of a view."""
    for column in view.columns:
        comment = {} if column.comment is None else {b"comment": column.comment.encode()}
        field = ddl.parse_columns(f"c {column.type}", intervals=True).field(0).with_name(column.name)
        yield field.with_metadata({**(field.metadata or {}), **comment})
