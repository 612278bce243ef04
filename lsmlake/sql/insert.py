"""INSERT INTO, INSERT OVERWRITE, TRUNCATE: the rows of a query become rows of a table, by the rules of assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.table import Table
from lsmlake.api.types import SparkDataFrame
from lsmlake.dialect.cast import assign
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.literals import text_of
from lsmlake.dialect.query import Query
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import duck_name, quoted
from lsmlake.schema import types
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.type_text import format_type
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.defaults import with_defaults
from lsmlake.sql.engine import Engine
from lsmlake.sql.select import Prepared, run

Prepare = Callable[[exp.Expression], Prepared]


def insert(node: exp.Insert, text: Text, catalog: Catalog, prepare: Prepare, engine: Engine | None) -> Callable[[], pa.Table]:
    """INSERT INTO table [(columns)] [BY NAME], INSERT OVERWRITE, INSERT INTO ... REPLACE WHERE"""
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    names = [part.name for part in node.this.expressions] if isinstance(node.this, exp.Schema) else None
    table = catalog.table(target)
    static = _static(target, text)
    if node.args.get("by_name") and names:
        text.refuse(node, "BY NAME and a list of columns exclude each other", cure="use one of them")
    given = names
    if given is None:
        fixed = {name.lower() for name in static}
        given = [name for name in table.schema.names if name.lower() not in fixed]
    query, given = _query(node, table, given), None if node.args.get("by_name") else given
    where, overwrites = node.args.get("where"), bool(node.args.get("overwrite"))
    condition = text_of(where, text) if where is not None else _condition(static) if static and overwrites else None
    rows_of = _rows_of(node, text, catalog, query, table, given, static, prepare, engine)

    def act() -> pa.Table:
        rows, count = rows_of()
        if condition is not None or overwrites:
            snapshot = table.overwrite(rows, where=condition)
        else:
            snapshot = table.upsert(rows) if table.primary_key else table.append(rows)
        return pa.table({"num_affected_rows": [count()], "snapshot": pa.array([snapshot and snapshot.id], pa.int64())})

    return act


def _rows_of(
    node: exp.Insert,
    text: Text,
    catalog: Catalog,
    query: exp.Expression,
    table: Table,
    given: Sequence[str] | None,
    static: Mapping[str, exp.Expression],
    prepare: Prepare,
    engine: Engine | None,
) -> Callable[[], tuple[pa.Table | SparkDataFrame, Callable[[], int]]]:
    """Reads the query of an INSERT. What it returns gives the rows for the table, and their number once they are written."""
    if engine is None:
        prepared = prepare(query)
        found = [name for name, _ in prepared.query.columns]
        whole = _assigned(node, text, table, prepared, _sources(node, text, table, found, given, static))

        def here() -> tuple[pa.Table, Callable[[], int]]:
            rows = run(whole)
            return rows, lambda: rows.num_rows

        return here
    for part in (query, *static.values()):
        passed_on(part)

    def there() -> tuple[SparkDataFrame, Callable[[], int]]:
        frame = engine.rows(query, text, catalog)
        return engine.assigned(frame, _sources(node, text, table, frame.columns, given, static), table.version.schema)

    return there


def _query(node: exp.Insert, table: Table, given: Sequence[str]) -> exp.Expression:
    """The query that gives the rows: VALUES with the defaults of the columns `given`, TABLE name, or any query."""
    query = node.expression or exp.select("*").from_(node.args.get("source"))
    if isinstance(query, exp.Values):
        for row in query.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            pairs = zip(given, cells, strict=False)
            for cell, value in zip(cells, with_defaults(dict(pairs), table.version.schema.columns).values(), strict=False):
                if value is not cell:
                    cell.replace(value)
    if node.args.get("with_"):
        query.set("with_", node.args.get("with_"))
    return query


def truncate(node: exp.TruncateTable, text: Text, catalog: Catalog) -> Callable[[], object]:
    """TRUNCATE TABLE table [PARTITION (column = value)]"""
    target, *others = node.expressions
    if others:
        text.refuse(others[0], "TRUNCATE takes one table", cure="write a statement for each")
    table = catalog.table(target)
    holder = node if node.args.get("partition") else target
    if static := _static(holder, text):
        for value in static.values():
            passed_on(value)  # the condition is read again
        condition = _condition(static)
        return lambda: table.overwrite(table.schema.empty_table(), where=condition)
    return table.truncate


def _static(target: exp.Expression, text: Text) -> dict[str, exp.Expression]:
    """The columns that PARTITION (column = value) fixes. A name without a value stays dynamic."""
    partition = target.args.get("partition")
    found = {}
    for item in partition.expressions if partition is not None else ():
        if isinstance(item, exp.EQ) and isinstance(item.this, exp.Column):
            found[item.this.name] = item.expression
        elif not isinstance(item, exp.Column):
            text.refuse(item, "PARTITION takes column = value")
    return found


def _condition(static: dict[str, exp.Expression]) -> str:
    return " AND ".join(
        f"{exp.to_identifier(name, quoted=True).sql('spark')} <=> {value.sql('spark')}" for name, value in static.items()
    )


def _sources(
    node: exp.Insert,
    text: Text,
    table: Table,
    found: Sequence[str],
    names: Sequence[str] | None,
    static: Mapping[str, exp.Expression],
) -> dict[str, int | exp.Expression]:
    """The column of the query, or the constant, for each column of the table that the statement gives a value. `found`: the
    columns of the query. `names`: those that they are for; None: the query names them itself."""
    columns = table.version.schema.columns.names
    by_lower = {name.lower(): name for name in columns}
    given = found if names is None else names
    fixed = {name.lower() for name in static}
    unknown = [name for name in (*given, *static) if name.lower() not in by_lower]
    if unknown:
        text.refuse(node, f"the table has no column {unknown[0]}", expected=f"one of {columns}", found=unknown)
    if len({name.lower() for name in given} | fixed) != len(given) + len(fixed):
        text.refuse(node, "a column is named twice", found=given)
    if len(given) != len(found):
        count = f"{len(found)} for {len(given)} columns"
        text.refuse(node, "the number of values does not fit the columns", expected=given, found=count, cure="name the columns")
    sources: dict[str, int | exp.Expression] = {by_lower[name.lower()]: number for number, name in enumerate(given)}
    return sources | {by_lower[name.lower()]: value for name, value in static.items()}


def _assigned(
    node: exp.Insert, text: Text, table: Table, prepared: Prepared, sources: Mapping[str, int | exp.Expression]
) -> Prepared:
    """The query with the columns of the table, in its types."""
    query, schema = prepared.query, table.version.schema
    parts, columns = [], []
    for field in schema.columns:
        kind = types.plain(field.type)
        match sources.get(field.name):
            case None if default_of(field, WRITE) is not None or not field.nullable:
                continue  # the write adds the default, or refuses the data
            case None:
                sql, found = "NULL", pa.null()
            case int(number):
                sql, found = quoted(f"#{number}"), query.columns[number][1]
            case value:
                sql, found = _literal(value, text)
        made = assign(sql, found, kind)
        if made is None:
            cure = f"write CAST(... AS {format_type(kind)})"
            text.refuse(
                node, f"a value does not fit column {field.name}", expected=format_type(kind), found=format_type(found), cure=cure
            )
        parts.append(f"CAST({made} AS {duck_name(kind)}) AS {quoted(f'#{len(columns)}')}")
        columns.append((field.name, kind))
    return replace(prepared, query=Query(f"SELECT {', '.join(parts)} FROM ({query.sql})", tuple(columns)))


def _literal(value: exp.Expression, text: Text) -> tuple[str, pa.DataType]:
    made = Translator(text, Scope(())).typed(value)
    return made.sql, made.type
