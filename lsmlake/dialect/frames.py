"""The frame of a window: ROWS and RANGE, with numbers or intervals as bounds."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import intervals
from lsmlake.dialect.context import Context
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.reading import peek
from lsmlake.dialect.types import DATE, INT, NULL, TIMESTAMP, is_time
from lsmlake.types.intervals import DAYS, is_interval
from lsmlake.types.type_text import format_type

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
        context.text.refuse(node, "a window frame takes numbers, UNBOUNDED and CURRENT ROW")
    by = inner.typed(peek(node, "order").expressions[0].this).type if peek(node, "order") else INT
    if kind == "RANGE" and is_interval(by):
        context.text.refuse(value, "this number does not fit the frame", expected=f"an {format_type(by)}")
    if kind == "RANGE" and not value.this.isdecimal():
        return f"{value.this if not pa.types.is_integer(by) else int(float(value.this))} {side}"
    if not value.this.isdecimal():
        context.text.refuse(node, "a window frame of ROWS takes whole numbers", found=value.this)
    if kind == "ROWS" and int(value.this) > _INT_MAX:
        context.text.refuse(node, "a window frame of ROWS takes an INT", expected=f"at most {_INT_MAX}", found=value.this)
    return f"{value.this} {side}"


def _interval(context: Context, node: exp.Expression, value: exp.Interval, inner: Context, kind: str, side: str) -> str:
    """An interval as a bound of a frame: what is added to the column of ORDER BY."""
    step, order = inner.typed(value), peek(node, "order")
    item = order.expressions[0] if order is not None and len(order.expressions) == 1 else None
    by = inner.typed(item.this).type if item is not None else NULL
    of_interval = is_interval(by) and by.storage_type == step.type.storage_type
    of_time = is_time(by) and (by != DATE or step.type.is_months or step.type == DAYS)
    if kind != "RANGE" or not (of_interval or of_time):
        expected = "RANGE, and ORDER BY one column of times or intervals: of dates with days or months"
        context.text.refuse(value, "this INTERVAL does not fit the frame", expected=expected)
    _, number = intervals.parsed(context, value)
    if number < 0:
        context.text.refuse(value, "a bound of a frame is not negative", cure="write PRECEDING or FOLLOWING")
    if of_interval:
        return step.sql
    if step.type.is_months:
        return f"to_months({step.sql})"
    subtracted = (side == "PRECEDING") != bool(peek(item, "desc"))
    if by == TIMESTAMP and subtracted and number > DAY and number % DAY:  # DuckDB would take the hours first, and then the days
        cure = "write whole days, or hours of less than a day; or cast the column to TIMESTAMP_NTZ"
        context.text.refuse(value, "days and hours before a TIMESTAMP are not supported in a frame", cure=cure)
    return f"spark_day_time({step.sql})"
