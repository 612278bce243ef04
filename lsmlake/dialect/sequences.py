"""`sequence`: an array of integers, dates or timestamps from the first to the last, by a step."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import DATE, array_of, duck_name, is_dated
from lsmlake.types.intervals import DAYS, is_calendar, is_interval
from lsmlake.types.type_text import format_type

_AWAY = refused("'the step of sequence leads away from its end'")
_TOO_SHORT = refused("'a sequence of dates needs a step of days or months; make it one of timestamps'")


def _sequence(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2, 3)
    if any(is_dated(one.type) for one in typed):
        return _times(context, node, arguments, typed)
    sqls, kind = context.unified(arguments, typed)
    if not pa.types.is_integer(kind):
        context.text.refuse(
            node, "sequence takes integers, or times and an INTERVAL", found=format_type(kind), cure="cast the bounds"
        )
    low, high, *given = (f"CAST({sql} AS BIGINT)" for sql in sqls)
    step = given[0] if given else f"CASE WHEN {low} <= {high} THEN 1 ELSE -1 END"
    made = f"CAST(generate_series({low}, {high}, {step}) AS {duck_name(array_of(kind))})"
    sql = f"CASE WHEN {low} = {high} THEN [CAST({low} AS {duck_name(kind)})] WHEN ({low} < {high}) <> ({step} > 0) THEN {_AWAY}"
    return Typed(f"{sql} ELSE {made} END", array_of(kind))


def _times(context: Context, node: exp.Expression, arguments: Arguments, typed: list[Typed]) -> Typed:
    (low, high), kind = context.unified(arguments[:2], typed[:2])
    step = typed[2] if len(typed) > 2 else Typed(f"CASE WHEN {low} <= {high} THEN {DAY} ELSE -{DAY} END", DAYS)
    if not is_dated(kind) or not is_interval(step.type) or is_calendar(step.type):
        found = " and ".join(format_type(one.type) for one in (typed[0], step))
        expected = "times, and an INTERVAL of months or of days and times"
        context.text.refuse(
            node,
            "sequence does not take these values",
            expected=expected,
            found=found,
            cure="write two times and an INTERVAL",
        )
    first, last, by = (f"struct_extract(q, '{name}')" for name in "abs")
    if step.type.is_months:  # each is so many months after the first, not after the one before
        count = f"datediff('month', {first}, {last}) // {by}"
        moment = f"{first} + to_months(CAST(e * {by} AS INTEGER))"
    else:
        count = f"(epoch_us({last}) - epoch_us({first})) // {by} + 1"  # a day may have 25 hours
        moment = f"{first} + to_days(CAST(e * ({by} // {DAY}) AS INTEGER)) + to_microseconds(e * ({by} % {DAY}))"
    every = f"list_transform(generate_series(0, {count}), lambda e: {moment})"
    inside = f"list_filter({every}, lambda x: CASE WHEN {by} > 0 THEN x <= {last} ELSE x >= {last} END)"
    short = f"WHEN abs({by}) < {1 if step.type.is_months else DAY} THEN {_TOO_SHORT} " if kind == DATE else ""
    sql = (
        f"CASE WHEN {first} IS NULL OR {last} IS NULL OR {by} IS NULL THEN NULL {short}WHEN {first} = {last} THEN [{first}] "
        f"WHEN {by} = 0 OR ({first} < {last}) <> ({by} > 0) THEN {_AWAY} ELSE {inside} END"
    )
    bound = f"{{'a': {low}, 'b': {high}, 's': {step.sql}}}"
    return Typed(f"CAST(list_transform([{bound}], lambda q: {sql})[1] AS {duck_name(array_of(kind))})", array_of(kind))


FUNCTIONS: dict[str, Function] = {"sequence": _sequence}
