"""Statements that are read word by word (`Words`): all but queries, changes of rows and CREATE TABLE."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.dialect.literals import bind
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.reading import passed_on, peek
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.sql.alter import alter, comment_on
from lsmlake.sql.call import call
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.copy_into import copy_into
from lsmlake.sql.databases import KINDS, create_database, use
from lsmlake.sql.describe import describe
from lsmlake.sql.drop import drop
from lsmlake.sql.engine import Engine
from lsmlake.sql.show import show
from lsmlake.sql.token_reader import Words
from lsmlake.sql.views import Analysed, alter_view, create_view
from lsmlake.statements.attempts import moment_of

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
            text.refuse(tree, "this is not a query")
        if engine is None:
            node = bind(tree, None, text)
            columns = QueryTranslator(text, catalog.schema, moment_of(lake.env)).query(node).schema
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
