"""Executes one statement in two steps: reads it completely, which gives an action, then calls the action.

Queries, changes of rows and CREATE TABLE are read from the parser's tree, all other statements word by word (`Words`). CREATE
DATABASE and USE are read in this module. Parts of a statement that no reader takes are refused between the two steps
(`Text.end`, `Words.end`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.public_types import SparkDataFrame
from lsmlake.api.runtime import Args
from lsmlake.dialect.literals import bind
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.sql_text import Text, passed_on, peek
from lsmlake.errors import InvalidQuery, TableExists
from lsmlake.sql import create
from lsmlake.sql.alter_table import alter, comment_on
from lsmlake.sql.call import call
from lsmlake.sql.copy_into import copy_into
from lsmlake.sql.describe import describe
from lsmlake.sql.dml import ChangeStatements
from lsmlake.sql.drop import drop
from lsmlake.sql.engine import Engine
from lsmlake.sql.explain import ANALYZE, as_rows, explain, mode_of
from lsmlake.sql.information_schema import NAME as INFORMATION_SCHEMA
from lsmlake.sql.insert import InsertStatements
from lsmlake.sql.materialized_views import create_materialized_view, refresh_materialized_view
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import Prepared, prepare, run
from lsmlake.sql.show import show
from lsmlake.sql.token_reader import Words, first_word
from lsmlake.sql.view_statements import Analysed, alter_view, create_view
from lsmlake.storage.env import moment_of
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
    """USE [DATABASE | SCHEMA | NAMESPACE] name: sets the database of tables that are named without a database."""
    words.take_one(*KINDS)
    name = words.identifier("a database")
    if lake.session.served:
        raise InvalidQuery("clients of a server share its session", where="USE", cure="write the database before each table")

    def act() -> None:
        if name.lower() != INFORMATION_SCHEMA:
            Databases(lake.env.storage).need(name)
        lake.session.database = name

    return act


_Act = Callable[[], object]
_READERS: dict[str, Callable[[Lake, Words], _Act]] = {
    "CALL": call,
    "COMMENT": comment_on,
    "COPY": copy_into,
    "DROP": drop,
    "REFRESH": refresh_materialized_view,
    "SHOW": show,
    "USE": use,
}


def is_by_words(first: str) -> bool:
    """Whether statements with this first word may be read word by word."""
    return first in (*_READERS, "ALTER", "CREATE", "DESC", "DESCRIBE")


def by_words(lake: Lake, given: str, first: str, args: object, engine: Engine | None) -> Callable[[], pa.Table] | None:
    """The action of a statement that is read word by word; None for other statements. `first`: the first word."""
    if not is_by_words(first):
        return None
    words = Words(given)
    action = _read(lake, words, partial(_analyse, lake, engine))
    if action is None:
        return None
    words.end()
    if args:
        raise InvalidQuery("only queries and changes of rows have parameters", found=args, cure="write the values in the text")
    return lambda: result if isinstance(result := action(), pa.Table) else pa.table({})


def _read(lake: Lake, words: Words, analyse: Callable[[str, bool], Analysed]) -> _Act | None:
    if words.first == "CREATE":
        if words.take_one(*KINDS):
            return create_database(lake, words)
        replaces = words.take("OR", "REPLACE")
        if words.follows("MATERIALIZED"):
            return create_materialized_view(lake, words, replaces=replaces)
        if any(map(words.follows, ("VIEW", "TEMP", "TEMPORARY", "GLOBAL"))) and not words.follows("TEMPORARY", "TABLE"):
            return create_view(lake, words, analyse, replaces=replaces)
        return None
    if words.first == "ALTER":
        return alter_view(lake, words, analyse) if words.take("VIEW") else alter(lake, words)
    if words.first in ("DESC", "DESCRIBE"):
        return describe(lake, words, analyse)
    return _READERS[words.first](lake, words)


def _analyse(lake: Lake, engine: Engine | None, query: str, temporary: bool) -> Analysed:
    """See `view_statements.Analyse`."""
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
    """Refuses a permanent view that reads tables outside the lake."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        plain = isinstance(peek(node, "this"), exp.Identifier)
        if plain and not (len(node.parts) == 1 and node.name.lower() in ctes):
            catalog.rows(node)


# -- all statements ---------------------------------------------------------------------------------------------------

Found = TypeVar("Found")
Rows = Callable[[], pa.Table | SparkDataFrame]
Action = Callable[[], pa.Table | SparkDataFrame]
"""Executes a statement that was read, and returns its rows."""
SUPPORTED = (
    "SELECT, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY INTO, CREATE, ALTER, DROP, REFRESH, COMMENT ON, "
    "USE, SHOW, DESCRIBE, CALL"
)
SHOWING, _QUERIES = ("SHOW", "DESCRIBE", "DESC"), "SELECT, EXPLAIN, SHOW or DESCRIBE"

_CURES = {
    "ANALYZE": "write CALL analyze with the table",
    "CACHE": "leave it out",
    "OPTIMIZE": "write CALL compact with the table",
    "SET": "there are no settings here; the time zone is that of the lake",
    "VACUUM": "write CALL expire_snapshots with the table",
}
"""First word -> the cure for a statement that Spark or another engine knows and lsmlake does not."""


def execute(
    lake: Lake,
    given: str,
    args: Args,
    tables: Mapping[str, object],
    engine: Engine | None = None,
    evaluate: Callable[[Prepared], Found] = run,
    query_for: str = "",
) -> pa.Table | SparkDataFrame | Found:
    """The rows of a statement. Raises InvalidQuery before anything happens if the statement is not supported.

    Args:
        lake: where the tables are.
        given: the text.
        args: the values of its parameters.
        tables: data by name.
        engine: executes queries instead of DuckDB.
        evaluate: makes the result of a query that is the whole statement, without an engine.
        query_for: the call that accepts only queries; its name is in the error for other statements.
    """
    first, behind = first_word(given)
    if (action := by_words(lake, given, first, args, engine)) is not None:
        if query_for and first not in SHOWING:
            raise InvalidQuery(f"{query_for} takes a query", expected=_QUERIES, found=first)
        return action()
    mode, written = None, given
    if first == "EXPLAIN":  # replaced by blanks, so that positions in errors stay right
        mode, stop = mode_of(given, behind, spark=engine is not None)
        given = given[: behind - len(first)] + " " * (stop - behind + len(first)) + given[stop:]
    text = Text(given, written)
    with text.read() as tree:
        if query_for and mode is None and not isinstance(tree, (exp.Query, exp.Values)):
            text.refuse(tree, f"{query_for} takes a query", expected=_QUERIES, found=first, cure="write SELECT ...")
        catalog = Catalog.of(lake, text, tables, lazy=engine is not None)
        if engine is not None and isinstance(tree, (exp.Query, exp.Values)):
            passed_on(tree)  # Spark reads it, parameters included
            action: Action = partial(engine.query, tree, text, catalog, explain=None if mode is None else f"EXPLAIN {mode}")
        else:
            node = bind(tree, args, text)
            if mode is not None:
                action = _explained(lake, node, text, catalog, engine, mode)
            elif isinstance(node, (exp.Query, exp.Values)):
                action = partial(evaluate, prepare(node, text, catalog, moment_of(lake.env)))
            else:
                action = _action(lake, node, text, catalog, engine)
    return action()


def _explained(lake: Lake, node: exp.Expression, text: Text, catalog: Catalog, engine: Engine | None, mode: str) -> Action:
    """Reads EXPLAIN of a statement that Spark does not explain as a whole. Nothing is written."""
    now = moment_of(lake.env)
    if mode == ANALYZE and lake.session.served:
        text.refuse(node, "EXPLAIN ANALYZE runs a query without the limits of a server", cure="write EXPLAIN FORMATTED")
    if isinstance(node, (exp.Query, exp.Values)):
        return explain(node, text, catalog, mode, now)
    if mode == ANALYZE and isinstance(node, (exp.Insert, exp.Delete, exp.Update, exp.Merge)):
        text.refuse(node, "EXPLAIN ANALYZE runs a statement, and this one changes a table", cure="write EXPLAIN FORMATTED")
    match node:
        case exp.Insert():
            lines = InsertStatements(text, catalog, lambda query: prepare(query, text, catalog, now), engine, now).explained(
                node, mode
            )
        case exp.Delete() | exp.Update():
            lines = ChangeStatements(text, catalog, now, engine).explained(node, mode)
        case exp.Merge():
            lines = ChangeStatements(text, catalog, now, engine).explained_merge(node, mode)
        case _:
            cure = "explain the query that gives the rows"
            text.refuse(node, "EXPLAIN takes a query, an INSERT, UPDATE, DELETE or MERGE", cure=cure)
    return partial(as_rows, list(lines))


def _action(lake: Lake, node: exp.Expression, text: Text, catalog: Catalog, engine: Engine | None) -> Action:
    """Reads a statement that is not a query. Writes nothing; the action that it returns does."""
    now = moment_of(lake.env)

    def prepared(query: exp.Expression) -> Prepared:
        return prepare(query, text, catalog, now)

    def rows_of(query: exp.Expression) -> Rows:
        """Reads a query; returns a function that returns its rows."""
        if engine is None:
            return partial(run, prepared(query))
        passed_on(query)
        return partial(engine.rows, query, text, catalog)

    match node:
        case exp.Insert():
            return InsertStatements(text, catalog, prepared, engine, now).insert(node)
        case exp.Delete() | exp.Update():
            return ChangeStatements(text, catalog, now, engine).change(node)
        case exp.Merge():
            return ChangeStatements(text, catalog, now, engine).merge(node)
        case exp.TruncateTable():
            return _done(InsertStatements(text, catalog, prepared, engine, now).truncate(node))
        case exp.Create():
            inserts = InsertStatements(text, catalog, prepared, engine, now)
            return _done(create.create(catalog, node, rows_of, inserts.rows_for))
    word, _ = first_word(text.text)
    text.refuse(node, "this statement is not supported", expected=SUPPORTED, cure=_CURES.get(word, ""))


def _done(action: Callable[[], object]) -> Action:
    """An action that returns no rows."""

    def made() -> pa.Table:
        action()
        return pa.table({})

    return made
