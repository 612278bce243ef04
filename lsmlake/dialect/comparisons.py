"""Comparisons: =, <, BETWEEN, IN, IS and their like.

Where a CHAR(n) column is compared with a constant or with another column, Spark pads the shorter text with blanks. This holds
for names of columns (also in a query inside), not for fields of a struct or values of a function. A VARCHAR(n) is compared
as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context, is_drawn
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BOOLEAN, STRING, common, text
from lsmlake.types.column_types import char_length
from lsmlake.types.intervals import is_calendar
from lsmlake.types.type_text import format_type

_OPERATORS = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def compared(context: Context, node: exp.Binary, *, pads: bool = True) -> Typed:
    """`left = right` and the like, with <=>. `pads`: the shorter text of a CHAR(n) is padded."""
    op = _OPERATORS[type(node)]
    sides = [node.this, node.expression]
    if all(isinstance(side, exp.Tuple) for side in sides) and op in ("=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"):
        left, right = _rows(context, node, sides)
        return Typed(f"({left} {op} {right})", BOOLEAN)
    if isinstance(sides[1], (exp.Any, exp.All)):
        context.text.refuse(node, "ANY and ALL are not supported", cure="write IN, or OR and AND")
    typed = [context.typed(side) for side in sides]
    (left, right), kind = context.unified(sides, padded(sides, typed) if pads else typed)
    if pa.types.is_map(kind) or is_calendar(kind) or (pa.types.is_nested(kind) and op in ("<", "<=", ">", ">=")):
        context.text.refuse(
            node, f"values of type {format_type(kind)} cannot be compared so", cure="compare fields or elements of them"
        )
    return Typed(f"({left} {op} {right})", BOOLEAN)


def between(context: Context, node: exp.Between) -> Typed:
    """`value BETWEEN low AND high`."""
    low, high = node.args.get("low"), node.args.get("high")
    sides = exp.GTE(this=node.this, expression=low), exp.LTE(this=node.this, expression=high)
    parts = [compared(context, within(side, node), pads=False) for side in sides]  # Spark pads no CHAR(n) here
    return Typed(f"({parts[0].sql} AND {parts[1].sql})", BOOLEAN)


def within(made: exp.Expression, node: exp.Expression) -> exp.Expression:
    """Puts a node that was made of parts of another node in the place of that node."""
    made.parent = node
    return made


def member(context: Context, node: exp.In, negated: bool = False) -> Typed:
    """`value IN (...)`, of values or of a query. `negated`: NOT stands before it."""
    if query := node.args.get("query"):
        made = _in_query(context, node, query)
        sql = f"(NOT {made.sql})" if negated else made.sql
        if not context.filters:  # outside of conditions Spark gives false where nulls leave the answer open
            return made._replace(sql=f"coalesce({sql}, false)")
        if not _decides(node):
            what = "whether IN of a query gives null or false here, where a value is null, depends on Spark's plan"
            context.text.refuse(node, what, cure="write IS TRUE after it, or make it a column of a query in FROM")
        return made._replace(sql=sql)
    nodes = [node.this, *node.expressions]
    if len(nodes) == 1:
        context.text.refuse(node, "the list of IN is empty", cure="write a value into it, or FALSE")
    if isinstance(node.this, exp.Tuple):
        operand, *values = _rows(context, node, nodes)
        return Typed(f"({operand} IN ({', '.join(values)}))", BOOLEAN)
    (operand, *values), kind = context.unified(nodes, padded_list(nodes, [context.typed(part) for part in nodes]))
    if is_calendar(kind):
        context.text.refuse(
            node, f"values of type {format_type(kind)} cannot be compared so", cure="compare fields or elements of them"
        )
    return Typed(f"({operand} IN ({', '.join(values)}))", BOOLEAN)


def _decides(node: exp.Expression) -> bool:
    """Whether null is as good as false for the node: AND, OR and NOT lead from it to a condition, of the query, of CASE or of IF,
    or to IS TRUE."""
    inner, outer = node, node.parent
    while isinstance(outer, (exp.Paren, exp.And, exp.Or, exp.Not)):
        inner, outer = outer, outer.parent
    match outer:
        case exp.If():
            return outer.this is inner
        case exp.Is() | exp.NullSafeEQ():
            other = outer.expression if outer.this is inner else outer.this
            return isinstance(other, exp.Boolean) and other.this
    return not isinstance(outer, exp.Condition)


def _in_query(context: Context, node: exp.In, query: exp.Expression) -> Typed:
    """Membership in a query, of a value or of several: `(a, b) IN (SELECT ...)`."""
    nodes = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    made = [context.typed(one) for one in nodes]
    sql, types = context.query(node, query)
    kinds = [common(one.type, kind) for one, kind in zip(made, types, strict=False)]
    if len(types) != len(made) or None in kinds or any(map(is_calendar, kinds)):
        type_names = ", ".join(map(format_type, types))
        context.text.refuse(
            node,
            "the query of IN must give as many columns, of types that fit",
            found=type_names,
            cure="select as many columns, of types that fit",
        )
    names = [f"x{number}" for number in range(len(made))]
    left = [context.converted(node, one, kind) for one, kind in zip(made, kinds, strict=True)]
    inner = [context.converted(node, Typed(*three[:2]), three[2]) for three in zip(names, types, kinds, strict=True)]
    if len(made) == 1:
        return Typed(f"({left[0]} IN (SELECT {inner[0]} FROM ({sql}) AS q({names[0]})))", BOOLEAN)
    return Typed(_in_rows(left, inner, f"({sql}) AS q({', '.join(names)})"), BOOLEAN)


def _in_rows(left: Sequence[str], inner: Sequence[str], rows: str) -> str:
    """Whether several values are a row of `rows`: null if they may be one, because of nulls on one of the sides."""
    equal = [f"({a} = {b})" for a, b in zip(left, inner, strict=True)]
    may_be = " AND ".join(f"{one} IS NOT FALSE" for one in equal)

    def some(*conditions: str) -> str:
        return f"EXISTS (SELECT 1 FROM {rows} WHERE {' AND '.join(conditions)})"

    def null(side: Sequence[str]) -> str:
        return f"({' OR '.join(f'({one}) IS NULL' for one in side)})"

    unknown = f"{some(null(inner), may_be)} OR {some(null(left), may_be)}"
    return f"CASE WHEN {some(*equal)} THEN true WHEN {unknown} THEN NULL ELSE false END"


def _rows(context: Context, node: exp.Expression, rows: Sequence[exp.Expression]) -> list[str]:
    """Rows such as `(a, 1)` with the same types in each place. Their nulls are values: two of them are equal."""
    parts = [row.expressions if isinstance(row, exp.Tuple) else [] for row in rows]
    if len({len(part) for part in parts}) != 1:
        context.text.refuse(
            node,
            "a row is compared with something else",
            expected=f"{len(parts[0])} values in parentheses",
            cure="write as many values in parentheses",
        )
    columns = [context.unified(cells, [context.typed(cell) for cell in cells])[0] for cells in zip(*parts, strict=True)]
    return [f"struct_pack({', '.join(f'c{i} := {cell}' for i, cell in enumerate(row))})" for row in zip(*columns, strict=True)]


def tested(context: Context, node: exp.Is) -> Typed:
    """`value IS NULL`, IS TRUE and IS FALSE."""
    wanted = node.expression
    if isinstance(wanted, exp.Null):
        return Typed(f"({context.typed(node.this).sql} IS NULL)", BOOLEAN)
    if isinstance(wanted, exp.Boolean):
        word = "true" if wanted.this else "false"
        return Typed(f"({context.operand(node.this, BOOLEAN)} IS NOT DISTINCT FROM {word})", BOOLEAN)
    context.text.refuse(node, "IS takes NULL, TRUE or FALSE", cure="write = for other values")


# -- CHAR(n) ----------------------------------------------------------------------------------------------------------

_VARIABLE = exp.Column, exp.Identifier, exp.Query, exp.Lambda, exp.Placeholder, exp.Window


def padded(nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> list[Typed]:
    """The two sides of a comparison, padded as Spark pads a CHAR(n)."""
    lengths = [char_length(one.known.declared) for one in typed]
    if None not in lengths:
        return [_padded(one, length, max(lengths)) for one, length in zip(typed, lengths, strict=True)]
    for place, length in enumerate(lengths):
        if length is not None and _is_constant(nodes[1 - place], typed[1 - place]):
            made = padded_list([nodes[place], nodes[1 - place]], [typed[place], typed[1 - place]])
            return made if place == 0 else made[::-1]
    return list(typed)


def padded_list(nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> list[Typed]:
    """A value and the values of IN (...), padded. Spark pads none of them if a value of IN is no constant, or is null."""
    length = char_length(typed[0].known.declared)
    if length is None or not all(map(_is_constant, nodes[1:], typed[1:])):
        return list(typed)
    texts = [_literal(node) for node in nodes[1:]]
    if None not in texts:
        longest = max(length, *map(len, texts))
        return [_padded(typed[0], length, longest), *(Typed(text(one.ljust(longest)), STRING) for one in texts)]
    longest = f"greatest({', '.join([str(length), *(f'length({one.sql})' for one in typed[1:])])})"
    return [Typed(f"rpad({one.sql}, CAST({longest} AS INTEGER), ' ')", STRING) for one in typed]


def _padded(one: Typed, length: int, longest: int) -> Typed:
    return one if length == longest else Typed(f"rpad({one.sql}, {longest}, ' ')", STRING)


def _literal(node: exp.Expression) -> str | None:
    node = node.unnest()
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _is_constant(node: exp.Expression, made: Typed) -> bool:
    """Whether a text is the same for all rows, and known before any is read."""
    return made.type == STRING and node.find(*_VARIABLE) is None and not is_drawn(made.sql)
