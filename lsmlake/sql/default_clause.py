"""DEFAULT in SQL: constants as defaults of columns, and the keyword DEFAULT, which stands for the default of its column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.casts import assign
from lsmlake.dialect.connection import translated_errors
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.macros import spark_connected
from lsmlake.dialect.row_evaluation import as_schema
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import NULL, STRING, TIME, is_dated, is_number
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.years import has_outside
from lsmlake.statements.bound import default_of_column, is_default
from lsmlake.types.spelling import spelled
from lsmlake.types.type_text import format_type


def constant(node: exp.Expression, text: Text, zone: str, kind: pa.DataType | None = None) -> object:
    """The value of an expression without columns. Refuses an expression with columns, and one that INSERT would refuse for the
    column. `kind`: the type of the column. Text for a date or time is read, and local time in `zone`; numbers keep their type."""
    translator = Translator(text, Scope(()))
    made = translator.typed(node)
    if made.type == NULL:
        return None
    if pa.types.is_nested(made.type):
        text.refuse(node, "a default is a value without fields or elements", cure="write a literal")
    if kind is not None and not (pa.types.is_nested(kind) or (is_number(kind) and is_number(made.type))):
        reads = made.type == STRING and (is_dated(kind) or kind == TIME)
        sql = translator.converted(node, made, kind) if reads else assign(made.sql, made.type, kind)
        if sql is None:
            what, wanted = "the default does not fit the type of the column", format_type(kind)
            text.refuse(node, what, expected=wanted, found=format_type(made.type), cure=f"write CAST(... AS {wanted})")
        made = made._replace(sql=sql, type=kind)
    query = f"SELECT {made.sql} AS value"
    with spark_connected(zone, "DEFAULT", query) as connection, translated_errors(text.place(node)):
        result = connection.sql(query).to_arrow_table()
    value = as_schema(result, pa.schema([("value", made.type)]))["value"]
    if has_outside(value):
        text.refuse(node, "a date or time outside the years of tables", expected="years 0001 to 9999", cure="write another value")
    return value[0].as_py()


def with_defaults(nodes: Mapping[str, exp.Expression], columns: pa.Schema) -> dict[str, exp.Expression]:
    """Replaces the keyword DEFAULT by the default of its column. `nodes`: column -> value."""
    by_lower = {field.name.lower(): field for field in columns}
    return {
        name: default_of_column(by_lower[name.lower()]) if is_default(node) and name.lower() in by_lower else node
        for name, node in nodes.items()
    }


def described(columns: pa.Schema) -> Iterator[tuple[pa.Field, str]]:
    """The columns that have a default, each with its SQL. A decimal is written as a number: the column says its type."""
    for field in columns:
        if (value := default_of(field, WRITE)) is not None:
            decimal = pa.types.is_decimal(field.type)
            yield field, f"{value.as_py():f}" if decimal else spelled(default_of_column(field))
