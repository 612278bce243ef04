"""INSERT INTO, INSERT OVERWRITE, TRUNCATE: the rows of a query become rows of a table, by the rules of assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.public_types import SparkDataFrame
from lsmlake.api.table import Table
from lsmlake.api.writes import write
from lsmlake.commit.request import Identity
from lsmlake.dialect.casts import assign
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.literals import stand_in
from lsmlake.dialect.query import Query
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, passed_on, peek
from lsmlake.dialect.sql_types import duck_name, quoted
from lsmlake.format.snapshot import Snapshot
from lsmlake.predicate.condition import predicate_from
from lsmlake.read.plan import plan
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import with_defaults
from lsmlake.sql.engine import Engine
from lsmlake.sql.explain import described
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import Prepared, order_of_rows, run
from lsmlake.statements.bound import is_default
from lsmlake.statements.explained import changed_table, contents, pruned
from lsmlake.tables.version import Version
from lsmlake.types import column_types
from lsmlake.types.type_text import format_type
from lsmlake.write.order import Ordered
from lsmlake.write.replace import Replacement
from lsmlake.write.write import publish
from lsmlake.write.write_request import WriteRequest

Prepare = Callable[[exp.Expression], Prepared]


@dataclass(frozen=True)
class _Insertion:
    """A parsed INSERT.

    Attributes:
        query: the query that gives the rows.
        given: the columns of the table that the rows fill; None: the query names the columns itself.
        static: the columns that PARTITION fixes.
        replaces: the rows that the INSERT replaces; None: it only adds rows.
        engine: computes the rows; None: this process does, as for VALUES with the word DEFAULT, which no engine knows.
    """

    table: Table
    version: Version
    query: exp.Expression
    given: Sequence[str] | None
    static: Mapping[str, exp.Expression]
    replaces: Replacement | None
    engine: Engine | None


@dataclass(frozen=True)
class InsertStatements:
    """Reads the statements of one text that add or replace whole rows. `engine`: None: this process executes queries. `now`: the
    time of the statement."""

    text: Text
    catalog: Catalog
    prepare: Prepare
    engine: Engine | None
    now: str

    def insert(self, node: exp.Insert) -> Callable[[], pa.Table]:
        """INSERT INTO table [(columns)] [BY NAME], INSERT OVERWRITE, INSERT INTO ... REPLACE WHERE"""
        made = self._insertion(node)
        rows_of = self._rows_of(node, made.query, made.version.schema, made.given, made.static, made.engine)

        def act() -> pa.Table:
            rows, count = rows_of()
            snapshot = write_rows(made.table, made.version, rows, made.replaces, order_of_rows(made.query, self.catalog))
            return pa.table({"num_affected_rows": [count()], "snapshot": pa.array([snapshot and snapshot.id], pa.int64())})

        return act

    def explained(self, node: exp.Insert, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN for an INSERT: the files that the query would read, and the table that would receive the rows."""
        made = self._insertion(node)
        schema, engine = made.version.schema, made.engine
        if engine is None:
            prepared = self.prepare(made.query)
            names, source = [name for name, _ in prepared.query.columns], described(prepared, mode)
            sources = _sources(node, self.text, schema, names, made.given, made.static)
            _ = _assigned(node, self.text, schema, prepared, sources)
        else:
            for part in (made.query, *made.static.values()):
                passed_on(part)
            rows = engine.rows(made.query, self.text, self.catalog)
            source = engine.explained(made.query, self.text, self.catalog, mode)
            sources = _sources(node, self.text, schema, rows.columns, made.given, made.static)
            _ = engine.assigned(rows, sources, schema)
        yield changed_table(made.table.name, made.version)
        yield f"  columns   {', '.join(name for name in schema.columns.names if name in sources)}"
        yield from _replaced(made, mode)
        yield "  writes    rows by key: a row replaces that of its key" if schema.primary_key else "  writes    new rows"
        yield from source

    def _insertion(self, node: exp.Insert) -> _Insertion:
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        names = [part.name for part in node.this.expressions] if isinstance(node.this, exp.Schema) else None
        if not isinstance(target, exp.Table):
            self.text.refuse(node, "only a table can be written", expected="the name of a table", cure="name a table")
        for part in node.this.expressions if names is not None else ():
            if not isinstance(part, exp.Identifier):
                self.text.refuse(part, "this is not the name of a column", cure="write names without quotes, or in `backquotes`")
        table, version = self.catalog.table(target), self.catalog.newest(target)
        static = _static(target, version.schema, self.text, dynamic=True)
        if node.args.get("by_name") and names:
            self.text.refuse(node, "BY NAME and a list of columns exclude each other", cure="use one of them")
        given = names
        if given is None:
            fixed = {name.lower() for name in static}
            given = [name for name in version.schema.columns.names if name.lower() not in fixed]
        engine = None if _says_default(node.expression) else self.engine
        query, given = _query(node, self.text, version.schema, given), None if node.args.get("by_name") else given
        where, overwrites = node.args.get("where"), bool(node.args.get("overwrite"))
        if where is not None and overwrites:
            self.text.refuse(where, "OVERWRITE and REPLACE WHERE exclude each other", cure="write INSERT INTO ... REPLACE WHERE")
        replaces = None
        if where is not None or overwrites:
            condition = where if where is not None else _condition(static, version.schema)
            replaces = self._replacement(table, version, condition)
        return _Insertion(table, version, query, given, static, replaces, engine)

    def truncate(self, node: exp.TruncateTable) -> Callable[[], object]:
        """TRUNCATE TABLE table [PARTITION (column = value)]"""
        target, *others = node.expressions
        if not isinstance(target, exp.Table):
            self.text.refuse(target, "TRUNCATE takes the name of a table", cure="write TRUNCATE TABLE database.table")
        if others:
            self.text.refuse(others[0], "TRUNCATE takes one table", cure="write a statement for each")
        table, version = self.catalog.table(target), self.catalog.newest(target)
        condition = _condition(
            _static(node if node.args.get("partition") else target, version.schema, self.text, dynamic=False), version.schema
        )
        if condition is None:
            request = WriteRequest(Identity(version.meta.env.ids()), replaces=Replacement(everything=True))
            return lambda: publish(version, [], request)
        replaces = self._replacement(table, version, condition)
        return lambda: write_rows(table, version, version.schema.row_columns.empty_table(), replaces)

    def _replacement(self, table: Table, version: Version, condition: exp.Expression | None) -> Replacement:
        """The `Replacement` of the partitions that satisfy the condition."""
        zone, columns = table.runtime.zone, version.schema.typed_columns
        where = None if condition is None else predicate_from(condition, self.text, columns, zone, self.now)
        return Replacement.of(version.schema, where, False, zone, table.name)

    def rows_for(self, node: exp.Create, query: exp.Expression, schema: Schema) -> Callable[[], pa.Table | SparkDataFrame]:
        """Reads the query of CREATE TABLE (columns) AS. Returns a function that returns its rows, assigned to the columns in
        their order as by INSERT."""
        made = self._rows_of(node, query, schema, schema.columns.names, {}, self.engine)
        return lambda: made()[0]

    def _rows_of(
        self,
        node: exp.Insert | exp.Create,
        query: exp.Expression,
        schema: Schema,
        given: Sequence[str] | None,
        static: Mapping[str, exp.Expression],
        engine: Engine | None,
    ) -> Callable[[], tuple[pa.Table | SparkDataFrame, Callable[[], int]]]:
        """Reads a query. Returns a function that returns the rows for a table of this schema, and a function that counts them
        once they are written. The arguments: see `_Insertion`."""
        text = self.text
        if engine is None:
            prepared = self.prepare(query)
            names = [name for name, _ in prepared.query.columns]
            whole = _assigned(node, text, schema, prepared, _sources(node, text, schema, names, given, static))

            def here() -> tuple[pa.Table, Callable[[], int]]:
                rows = run(whole)
                return rows, lambda: rows.num_rows

            return here
        for part in (query, *static.values()):
            passed_on(part)

        def there() -> tuple[SparkDataFrame, Callable[[], int]]:
            frame = engine.rows(query, text, self.catalog)
            if isinstance(query, exp.Values):  # the order of the text counts, and Spark would spread the rows
                frame = frame.coalesce(1)
            return engine.assigned(frame, _sources(node, text, schema, frame.columns, given, static), schema)

        return there


def _replaced(made: _Insertion, mode: str) -> Iterator[str]:
    """The `Replacement` of an overwrite."""
    replaces = made.replaces
    if replaces is None:
        return
    if not replaces.everything and replaces.where is None:
        yield "  replaces  the partitions of the new rows"
        return
    planned = plan(made.version, replaces.where)
    yield f"  replaces  {'all rows' if replaces.everything else 'partitions'}"
    yield pruned(planned)
    yield from contents(planned, mode)


def write_rows(
    table: Table, version: Version, rows: object, replaces: Replacement | None, ordered: Ordered = Ordered.ALL
) -> Snapshot | None:
    """Adds rows to a table, or replaces rows of the table by them, in one commit. `ordered`: see `WriteRequest`."""
    compact = None if replaces is None and not version.schema.append_only else False
    request = WriteRequest(Identity(version.meta.env.ids()), ordered=ordered, compact=compact, replaces=replaces)
    return write(version, table.runtime, table.name, rows, request)


def _says_default(query: exp.Expression | None) -> bool:
    """Whether a cell of VALUES is the word DEFAULT."""
    rows = query.expressions if isinstance(query, exp.Values) else []
    return any(is_default(cell) for row in rows for cell in (row.expressions if isinstance(row, exp.Tuple) else [row]))


def _query(node: exp.Insert, text: Text, schema: Schema, given: Sequence[str]) -> exp.Expression:
    """The query that gives the rows: VALUES with the defaults of the columns `given`, TABLE name, or any query."""
    query = node.expression or exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.args.get("source")))
    if isinstance(query, exp.Values):
        for row in query.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            pairs = zip(given, cells, strict=False)
            for cell, value in zip(cells, with_defaults(dict(pairs), schema.columns).values(), strict=False):
                if value is not cell:
                    stand_in(value, cell)
                    cell.replace(value)
    if (with_ := node.args.get("with_")) is not None:
        if peek(query, "with_") is not None or peek(query.unnest(), "with_") is not None:
            text.refuse(query, "WITH stands before INSERT and in its query", cure="write all queries into one WITH")
        query.set("with_", with_)
    return query


def _static(target: exp.Expression, schema: Schema, text: Text, *, dynamic: bool) -> dict[str, exp.Expression]:
    """The columns that PARTITION (column = value) fixes. Only columns of partitions are named, each once. `dynamic`: a column may
    have no value, as all that are not named; the query gives it, in the order of the table."""
    partition = target.args.get("partition")
    columns = list(dict.fromkeys(field.column for field in schema.all_partition_columns))
    values: dict[str, exp.Expression | None] = {}
    for item in partition.expressions if partition is not None else ():
        named, value = (item.this, item.expression) if isinstance(item, exp.EQ) else (item, None)
        if not isinstance(named, exp.Column) or (value is None and not dynamic):
            text.refuse(item, "PARTITION takes column = value", cure="write PARTITION (column = value), or leave PARTITION out")
        name = next((one for one in columns if one.lower() == named.name.lower()), None)
        if name is None:
            expected = f"one of {columns}" if columns else "no PARTITION: the table has no partitions"
            text.refuse(item, f"{named.name} is no column of partitions", expected=expected, cure="name such a column")
        if name in values:
            text.refuse(item, f"column {name} is named twice in PARTITION", cure="name it once")
        values[name] = value
    return {name: value for name, value in values.items() if value is not None}


def _condition(static: Mapping[str, exp.Expression], schema: Schema) -> exp.Expression | None:
    """The condition for the partitions with these values; None for all. A value becomes a STRING as in a row of the partition:
    1 is '1', and not each text of that number."""
    texts = {field.name for field in schema.columns if pa.types.is_string(field.type)}
    values = {name: exp.cast(value, exp.DType.TEXT, copy=False) if name in texts else value for name, value in static.items()}
    parts = [exp.NullSafeEQ(this=exp.column(name, quoted=True), expression=value) for name, value in values.items()]
    return reduce(lambda left, right: exp.And(this=left, expression=right), parts) if parts else None


def _sources(
    node: exp.Insert | exp.Create,
    text: Text,
    schema: Schema,
    selected: Sequence[str],
    names: Sequence[str] | None,
    static: Mapping[str, exp.Expression],
) -> dict[str, int | exp.Expression]:
    """The column of the query, or the constant, for each column of the table that the statement gives a value. `selected`: the
    columns of the query. `names`: the columns of the table that they fill; None: the query names the columns itself."""
    columns = schema.columns.names
    by_lower = {name.lower(): name for name in columns}
    given = selected if names is None else names
    fixed = {name.lower() for name in static}
    unknown = [name for name in (*given, *static) if name.lower() not in by_lower]
    if unknown:
        text.refuse(
            node, f"the table has no column {unknown[0]}", expected=f"one of {columns}", found=unknown, cure="correct the name"
        )
    if len({name.lower() for name in given} | fixed) != len(given) + len(fixed):
        text.refuse(node, "a column is named twice", found=given, cure="name it once")
    if len(given) != len(selected):
        count = f"{len(selected)} for {len(given)} columns"
        text.refuse(node, "the number of values does not fit the columns", expected=given, found=count, cure="name the columns")
    sources: dict[str, int | exp.Expression] = {by_lower[name.lower()]: number for number, name in enumerate(given)}
    return sources | {by_lower[name.lower()]: value for name, value in static.items()}


def _assigned(
    node: exp.Insert | exp.Create,
    text: Text,
    schema: Schema,
    prepared: Prepared,
    sources: Mapping[str, int | exp.Expression],
) -> Prepared:
    """The query with the columns of the table, cast to the types of the table."""
    query, parts, columns = prepared.query, [], []
    for field in schema.columns:
        kind = column_types.plain(field.type)
        match sources.get(field.name):
            case None if default_of(field, WRITE) is not None or not field.nullable:
                continue  # the write adds the default, or refuses the data
            case None:
                sql, value_type = "NULL", pa.null()
            case int(number):
                sql, value_type = quoted(f"#{number}"), query.columns[number][1]
            case value:
                sql, value_type = _literal(value, text)
        made = assign(sql, value_type, kind)
        if made is None:
            cure = f"write CAST(... AS {format_type(kind)})"
            text.refuse(
                node,
                f"a value does not fit column {field.name}",
                expected=format_type(kind),
                found=format_type(value_type),
                cure=cure,
            )
        parts.append(f"CAST({made} AS {duck_name(kind)}) AS {quoted(f'#{len(columns)}')}")
        columns.append((field.name, kind))
    return replace(prepared, query=Query(f"SELECT {', '.join(parts)} FROM ({query.sql})", tuple(columns)))


def _literal(value: exp.Expression, text: Text) -> tuple[str, pa.DataType]:
    made = Translator(text, Scope(())).typed(value)
    return made.sql, made.type
