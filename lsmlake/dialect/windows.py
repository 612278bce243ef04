"""OVER: the clause, its order, and the functions that need a window.

Also translates the frame of a window: ROWS and RANGE, with numbers or intervals as bounds.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import interval_functions
from lsmlake.dialect.aggregates import RANKS, SHIFTS
from lsmlake.dialect.context import Context
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_text import peek
from lsmlake.dialect.sql_types import DATE, INT, NULL, TIMESTAMP, duck_name, is_dated
from lsmlake.types.intervals import DAYS, is_calendar, is_interval
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
    """A function that needs a window. `ignores`: IGNORE NULLS."""
    inner, arguments = context.plain(), node.expressions
    if name in RANKS and not arguments:
        return Typed(f"CAST({name}(){over} AS {duck_name(RANKS[name])})", RANKS[name])
    if name == "ntile" and len(arguments) == 1:
        return Typed(f"CAST(ntile({inner.operand(arguments[0], INT)}){over} AS INTEGER)", INT)
    nulls = " IGNORE NULLS" if ignores else ""
    if name == "nth_value" and len(arguments) == 2:
        made = inner.typed(arguments[0])
        if (place := inner.typed(arguments[1]).constant) is not None and place < 1:
            context.text.refuse(
                arguments[1],
                "nth_value counts rows from 1",
                expected="a number from 1",
                found=place,
                cure="write 1 or more",
            )
        return Typed(f"nth_value({made.sql}, {inner.operand(arguments[1], INT)}{nulls}){over}", made.type)
    if name in SHIFTS and 1 <= len(arguments) <= 3:
        made = inner.typed(arguments[0])
        offset = inner.operand(arguments[1], INT) if len(arguments) > 1 else "1"
        if len(arguments) < 3:
            return Typed(f"{name}({made.sql}, {offset}{nulls}){over}", made.type)
        default = inner.converted(arguments[2], inner.typed(arguments[2]), made.type)
        return Typed(f"{name}({made.sql}, {offset}, {default}{nulls}){over}", made.type)
    context.text.refuse(node, f"{name} is not a window function that lsmlake knows in process", cure="attach Spark")


_INT_MAX = 2**31 - 1


def frame(context: Context, node: exp.Expression, spec: exp.WindowSpec, inner: Context) -> str:
    """The frame `spec` of the window `node`. `inner`: translates the expression of ORDER BY."""
    kind = context.text.word(spec, "kind", "ROWS", "RANGE")
    ends = [value for name in ("start", "end") if isinstance(value := peek(spec, name), exp.Interval)]
    if len({inner.typed(value).type for value in ends}) > 1:
        cure = "write both with the same fields"
        context.text.refuse(node, "the bounds of a frame have different types of INTERVAL", cure=cure)
    start = _bound(context, node, spec, inner, kind, "start")
    end = _bound(context, node, spec, inner, kind, "end") if peek(spec, "end") is not None else "CURRENT ROW"
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(context: Context, node: exp.Expression, spec: exp.WindowSpec, inner: Context, kind: str, name: str) -> str:
    side = context.text.word(spec, f"{name}_side", "PRECEDING", "FOLLOWING")
    if isinstance(peek(spec, name), str):
        return f"{context.text.word(spec, name, 'UNBOUNDED', 'CURRENT ROW')} {side}".strip()
    value = spec.args.get(name)
    if isinstance(value, exp.Interval):
        return f"{_interval(context, node, value, inner, kind, side)} {side}"
    if not (isinstance(value, exp.Literal) and not value.is_string):
        context.text.refuse(node, "a window frame takes numbers, UNBOUNDED and CURRENT ROW", cure="write one of them")
    by = inner.typed(peek(node, "order").expressions[0].this).type if peek(node, "order") else INT
    if kind == "RANGE" and is_interval(by):
        context.text.refuse(
            value,
            "this number does not fit the frame",
            expected=f"an {format_type(by)}",
            cure="write an INTERVAL of this type",
        )
    if kind == "RANGE" and not value.this.isdecimal():
        return f"{value.this if not pa.types.is_integer(by) else int(float(value.this))} {side}"
    if not value.this.isdecimal():
        context.text.refuse(node, "a window frame of ROWS takes whole numbers", found=value.this, cure="write a whole number")
    if kind == "ROWS" and int(value.this) > _INT_MAX:
        context.text.refuse(
            node,
            "a window frame of ROWS takes an INT",
            expected=f"at most {_INT_MAX}",
            found=value.this,
            cure="write a smaller number",
        )
    return f"{value.this} {side}"


def _interval(context: Context, node: exp.Expression, value: exp.Interval, inner: Context, kind: str, side: str) -> str:
    """An interval as a bound of a frame: what is added to the column of ORDER BY."""
    step, order = inner.typed(value), peek(node, "order")
    item = order.expressions[0] if order is not None and len(order.expressions) == 1 else None
    by = inner.typed(item.this).type if item is not None else NULL
    of_interval = is_interval(by) and by.storage_type == step.type.storage_type
    of_time = is_dated(by) and (by != DATE or step.type.is_months or step.type == DAYS)
    if kind != "RANGE" or not (of_interval or of_time):
        expected = "RANGE, and ORDER BY one column of times or intervals: of dates with days or months"
        context.text.refuse(
            value,
            "this INTERVAL does not fit the frame",
            expected=expected,
            cure="write RANGE, and ORDER BY such a column",
        )
    _, number = interval_functions.parsed(context, value)
    if number < 0:
        context.text.refuse(value, "a bound of a frame is not negative", cure="write PRECEDING or FOLLOWING")
    if of_interval:
        return step.sql
    if step.type.is_months:
        return f"to_months({step.sql})"
    subtracted = (side == "PRECEDING") != bool(peek(item, "desc"))
    if (
        by == TIMESTAMP and subtracted and number > DAY and number % DAY
    ):  # DuckDB would subtract the hours first, and then the days
        cure = "write whole days, or hours of less than a day; or cast the column to TIMESTAMP_NTZ"
        context.text.refuse(value, "days and hours before a TIMESTAMP are not supported in a frame", cure=cure)
    return f"spark_day_time({step.sql})"
