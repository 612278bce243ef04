"""OVER: the clause, its order, and the functions that need a window."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from lsmlake.dialect.aggregates import RANKS, SHIFTS
from lsmlake.dialect.context import Context
from lsmlake.dialect.frames import frame
from lsmlake.dialect.reading import peek
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import INT, duck_name
from lsmlake.types.intervals import is_calendar
from lsmlake.types.type_text import format_type

ORDERED = (*RANKS, *SHIFTS, "ntile")
"""Functions that need an order of the rows."""


def over(context: Context, node: exp.Window) -> str:
    """The clause OVER."""
    if not context.windows:
        context.text.refuse(node, "a window function is not allowed here", cure="compute it in a subquery")
    if name := node.args.get("alias"):
        if any(peek(node, one) for one in ("partition_by", "order", "spec")):
            context.text.refuse(node, "a named window stands alone after OVER", cure="write the whole window")
        if name.name.lower() not in context.named_windows:
            context.text.refuse(
                node, f"there is no window {name.name}", cure=f"write WINDOW {name.name} AS (...) after the query"
            )
        node = context.named_windows[name.name.lower()]
    inner = replace(context, windows=False)
    parts = []
    if partition := node.args.get("partition_by"):
        parts.append("PARTITION BY " + ", ".join(inner.typed(part).sql for part in partition))
    if order := node.args.get("order"):
        parts.append("ORDER BY " + ", ".join(ordered(inner, item) for item in order.expressions))
    if spec := node.args.get("spec"):
        parts.append(frame(context, node, spec, inner))
    return f" OVER ({' '.join(parts)})"


def is_ordered(context: Context, node: exp.Window) -> bool:
    """Whether OVER has an order or a frame."""
    named = peek(node, "alias")
    window = context.named_windows.get(named.name.lower(), node) if named else node
    return bool(peek(window, "order") or peek(window, "spec"))


def sortable(context: Context, node: exp.Expression, made: Typed) -> Typed:
    """An expression of ORDER BY. Refuses values that have no order."""
    if is_calendar(made.type):
        context.text.refuse(node, f"values of type {format_type(made.type)} have no order", cure="order by the times")
    return made


def ordered(context: Context, item: exp.Expression, sql: str | None = None) -> str:
    """An item of ORDER BY, with the place of nulls: first if ascending, as in Spark."""
    if not isinstance(item, exp.Ordered):
        item = exp.Ordered(this=item, nulls_first=True)
    made = sql or sortable(context, item, context.typed(item.this)).sql
    descending, first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
    return f"{made} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def function(context: Context, node: exp.Anonymous, name: str, over: str, ignores: bool) -> Typed:
    """A function that only a window gives a meaning. `ignores`: IGNORE NULLS."""
    inner, arguments = context.plain(), node.expressions
    if name in RANKS and not arguments:
        return Typed(f"CAST({name}(){over} AS {duck_name(RANKS[name])})", RANKS[name])
    if name == "ntile" and len(arguments) == 1:
        return Typed(f"CAST(ntile({inner.operand(arguments[0], INT)}){over} AS INTEGER)", INT)
    nulls = " IGNORE NULLS" if ignores else ""
    if name == "nth_value" and len(arguments) == 2:
        made = inner.typed(arguments[0])
        if (place := inner.typed(arguments[1]).constant) is not None and place < 1:
            context.text.refuse(arguments[1], "nth_value counts rows from 1", expected="a number from 1", found=place)
        return Typed(f"nth_value({made.sql}, {inner.operand(arguments[1], INT)}{nulls}){over}", made.type)
    if name in SHIFTS and 1 <= len(arguments) <= 3:
        made = inner.typed(arguments[0])
        offset = inner.operand(arguments[1], INT) if len(arguments) > 1 else "1"
        if len(arguments) < 3:
            return Typed(f"{name}({made.sql}, {offset}{nulls}){over}", made.type)
        default = inner.converted(arguments[2], inner.typed(arguments[2]), made.type)
        return Typed(f"{name}({made.sql}, {offset}, {default}{nulls}){over}", made.type)
    context.text.refuse(node, f"{name} is not a window function that lsmlake knows in process", cure="attach Spark")
