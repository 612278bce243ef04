"""Statements that are read word by word (`Words`): all but queries, changes of rows and CREATE TABLE.

CREATE DATABASE and USE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.dialect.literals import bind
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.text import Text, passed_on, peek
from lsmlake.errors import InvalidQuery, TableExists
from lsmlake.sql.alter import alter, comment_on
from lsmlake.sql.call import call
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.copy_into import copy_into
from lsmlake.sql.describe import describe
from lsmlake.sql.drop import drop
from lsmlake.sql.engine import Engine
from lsmlake.sql.information_schema import NAME as INFORMATION_SCHEMA
from lsmlake.sql.show import show
from lsmlake.sql.token_reader import Words
from lsmlake.sql.views import Analysed, alter_view, create_view
from lsmlake.statements.attempts import moment_of
from lsmlake.tables.databases import Databases

KINDS = "DATABASE", "SCHEMA", "NAMESPACE"


def create_database(lake: Lake, words: Words) -> Callable[[], object]:
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT 'text'] [WITH DBPROPERTIES ('name' = 'value', ...)]; the words after
    DATABASE."""
    exists = words.take("IF", "NOT", "EXISTS")
    place = words.place
    name = words.identifier("a database")
    if name.lower() == INFORMATION_SCHEMA:
        words.place = place
        words.refuse(f"{name} describes the lake, and cannot be created", cure="choose another name")
    facts: dict[str, object] = {}
    while words.any_follow():
        if words.follows("LOCATION") or words.follows("MANAGED"):
            words.refuse("a database lies in the folder of the lake", cure="leave LOCATION out, or connect another lake there")
        key = "comment" if words.follows("COMMENT") else "properties"
        if key in facts:
            words.refuse("this is given twice", cure="give it once")
        if words.take("COMMENT"):
            facts[key] = words.literal("a comment")
        elif words.take("WITH", "DBPROPERTIES") or words.take("WITH", "PROPERTIES"):
            facts[key] = words.pairs("a property")
        else:
            words.end()

    def act() -> None:
        if not Databases(lake.env.storage).create(name, facts) and not exists:
            raise TableExists(f"database {name!r} exists", cure="choose another name, or write CREATE DATABASE IF NOT EXISTS")

    return act


def use(lake: Lake, words: Words) -> Callable[[], object]:
    """USE [DATABASE | SCHEMA | NAMESPACE] name: where tables are that are named without a database."""
    words.take_one(*KINDS)
    name = words.identifier("a database")

    def act() -> None:
        if name.lower() != INFORMATION_SCHEMA:
            Databases(lake.env.storage).need(name)
        lake.session.database = name

    return act


Action = Callable[[], object]
_READERS: dict[str, Callable[[Lake, Words], Action]] = {
    "CALL": call,
    "COMMENT": comment_on,
    "COPY": copy_into,
    "DROP": drop,
    "SHOW": show,
    "USE": use,
}


def by_words(lake: Lake, given: str, first: str, args: object, engine: Engine | None) -> Callable[[], pa.Table] | None:
    """Reads a statement; None for the others. `first`: its first word."""
    if first not in (*_READERS, "ALTER", "CREATE", "DESC", "DESCRIBE"):
        return None
    words = Words(given)
    action = _read(lake, words, partial(_analyse, lake, engine))
    if action is None:
        return None
    words.end()
    if args:
        raise InvalidQuery("only queries and changes of rows have parameters", found=args, cure="write the values in the text")
    return lambda: found if isinstance(found := action(), pa.Table) else pa.table({})


def _read(lake: Lake, words: Words, analyse: Callable[[str, bool], Analysed]) -> Action | None:
    if words.first == "CREATE":
        if words.take_one(*KINDS):
            return create_database(lake, words)
        replaces = words.take("OR", "REPLACE")
        if any(map(words.follows, ("VIEW", "TEMP", "TEMPORARY", "GLOBAL"))) and not words.follows("TEMPORARY", "TABLE"):
            return create_view(lake, words, analyse, replaces=replaces)
        return None
    if words.first == "ALTER":
        return alter_view(lake, words, analyse) if words.take("VIEW") else alter(lake, words)
    if words.first in ("DESC", "DESCRIBE"):
        return describe(lake, words, analyse)
    return _READERS[words.first](lake, words)


def _analyse(lake: Lake, engine: Engine | None, query: str, temporary: bool) -> Analysed:
    """See `views.Analyse`."""
    text = Text(query)
    catalog = Catalog(lake, text, {}, engine is not None, temporary, lake.session.database)
    with text.read() as tree:
        if not isinstance(tree, exp.Query):
            text.refuse(tree, "this is not a query", cure="write SELECT ...")
        if engine is None:
            node = bind(tree, None, text)
            columns = QueryTranslator(text, catalog.schema, moment_of(lake.env), draws=True).query(node).schema
        else:
            passed_on(tree)
            if not temporary:
                _check_of_lake(tree, catalog)
            columns = lake.runtime.columns_of(engine.rows(tree, text, catalog).schema)
    return Analysed(columns, frozenset(view.name.lower() for view in catalog.views()))


def _check_of_lake(tree: exp.Expression, catalog: Catalog) -> None:
    """Refuses a kept view of what is not in the lake."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        plain = isinstance(peek(node, "this"), exp.Identifier)
        if plain and not (len(node.parts) == 1 and node.name.lower() in ctes):
            catalog.rows(node)
