"""`width_bucket` and `time_bucket`: the bucket of a number, an interval or a time."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted, number_argument
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BIGINT, DATE, NULL, TIMESTAMP, TIMESTAMP_NTZ, common, duck_name
from lsmlake.types.intervals import DAY_TIME, is_calendar, is_interval
from lsmlake.types.type_text import format_type

_NOT_POSITIVE = refused("'the length of time_bucket is not positive; write an INTERVAL of more than 0'")


def _width_bucket(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The number of a value's bucket, among equal buckets between two bounds; outside of them, 0 or the last number plus 1."""
    typed = counted(context, node, arguments, 4)
    if any(is_interval(one.type) for one in typed[:3]):
        kind = typed[0].type
        for one in typed[1:3]:
            kind = None if kind is None or NULL in (kind, one.type) else common(kind, one.type)
        if kind is None or is_calendar(kind):
            types = ", ".join(format_type(one.type) for one in typed[:3])
            context.text.refuse(node, "the value and its bounds have different types", found=types, cure="cast them")
        values = typed[:3]
    else:
        values = [number_argument(context, *both) for both in zip(arguments[:3], typed[:3], strict=True)]
    count = context.converted(arguments[3], typed[3], BIGINT)
    listed = ", ".join(f"CAST({one.sql} AS DOUBLE)" for one in values)
    return Typed(f"spark_width_bucket({listed}, {count})", BIGINT)


def _time_bucket(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """The start of the bucket of a timestamp. Buckets follow each other from an origin; an interval is their length. Buckets of a
    day or more begin at the same time of day, whatever the clocks do."""
    step, moment, *more = counted(context, node, arguments, 2, 3)
    for argument in (arguments[0], *arguments[2:]):
        if argument.find(exp.Column, exp.Query) is not None:
            context.text.refuse(argument, "this argument must be the same for all rows", cure="write a literal")
    kinds = {one.type for one in (moment, *more)} - {NULL}
    kind = next(iter(kinds), TIMESTAMP)
    step = step if step.type != NULL else Typed("CAST(NULL AS BIGINT)", DAY_TIME)
    if len(kinds) > 1 or kind not in (TIMESTAMP, TIMESTAMP_NTZ) or not is_interval(step.type) or is_calendar(step.type):
        types = ", ".join(format_type(one.type) for one in (step, moment, *more))
        expected = "an INTERVAL of months or of days and times, and timestamps of one type"
        context.text.refuse(
            node,
            "time_bucket does not take these values",
            expected=expected,
            found=types,
            cure="write an INTERVAL and timestamps of one type",
        )
    origin = more[0].sql if more else context.converted(node, Typed("DATE '1970-01-01'", DATE), kind)
    by, at, since = (f"struct_extract(q, '{name}')" for name in ("by", "at", "since"))
    if step.type.is_months:
        count = f"spark_floor_div(datediff('month', CAST({since} AS TIMESTAMP), CAST({at} AS TIMESTAMP)), {by})"
        start = f"{since} + to_months(CAST(k * {by} AS INTEGER))"
    else:
        count = f"spark_floor_div(epoch_us({at}) - epoch_us({since}), {by})"
        start = f"CASE WHEN {by} < {DAY} THEN {since} + to_microseconds(k * {by}) ELSE spark_after({since}, k * {by}) END"
    near = f"list_transform([-1, 0, 1], lambda d: {count} + d)"  # a day may have 25 hours, and a month end early
    starts = f"list_filter(list_transform({near}, lambda k: {start}), lambda s: s <= {at})"
    sql = (
        f"CASE WHEN {by} <= 0 THEN {_NOT_POSITIVE} WHEN {at} IS NULL OR {since} IS NULL OR {by} IS NULL THEN NULL "
        f"ELSE list_max({starts}) END"
    )
    wide = f"CAST({step.sql} AS BIGINT)"
    bound = f"{{'by': {wide}, 'at': {_as(moment, kind)}, 'since': CAST({origin} AS {duck_name(kind)})}}"
    return Typed(f"list_transform([{bound}], lambda q: {sql})[1]", kind)


def _as(made: Typed, kind: pa.DataType) -> str:
    return made.sql if made.type != NULL else f"CAST(NULL AS {duck_name(kind)})"


FUNCTIONS: dict[str, Function] = {"width_bucket": _width_bucket, "time_bucket": _time_bucket}
