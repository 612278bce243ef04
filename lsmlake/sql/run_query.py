"""Runs a query in this process: translates it, chooses the files of its tables, and executes it in DuckDB. Also says whether
the order of the rows is defined (`order_of_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.connection import translated_errors
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.query import Query, QueryTranslator, run_sql
from lsmlake.dialect.row_evaluation import as_schema
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, nodes, peek
from lsmlake.dialect.sql_types import quoted, stored
from lsmlake.dialect.table_use import TableUse
from lsmlake.predicate.binding import implied
from lsmlake.predicate.tree import and_
from lsmlake.read.in_duckdb import named_select, relation, select
from lsmlake.read.limit import limited
from lsmlake.read.native import NativeSource, source_of
from lsmlake.read.plan import Plan, plan
from lsmlake.sql.file_relations import own_errors
from lsmlake.sql.named_tables import Catalog
from lsmlake.tables.version import Version
from lsmlake.write.order import Ordered


@dataclass(frozen=True)
class Prepared:
    """A query with the plans of its tables. Only metadata has been read."""

    query: Query
    uses: tuple[TableUse, ...]
    plans: tuple[Plan | pa.Table, ...]
    zone: str


def prepare(node: exp.Expression, text: Text, catalog: Catalog, now: str) -> Prepared:
    """Translates a query and plans its tables. Raises InvalidQuery, TableNotFound, SnapshotNotFound."""
    translator = QueryTranslator(text, catalog.stored, now, draws=True)
    query = translator.query(node)
    return Prepared(query, tuple(translator.uses), planned(translator.uses, node, text, catalog), catalog.lake.runtime.zone)


def planned(uses: Iterable[TableUse], node: exp.Expression, text: Text, catalog: Catalog) -> tuple[Plan | pa.Table, ...]:
    """The plans of the tables that a statement reads."""
    names, zone = _names(node), catalog.lake.runtime.zone
    return tuple(_planned(use, catalog, zone, names if use.within is None else _names(use.within)) for use in uses)


def run(prepared: Prepared) -> pa.Table:
    """The rows of a query, with the types of Spark."""
    with opened(prepared) as (_, rows):
        result = rows.to_arrow_table()
    return as_schema(result, prepared.query.schema)


@contextmanager
def opened(prepared: Prepared):  # the types belong to an optional package
    """A DuckDB connection and the relation of a query, which is not executed yet."""
    statement = run_sql(prepared.query)
    with ExitStack() as stack:
        sources = sources_of(prepared.plans, stack)
        connection = stack.enter_context(spark_connected(prepared.zone, "SQL in this process", statement))
        stack.enter_context(own_errors(prepared.plans))
        stack.enter_context(translated_errors())

        def bound():
            return connection.sql(_with_rows(connection, prepared.uses, sources) + statement)

        yield connection, connection.wait_for(bound)


def sources_of(plans: Iterable[Plan | pa.Table], stack: ExitStack) -> list[NativeSource | pa.Table]:
    """The sources from which DuckDB reads the plans. Until `stack` is closed, a missing file means an expired snapshot."""
    sources = [source_of(rows) if isinstance(rows, Plan) else rows for rows in plans]
    for source in sources:
        if isinstance(source, NativeSource):
            stack.enter_context(source.plan.version.unless_expired())
    return sources


def _with_rows(connection, uses: Iterable[TableUse], sources: Iterable[NativeSource | pa.Table]) -> str:
    """WITH, and the rows of the tables that a query reads, for the beginning of its statement. Rows in memory are registered."""
    parts = []
    for use, source in zip(uses, sources, strict=True):
        named = named_select(source, use.view) if isinstance(source, NativeSource) else None
        if named is None:
            create_views(connection, [use], [source])
            continue
        rows, bitmaps = named
        for name, table in bitmaps.items():
            connection.register(name, table)
        parts.append(f"{quoted(use.view)} AS NOT MATERIALIZED ({rows})")
    return f"WITH {', '.join(parts)} " if parts else ""


def create_views(connection, uses: Iterable[TableUse], sources: Iterable[NativeSource | pa.Table]) -> None:
    """Creates a DuckDB view for each table that a query reads."""
    for use, source in zip(uses, sources, strict=True):
        rows = select(source) if isinstance(source, NativeSource) else None
        if rows is not None:
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(use.view)} AS {rows}")
        elif isinstance(source, NativeSource):
            connection.register(use.view, relation(connection, source))  # a view that lives as long as the connection
        else:
            connection.register(use.view, stored(source) if isinstance(source, pa.Table) else source)


def _names(node: exp.Expression) -> set[str] | None:
    """All lower-case names in a statement, so that tables read only these columns. None: all columns (`*`, PIVOT and so on)."""
    names = set()
    for one in nodes(node):
        match one:
            case exp.Identifier():
                names.add(one.name.lower())
            case exp.Pivot():
                return None
            case exp.Subquery() if isinstance(peek(one, "this"), (exp.Table, exp.Subquery)):  # FROM (a JOIN b) AS c
                return None
            case exp.Star() if not isinstance(one.parent, exp.Anonymous):
                return None
            case exp.Join() if peek(one, "method"):
                return None
    return names


def _planned(use: TableUse, catalog: Catalog, zone: str, names: set[str] | None) -> Plan | pa.Table:
    rows = catalog.rows(use.node)
    if not isinstance(rows, Version):
        return rows
    schema = rows.schema
    scope = Scope.of(schema.typed_columns) if use.conditions else None
    predicates = [one for condition in use.conditions if (one := implied(condition, scope, zone)) is not None]
    everything = names is None or use.renamed
    columns = None if everything else [name for name in schema.columns.names if name.lower() in names]
    if columns == []:
        columns = list(schema.primary_key[:1]) or schema.columns.names[:1]
    with rows.unless_expired():
        made = plan(rows, and_(*predicates) if predicates else None, columns)
    return made if use.limit is None or use.conditions else limited(made, use.limit)


# -- the order of rows ------------------------------------------------------------------------------------------------

_IN_ANY_ORDER = exp.Join, exp.Group, exp.Distinct, exp.SetOperation, exp.Window, exp.Pivot, exp.Exists, exp.In, exp.Subquery
_IN_FROM = exp.From, exp.Subquery, exp.SetOperation, exp.CTE


def order_of_rows(query: exp.Expression, catalog: Catalog) -> Ordered:
    """ALL if the rows come in the order of VALUES, of one table or file, of UNION ALL, or of an ORDER BY at the end.

    Args:
        query: A query that has been translated.
        catalog: The tables that it names.
    """
    if peek(query.unnest(), "order") is not None:
        return Ordered.ALL
    mixes = any(_mixes(node, tree) for tree in _trees(query, catalog) for node in tree.find_all(*_IN_ANY_ORDER))
    return Ordered.QUERY if mixes else Ordered.ALL


def _trees(query: exp.Expression, catalog: Catalog) -> Iterator[exp.Expression]:
    """The query, and the queries of the views that it reads."""
    yield query
    yield from (view.tree() for view in catalog.views())


def _mixes(node: exp.Expression, tree: exp.Expression) -> bool:
    """Whether a node of `_IN_ANY_ORDER` loses the order of rows: a join or group, or a query in an expression (a join)."""
    match node:
        case exp.Union():
            return peek(node, "distinct") is not False
        case exp.In():
            return peek(node, "query") is not None
        case exp.Subquery():
            return node is not tree and not isinstance(node.parent, _IN_FROM)
    return True
