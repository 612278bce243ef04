"""Functions of Spark SQL that give several rows for one: in LATERAL VIEW, in the list of SELECT, and in FROM.

`explode` and the like become a `LATERAL` subquery of DuckDB over the row at hand. The order of the rows that they give is not
defined, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import text_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BIGINT, INT, NULL, STRING, quoted, text
from lsmlake.types.type_text import format_type


class Generated(NamedTuple):
    """The rows that a call gives for one row.

    Attributes:
        sql: a query whose columns are `#0`, `#1`, ...
        columns: their names and types.
        outer: a row for which the call gives no rows is kept, with nulls.
    """

    sql: str
    columns: tuple[tuple[str, pa.DataType], ...]
    outer: bool


def is_generator(node: exp.Expression) -> bool:
    """Whether the node is a call that gives rows wherever Spark takes such calls; `range` does so in FROM only."""
    return isinstance(node, exp.Anonymous) and node.name.lower().removesuffix("_outer") in _GENERATORS.keys() - {"range"}


def generated(context: Context, node: exp.Anonymous) -> Generated:
    """The rows of a call such as `explode(tags)`."""
    name = node.name.lower()
    make = _GENERATORS.get(name.removesuffix("_outer"))
    if make is None:
        context.text.refuse(
            node, f"{name} does not give rows", expected=f"one of {', '.join(_GENERATORS)}", cure="call one of these functions"
        )
    made = make(context, node)
    return made._replace(outer=name.endswith("_outer"))


def _argument(context: Context, node: exp.Anonymous, expected: str) -> Typed:
    if len(node.expressions) != 1:
        context.text.refuse(
            node, f"{node.name} takes one argument", expected=expected, found=len(node.expressions), cure="pass one argument"
        )
    return context.typed(node.expressions[0])


def _explode(context: Context, node: exp.Anonymous) -> Generated:
    made = _argument(context, node, "an ARRAY or a MAP")
    if pa.types.is_list(made.type):
        return Generated(f'SELECT unnest({made.sql}) AS "#0"', (("col", made.type.value_type),), False)
    if pa.types.is_map(made.type):
        entries = f"(SELECT unnest(map_entries({made.sql})) AS e)"
        columns = (("key", made.type.key_type), ("value", made.type.item_type))
        return Generated(f'SELECT e.key AS "#0", e.value AS "#1" FROM {entries}', columns, False)
    context.text.refuse(node, f"{node.name} takes an ARRAY or a MAP", found=format_type(made.type), cure="pass an ARRAY or a MAP")


def _posexplode(context: Context, node: exp.Anonymous) -> Generated:
    made = _argument(context, node, "an ARRAY or a MAP")
    if pa.types.is_map(made.type):
        entries = f"map_entries({made.sql})"
        inner = f"(SELECT CAST(generate_subscripts({entries}, 1) - 1 AS INTEGER) AS p, unnest({entries}) AS e)"
        columns = (("pos", INT), ("key", made.type.key_type), ("value", made.type.item_type))
        return Generated(f'SELECT p AS "#0", e.key AS "#1", e.value AS "#2" FROM {inner}', columns, False)
    if not pa.types.is_list(made.type):
        context.text.refuse(
            node, f"{node.name} takes an ARRAY or a MAP", found=format_type(made.type), cure="pass an ARRAY or a MAP"
        )
    sql = f'SELECT CAST(generate_subscripts({made.sql}, 1) - 1 AS INTEGER) AS "#0", unnest({made.sql}) AS "#1"'
    return Generated(sql, (("pos", INT), ("col", made.type.value_type)), False)


def _inline(context: Context, node: exp.Anonymous) -> Generated:
    made = _argument(context, node, "an ARRAY of STRUCT")
    if not (pa.types.is_list(made.type) and pa.types.is_struct(made.type.value_type)):
        context.text.refuse(
            node, f"{node.name} takes an ARRAY of STRUCT", found=format_type(made.type), cure="pass an ARRAY of STRUCT"
        )
    fields = list(made.type.value_type)
    items = ", ".join(f"struct_extract(e, {text(field.name)}) AS {quoted(f'#{i}')}" for i, field in enumerate(fields))
    sql = f"SELECT {items} FROM (SELECT unnest({made.sql}) AS e)"
    return Generated(sql, tuple((field.name, field.type) for field in fields), False)


def _stack(context: Context, node: exp.Anonymous) -> Generated:
    count, *values = [*node.expressions, exp.Null()][: max(1, len(node.expressions))]
    number = context.typed(count).constant
    if number is None or not 1 <= number <= len(values):
        context.text.refuse(node, "stack takes a literal number of rows, and values", cure="write the number of rows first")
    width = -(-len(values) // number)
    values += [exp.Null()] * (number * width - len(values))
    columns = [values[place::width] for place in range(width)]
    made = []
    for cells in columns:
        typed = [context.typed(cell) for cell in cells]
        if len({one.type for one in typed} - {NULL}) > 1:
            types = ", ".join(format_type(one.type) for one in typed)
            context.text.refuse(node, "the values of a column of stack have different types", found=types, cure="cast them")
        made.append(context.unified(cells, typed))
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*(sqls for sqls, _ in made), strict=True))
    names = ", ".join(quoted(f"#{i}") for i in range(width))
    return Generated(
        f"SELECT * FROM (VALUES {rows}) AS v({names})", tuple((f"col{i}", kind) for i, (_, kind) in enumerate(made)), False
    )


def _json_tuple(context: Context, node: exp.Anonymous) -> Generated:
    """The values of fields of a JSON text, as one row."""
    if len(node.expressions) < 2:
        context.text.refuse(node, "json_tuple takes a JSON text and names of fields", cure="write json_tuple(text, 'a', 'b')")
    if nulls := [one for one in node.expressions if isinstance(one, exp.Null)]:
        context.text.refuse(nulls[0], "expected STRING", found="NULL", cure="cast NULL to STRING")
    value, *names = (text_argument(context, one, strict=True) for one in node.expressions)
    values = (f"spark_json_field({value}, {name}) AS {quoted(f'#{place}')}" for place, name in enumerate(names))
    return Generated(f"SELECT {', '.join(values)}", tuple((f"c{place}", STRING) for place in range(len(names))), False)


def _range(context: Context, node: exp.Anonymous) -> Generated:
    bounds = [context.typed(one).constant for one in node.expressions]
    if not 1 <= len(bounds) <= 3 or None in bounds or (len(bounds) == 3 and bounds[2] == 0):
        context.text.refuse(
            node,
            "range takes literal integers",
            expected="range(end), range(start, end) or range(start, end, step)",
            cure="write such numbers",
        )
    made = ", ".join(map(str, bounds))
    return Generated(f'SELECT range AS "#0" FROM range({made})', (("id", BIGINT),), False)


_GENERATORS: dict[str, Callable[[Context, exp.Anonymous], Generated]] = {
    "explode": _explode,
    "posexplode": _posexplode,
    "inline": _inline,
    "stack": _stack,
    "json_tuple": _json_tuple,
    "range": _range,
}
