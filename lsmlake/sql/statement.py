"""Executes one statement: reads its first word, binds the parameters and calls what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.types import SparkDataFrame
from lsmlake.dialect.literals import bind
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.sql import alter, change, create, insert
from lsmlake.sql.call import call
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.engine import Engine
from lsmlake.sql.select import Prepared, explained, prepare, run
from lsmlake.sql.show import describe, show
from lsmlake.sql.words import Words
from lsmlake.write.statement import moment_of

Args = Mapping[str, object] | Sequence[object] | None
_WORDS = ("SHOW", "DESCRIBE", "DESC", "CALL", "ALTER")
SUPPORTED = "SELECT, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, CREATE, ALTER, DROP, TRUNCATE, SHOW, DESCRIBE, CALL"

_CURES = {
    "ANALYZE": "write CALL analyze with the table",
    "CACHE": "leave it out",
    "OPTIMIZE": "write CALL compact with the table",
    "REFRESH": "leave it out: a statement reads the newest snapshot",
    "SET": "there are no settings here; the time zone is that of the lake",
    "USE": "write the database before the table",
    "VACUUM": "write CALL expire_snapshots with the table",
}
"""What to write instead of a statement of Spark and others, by its first word."""


def execute(
    lake: Lake, given: str, args: Args, tables: Mapping[str, object], engine: Engine | None = None
) -> pa.Table | SparkDataFrame:
    """The rows of a statement. Raises InvalidQuery before anything happens if the statement is not supported.

    Args:
        lake: where the tables are.
        given: the text.
        args: the values of its parameters.
        tables: data by name.
        engine: executes queries instead of DuckDB.
    """
    first = given.split(maxsplit=1)[0].upper() if given.strip() else ""
    if first in _WORDS and (made := _by_words(lake, Words(given), args)) is not None:
        return made
    explain = first == "EXPLAIN"
    if explain:  # its place becomes blank, so that places in the rest are right
        start = given.upper().index("EXPLAIN")
        given = given[:start] + " " * len("EXPLAIN") + given[start + len("EXPLAIN") :]
    text = Text(given)
    parsed = text.statement()
    catalog = Catalog(lake, text, {name.lower(): data for name, data in tables.items()}, lazy=engine is not None)
    if engine is not None and isinstance(parsed, exp.Query):
        return engine.query(parsed, text, catalog, explain=explain)
    node = bind(parsed, args, text)
    now = moment_of(lake.env)

    def prepared(query: exp.Expression) -> Prepared:
        return prepare(query, text, catalog, now)

    if explain:
        if not isinstance(node, exp.Query):
            text.refuse(node, "EXPLAIN takes a query")
        return pa.table({"plan": pa.array(explained(prepared(node)), pa.string())})
    return _executed(lake, node, text, catalog, prepared, now, engine)


def _executed(
    lake: Lake,
    node: exp.Expression,
    text: Text,
    catalog: Catalog,
    prepared: Callable[[exp.Expression], Prepared],
    now: str,
    engine: Engine | None,
) -> pa.Table:
    def rows_of(query: exp.Expression) -> pa.Table | SparkDataFrame:
        return run(prepared(query)) if engine is None else engine.rows(query, text, catalog)

    match node:
        case exp.Query():
            return rows_of(node)
        case exp.Insert():
            return insert.insert(node, text, catalog, prepared, engine)
        case exp.Delete():
            return change.delete(node, text, catalog, now, engine)
        case exp.Update():
            return change.update(node, text, catalog, now, engine)
        case exp.Merge():
            return change.merge(node, text, catalog, rows_of)
        case exp.TruncateTable():
            insert.truncate(node, text, catalog)
        case exp.Create():
            create.create(lake, node, text, rows_of)
        case exp.Drop():
            create.drop(lake, node, text)
        case exp.Alter():
            alter.alter(lake, node, text)
        case _:
            word = text.text.split(maxsplit=1)[0].upper()
            text.refuse(node, "this statement is not supported", expected=SUPPORTED, cure=_CURES.get(word, ""))
    return pa.table({})


def _by_words(lake: Lake, words: Words, args: Args) -> pa.Table | None:
    """Statements that sqlglot does not parse; None for the others."""
    if words.first == "ALTER":
        return alter.alter_by_words(lake, words)
    if args:
        raise InvalidQuery("only queries and changes of rows have parameters", found=args, cure="write the values in the text")
    return {"SHOW": show, "DESCRIBE": describe, "DESC": describe, "CALL": call}[words.first](lake, words)
