"""Evaluates expressions of Spark SQL over Arrow rows: the values of UPDATE and MERGE, and conditions.

    scope = Scope.of(schema)                            # `amount`, and with a qualifier also `t.amount`
    scope = Scope.joined(target_schema, source_schema)  # `t.amount`, `s.amount`; the rows have columns of just these names
    values = columns_of({"amount": "t.amount + s.amount"}, scope, target_schema)     # checks everything, reads no rows
    values.needs                                        # the columns of the rows that the expressions read
    values.over(rows)                                   # Arrow table: one column per expression, rows in the same order
    condition_of("s.op = 'U'", scope).over(rows)        # pa.ChunkedArray of booleans; null is not true

A value is assigned by the rules of an INSERT in Spark (`casts.assign`), except that losing anything raises an error: 1.5 for an
INT, a DECIMAL that would be rounded, a time of day for a DATE. Nullability is not checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.casts import assign
from lsmlake.dialect.connection import translated_errors
from lsmlake.dialect.context import converted_once
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import BOOLEAN, NULL, duck_name, quoted
from lsmlake.errors import InvalidQuery
from lsmlake.types import column_types
from lsmlake.types.type_text import format_type

_ROWS = "lsmlake_rows"
_CONDITION = pa.schema([("condition", BOOLEAN)])


@dataclass(frozen=True)
class Columns:
    """Expressions that were checked against the columns of their rows.

    Attributes:
        sql: name -> the expression in DuckDB.
        schema: the columns of the result.
        needs: the columns of the rows that the expressions read.
        zone: the session's time zone.
    """

    sql: Mapping[str, str]
    schema: pa.Schema
    needs: tuple[str, ...]
    zone: str

    def over(self, rows: pa.Table) -> pa.Table:
        """The values for all rows, in their order. Raises InvalidQuery naming a value that an expression refuses."""
        if not self.sql:
            raise InvalidQuery("there is no expression", cure="name at least one column")
        chosen = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.sql.items())
        given = rows.select(list(self.needs)) if self.needs else pa.table({"_": pa.nulls(rows.num_rows, pa.int8())})
        query = f"SELECT {chosen} FROM {_ROWS}"
        with spark_connected(self.zone, "an expression", query) as connection, translated_errors():

            def evaluated() -> pa.Table:
                connection.register(_ROWS, given)
                return connection.sql(query).to_arrow_table()

            return as_schema(connection.wait_for(evaluated), self.schema)


@dataclass(frozen=True)
class Condition:
    """A condition that was checked against the columns of its rows."""

    columns: Columns

    @staticmethod
    def of(sql: str, node: exp.Expression, scope: Scope, zone: str) -> Condition:
        """`sql`: made of the node by `condition_sql`."""
        columns = Columns({"condition": f"CAST({sql} AS BOOLEAN)"}, _CONDITION, tuple(needs_of(node, scope)), zone)
        return Condition(columns)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the rows that the condition reads."""
        return self.columns.needs

    def over(self, rows: pa.Table) -> pa.ChunkedArray:
        """Whether each row satisfies the condition: true, false or null."""
        return self.columns.over(rows)["condition"]


def columns_of(
    texts: Mapping[str, str], scope: Scope, schema: pa.Schema, *, zone: str = "UTC", now: str | None = None
) -> Columns:
    """Checks the expressions for columns of `schema`. Names of columns are compared without case.

    Args:
        texts: column -> the text of its expression.
        scope: the columns that the expressions can name.
        schema: the columns to which the values are assigned.
        zone: the session's time zone.
        now: the time of the statement, such as '2026-01-31 12:00:00+00:00'. None: current_timestamp is refused.

    Raises:
        InvalidQuery: an expression is not SQL, has unknown columns or functions, or does not fit its column. The error names the
            place in the text.
    """
    with ExitStack() as stack:
        parsed = {name: Text(given) for name, given in texts.items()}
        parts = {name: (Translator.at(text, scope, now), stack.enter_context(text.read())) for name, text in parsed.items()}
        return columns_from(parts, schema, zone)


def type_of_expression(given: str, scope: Scope) -> pa.DataType:
    """The type of the values of an expression. Raises InvalidQuery, also for an expression that is always null."""
    text = Text(given)
    with text.read() as node:
        kind = Translator.at(text, scope, None).typed(node).type
        if kind == NULL:
            text.refuse(node, "the expression has no type", cure="write CAST(... AS <type>)")
        return column_types.plain(kind)


def columns_from(parts: Mapping[str, tuple[Translator, exp.Expression]], schema: pa.Schema, zone: str) -> Columns:
    """As `columns_of`, for parsed expressions, each with its translator."""
    by_lower = {field.name.lower(): field for field in schema}
    sqls, fields, needs = {}, [], {}
    for name, (translator, node) in parts.items():
        if name.lower() not in by_lower:
            cure = "correct the name"
            raise InvalidQuery(f"unknown column {name!r}", expected=f"one of {schema.names}", cure=cure)
        field = by_lower[name.lower()]
        if field.name in sqls:
            raise InvalidQuery(f"column {field.name!r} is assigned twice", cure="assign it once")
        wanted = column_types.plain(column_types.canonical(field.type, field.name))
        made = translator.typed(node)
        sql = converted_once(made.sql, partial(assign, kind=made.type, wanted=wanted))
        if sql is None:
            type_name = format_type(made.type) if made.type != NULL else "NULL"
            cure = f"write CAST(... AS {format_type(wanted)})"
            translator.text.refuse(
                node, f"the value does not fit column {field.name!r}", expected=format_type(wanted), found=type_name, cure=cure
            )
        sqls[field.name] = f"CAST({sql} AS {duck_name(wanted)})"
        fields.append(pa.field(field.name, wanted))
        needs |= dict.fromkeys(needs_of(node, translator.scope))
    return Columns(sqls, pa.schema(fields), tuple(needs), zone)


def condition_of(given: str, scope: Scope, *, zone: str = "UTC", now: str | None = None) -> Condition:
    """Checks a condition. Arguments and errors as for `columns_of`."""
    text = Text(given)
    with text.read() as node:
        return condition_from(Translator.at(text, scope, now), node, zone)


def condition_from(translator: Translator, node: exp.Expression, zone: str) -> Condition:
    """As `condition_of`, for a parsed expression."""
    return Condition.of(condition_sql(translator, node), node, translator.scope, zone)


def condition_sql(translator: Translator, node: exp.Expression) -> str:
    """A condition as SQL of DuckDB. Raises InvalidQuery for an expression that is no condition."""
    made = translator.typed(node)
    if made.type not in (BOOLEAN, NULL):
        type_name = format_type(made.type)
        translator.text.wrong(node, "this is not a condition", expected="BOOLEAN", found=type_name, cure="write a comparison")
    return made.sql


def needs_of(node: exp.Expression, scope: Scope) -> dict[str, None]:
    """The columns of the rows that an expression reads."""
    named = (part for part in node.walk() if isinstance(part, (exp.Column, exp.Dot)))
    paths = ([part.name for part in one.parts if isinstance(part, exp.Identifier)] for one in named)
    matches = (match for path in paths if path for match in scope.found(path)[:1])
    return {column.sql[1:-1].replace('""', '"'): None for column, _ in matches}


def as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A result of DuckDB with the Arrow types of Spark's types."""
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)
