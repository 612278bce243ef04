"""Calls: aggregate functions with FILTER and WITHIN GROUP, window functions, grouping()."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from lsmlake.dialect import windows
from lsmlake.dialect.aggregates import AGGREGATES, GROUPING, PERCENTILES_WITHIN, SUMS, UNORDERED, aggregate, negated
from lsmlake.dialect.context import Context
from lsmlake.dialect.registry import function
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BIGINT, BOOLEAN
from lsmlake.types.type_text import format_type

_ENDS = ("first", "first_value", "last", "last_value", "any_value")


def windowed(context: Context, node: exp.Window) -> Typed:
    """A call with OVER."""
    if windows.is_ordered(context, node) and called(node.this) in UNORDERED:
        context.text.refuse(node, f"{called(node.this)} takes no ORDER BY and no frame in OVER", cure="leave them out")
    if not windows.is_ordered(context, node) and called(node.this) in windows.ORDERED:
        context.text.refuse(node, f"{called(node.this)} needs ORDER BY in OVER", cure="say in which order the rows count")
    return call(replace(context, windows=False), node.this, windows.over(context, node))


def call(context: Context, node: exp.Expression, over: str = "") -> Typed:
    """A call with the clauses behind it, such as FILTER. `over`: the clause OVER in SQL of DuckDB."""
    condition, ignores, order, groups = "", False, None, context.groups
    if groups is not None and not over and context.aggregates and called(node) in AGGREGATES:
        return groups.aggregate(node, lambda before: call(replace(before, aggregates=True), node))
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        if isinstance(node, exp.Filter):
            condition = context.plain().operand(node.expression.this, BOOLEAN)
        elif isinstance(node, exp.WithinGroup):
            order = node.expression
        ignores = ignores or isinstance(node, exp.IgnoreNulls)
        node = node.this
    if not isinstance(node, exp.Anonymous):
        context.text.refuse(node, "this is not a function that lsmlake knows", cure="call another function, or attach Spark")
    name = node.name.lower()
    if name in GROUPING:
        if groups is None or not context.aggregates:
            context.text.refuse(
                node, f"{name} needs GROUP BY with GROUPING SETS, ROLLUP or CUBE", cure="add one of them to GROUP BY"
            )
        return groups.grouping(node, name)
    if name in AGGREGATES and (context.aggregates or over):
        return _aggregate(context, node, name, condition, over, ignores, order)
    if over and not condition:
        return windows.function(context, node, name, over, ignores)
    if name in AGGREGATES:
        context.text.refuse(node, "an aggregate function is not allowed here", cure="compute it in a subquery")
    if condition or ignores or over or order:
        context.text.refuse(node, "only an aggregate function takes this", cure="leave it out")
    return function(context, node, name, node.expressions)


def called(node: exp.Expression) -> str:
    """The name of the function in a call with FILTER and the like, in lower case; "" for other expressions."""
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        node = node.this
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _aggregate(
    context: Context, node: exp.Anonymous, name: str, condition: str, over: str, ignores: bool, order: exp.Order | None
) -> Typed:
    arguments, distinct = list(node.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = list(arguments[0].expressions), True
    inner = replace(context, aggregates=bool(over) and context.aggregates, windows=False)
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star) and not distinct:
        return Typed(f"count(*){_filter(condition)}{over}", BIGINT)
    if name in _ENDS and len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
        ignores = ignores or bool(arguments.pop().this)
    if name in _ENDS and len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
        arguments, ignores = [arguments[0].this], True
    if distinct and any(isinstance(one, exp.Star) for one in arguments):
        context.text.refuse(node, f"{name} with DISTINCT takes no *", cure="list the columns: rows with a null do not count")
    sorting = "" if order is None else _within(context, node, name, order, arguments, inner)
    if not arguments:
        context.text.refuse(
            node, f"{name} takes an argument", expected="a column or *" if name == "count" else "", cure="pass an argument"
        )
    typed = [(_summand(name, made), made.type) for made in map(inner.typed, arguments)]
    if condition:  # an argument may raise an error for the rows that FILTER leaves out
        typed = [
            (sql if isinstance(of, (exp.Column, exp.Literal)) else f"CASE WHEN {condition} THEN {sql} END", kind)
            for of, (sql, kind) in zip(arguments, typed, strict=True)
        ]
    if ignores and name not in _ENDS:
        context.text.refuse(node, "IGNORE NULLS is not supported here", cure="use FILTER (WHERE ... IS NOT NULL)")
    if ignores and not over:
        condition = " AND ".join([*([f"({condition})"] if condition else []), f"({typed[0][0]}) IS NOT NULL"])
    ignoring = " IGNORE NULLS" if ignores and over else ""

    def wrapped(call: str) -> str:
        if over and name in _ENDS:
            call = f"{'last_value' if name.startswith('last') else 'first_value'}({call.partition('(')[2][:-1]}{ignoring})"
        return f"{call[:-1]}{sorting})" + _filter(condition) + over

    if descending := name in PERCENTILES_WITHIN and order is not None and bool(order.expressions[0].args.get("desc")):
        typed[0] = negated(*typed[0])
    result = aggregate(name, typed, distinct, wrapped)
    if result is None:
        kinds = ", ".join(format_type(kind) for _, kind in typed)
        context.text.refuse(
            node,
            f"{name} is not supported for these arguments",
            found=kinds or "none",
            cure="cast the arguments, or attach Spark",
        )
    return Typed(*(negated(*result) if descending else result))


def _summand(name: str, made: Typed) -> str:
    """An argument of an aggregate. DuckDB adds up decimals of few digits in 64 bits, and their sum has 38 digits all the same."""
    narrow = made.in_64_bits if name in SUMS else None
    return made.sql if narrow is None else narrow.sql


def _within(
    context: Context, node: exp.Anonymous, name: str, order: exp.Order, arguments: list[exp.Expression], inner: Context
) -> str:
    """WITHIN GROUP (ORDER BY ...): the value of a percentile, which joins `arguments`, or the order of a list as SQL."""
    items = order.expressions
    if name in ("listagg", "string_agg"):
        return f" ORDER BY {', '.join(map(partial(windows.ordered, inner), items))}"
    if name not in PERCENTILES_WITHIN or len(items) != 1:
        context.text.refuse(
            node,
            "this WITHIN GROUP is not supported",
            expected="percentile_cont, percentile_disc or listagg",
            cure="write it in the expected form",
        )
    _ = items[0].args.get("nulls_first")  # a percentile ignores nulls
    arguments.insert(0, items[0].this)
    return ""


def _filter(condition: str) -> str:
    return f" FILTER (WHERE {condition})" if condition else ""
