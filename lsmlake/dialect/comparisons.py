"""Comparisons: =, <, BETWEEN, IN, IS and their like."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BOOLEAN, common
from lsmlake.schema.type_text import format_type

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


def compared(context: Context, node: exp.Binary) -> Typed:
    """`left = right` and the like, with <=>."""
    op = _OPERATORS[type(node)]
    sides = [node.this, node.expression]
    if isinstance(sides[1], (exp.Any, exp.All)):
        context.text.refuse(node, "ANY and ALL are not supported", cure="write IN, or OR and AND")
    (left, right), kind = context.unified(sides, [context.typed(side) for side in sides])
    if pa.types.is_map(kind) or (pa.types.is_nested(kind) and op in ("<", "<=", ">", ">=")):
        context.text.refuse(node, f"values of type {format_type(kind)} cannot be compared so")
    return Typed(f"({left} {op} {right})", BOOLEAN)


def between(context: Context, node: exp.Between) -> Typed:
    """`value BETWEEN low AND high`."""
    low, high = node.args.get("low"), node.args.get("high")
    parts = [
        compared(context, exp.GTE(this=node.this, expression=low)),
        compared(context, exp.LTE(this=node.this, expression=high)),
    ]
    return Typed(f"({parts[0].sql} AND {parts[1].sql})", BOOLEAN)


def member(context: Context, node: exp.In) -> Typed:
    """`value IN (...)`, of values or of a query."""
    if query := node.args.get("query"):
        return _in_query(context, node, query)
    nodes = [node.this, *node.expressions]
    (operand, *values), _ = context.unified(nodes, [context.typed(part) for part in nodes])
    return Typed(f"({operand} IN ({', '.join(values)}))", BOOLEAN)


def _in_query(context: Context, node: exp.In, query: exp.Expression) -> Typed:
    """Membership in a query, of a value or of several: `(a, b) IN (SELECT ...)`."""
    nodes = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    made = [context.typed(one) for one in nodes]
    sql, types = context.query(node, query)
    kinds = [common(one.type, kind) for one, kind in zip(made, types, strict=False)]
    if len(types) != len(made) or None in kinds:
        found = ", ".join(map(format_type, types))
        context.text.refuse(node, "the query of IN must give as many columns, of types that fit", found=found)
    names = [f"x{number}" for number in range(len(made))]
    left = [context.converted(node, one, kind) for one, kind in zip(made, kinds, strict=True)]
    inner = [context.converted(node, Typed(*three[:2]), three[2]) for three in zip(names, types, kinds, strict=True)]
    if len(made) == 1:
        return Typed(f"({left[0]} IN (SELECT {inner[0]} FROM ({sql}) AS q({names[0]})))", BOOLEAN)
    rows = f"SELECT row({', '.join(inner)}) FROM ({sql}) AS q({', '.join(names)})"
    return Typed(f"(row({', '.join(left)}) IN ({rows}))", BOOLEAN)


def tested(context: Context, node: exp.Is) -> Typed:
    """`value IS NULL`, IS TRUE and IS FALSE."""
    wanted = node.expression
    if isinstance(wanted, exp.Null):
        return Typed(f"({context.typed(node.this).sql} IS NULL)", BOOLEAN)
    if isinstance(wanted, exp.Boolean):
        word = "true" if wanted.this else "false"
        return Typed(f"({context.operand(node.this, BOOLEAN)} IS NOT DISTINCT FROM {word})", BOOLEAN)
    context.text.refuse(node, "IS takes NULL, TRUE or FALSE")
