"""EXTRACT and date_part: one field of a time or of an interval."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import intervals
from lsmlake.dialect.calling import Arguments, Function, literal_text
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import DATE, INT, NULL, STRING, TIME, TIMESTAMP, is_dated
from lsmlake.types.intervals import is_interval
from lsmlake.types.type_text import format_type

_SECONDS = pa.decimal128(8, 6)
_CALLS = {
    "YEAR": "year", "YEAROFWEEK": "isoyear", "QUARTER": "quarter", "MONTH": "month", "WEEK": "weekofyear", "DAY": "day",
    "DAYOFWEEK": "dayofweek", "DAYOFWEEK_ISO": "isodow", "DOY": "dayofyear", "HOUR": "hour", "MINUTE": "minute",
}  # fmt: skip
"""Field -> the function of DuckDB. It counts days of the week from Sunday, as 0."""
_OF_TIMES = ("HOUR", "MINUTE", "SECOND")
_ALIASES = {
    "YEAR": "Y YEARS YR YRS", "QUARTER": "QTR", "MONTH": "MON MONS MONTHS", "WEEK": "W WEEKS", "DAY": "D DAYS",
    "DAYOFWEEK": "DOW", "DAYOFWEEK_ISO": "DOW_ISO", "HOUR": "H HOURS HR HRS", "MINUTE": "M MIN MINS MINUTES",
    "SECOND": "S SEC SECONDS SECS",
}  # fmt: skip
_FIELDS = {one: one for one in (*_CALLS, "SECOND")}
_FIELDS |= {alias: field for field, names in _ALIASES.items() for alias in names.split()}
"""Name of a field -> the field."""


def extracted(context: Context, node: exp.Expression, name: str, source: exp.Expression) -> Typed:
    """A field of a time or of an interval. `node`: for errors."""
    made = context.typed(source)
    if is_interval(made.type):
        return intervals.extracted(context, node, name, made)
    field = _FIELDS.get(name)
    if field is None:
        context.text.refuse(
            node,
            "this field is not supported",
            expected=f"one of {', '.join((*_CALLS, 'SECOND'))}",
            found=name,
            cure="take one of these fields",
        )
    of_clock = made.type == TIME and field in _OF_TIMES
    if not (is_dated(made.type) or made.type in (STRING, NULL) or of_clock):
        context.text.refuse(
            source,
            "expected a date, a timestamp or an interval",
            found=format_type(made.type),
            cure="write CAST(... AS TIMESTAMP)",
        )
    wanted = TIME if of_clock else TIMESTAMP if field in _OF_TIMES else made.type if is_dated(made.type) else DATE
    moment = context.converted(source, made, wanted)
    if field == "SECOND":
        of_minute = f"epoch_us(CAST({moment} AS TIMESTAMP)) - epoch_us(date_trunc('minute', CAST({moment} AS TIMESTAMP)))"
        micros = f"epoch_us({moment}) % 60000000" if of_clock else of_minute
        return Typed(f"CAST(CAST({micros} AS DECIMAL(8,0)) * CAST('0.000001' AS DECIMAL(7,6)) AS DECIMAL(8,6))", _SECONDS)
    more = " + 1" if field == "DAYOFWEEK" else ""
    return Typed(f"CAST({_CALLS[field]}({moment}){more} AS INTEGER)", INT)


def _date_part(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 2:
        context.text.refuse(
            node, "the number of arguments does not fit", expected="2", found=len(arguments), cure="pass as many arguments"
        )
    if isinstance(arguments[0], exp.Null):
        context.typed(arguments[1])
        return intervals.no_field()
    return extracted(context, arguments[0], literal_text(context, arguments[0], "the field").upper(), arguments[1])


FUNCTIONS: dict[str, Function] = {"date_part": _date_part, "datepart": _date_part, "extract": _date_part}
