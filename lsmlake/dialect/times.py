"""Functions of times that take a pattern or a unit; EXTRACT and date_part: one field of a time or of an interval."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect import interval_functions
from lsmlake.dialect.calling import Arguments, Function, counted, literal_text
from lsmlake.dialect.casts import assign, cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import or_refused
from lsmlake.dialect.functions import DATE_UNITS, UNITS
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    duck_name,
    is_dated,
    is_number,
)
from lsmlake.dialect.time_patterns import PatternRefused, read, written
from lsmlake.types.intervals import is_interval
from lsmlake.types.type_text import format_type

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
"""The units that can be added to a time, and counted between two times."""
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _moment(context: Context, node: exp.Expression, given: exp.Expression) -> str:
    made = context.typed(given)
    if made.type == STRING or is_dated(made.type) or made.type == pa.null():
        return context.converted(given, made, TIMESTAMP)
    context.text.refuse(node, "expected a timestamp", found=format_type(made.type), cure="write CAST(... AS TIMESTAMP)")


def _written(context: Context, node: exp.Expression, moment: str) -> str:
    """The text of a moment by a literal pattern."""
    if isinstance(node, exp.Null):
        return "CAST(NULL AS VARCHAR)"
    try:
        return written(moment, literal_text(context, node, "the pattern"))
    except PatternRefused as refusal:
        context.text.refuse(node, str(refusal), cure="write it with several calls and ||")


def _date_format(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 2)
    return Typed(_written(context, arguments[1], _moment(context, node, arguments[0])), STRING)


def _parsed(context: Context, node: exp.Expression, arguments: Arguments, safe: bool) -> str:
    """A text as a TIMESTAMP in the session's zone, read by a pattern; a date or timestamp is taken as it is."""
    made = context.typed(arguments[0])
    if made.type != STRING:
        return _moment(context, node, arguments[0])
    try:
        tried = read(made.sql, literal_text(context, arguments[1], "the pattern"))
    except PatternRefused as refusal:
        context.text.refuse(arguments[1], str(refusal), cure="take the text apart with substring or regexp_extract")
    if safe:
        return tried
    return or_refused(tried, made.sql, "does not fit the pattern; use try_to_timestamp to get NULL instead")


def _to(kind: pa.DataType, safe: bool) -> Function:
    """A text by a pattern, or a value, as a DATE or a time. A TIMESTAMP_NTZ ignores a zone in the text."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if len(arguments) == 2:
            parsed = _parsed(context, node, arguments, safe)
            return Typed(parsed if kind == TIMESTAMP else f"CAST({parsed} AS {duck_name(kind)})", kind)
        (value,) = counted(context, node, arguments, 1)
        explicit = kind == TIMESTAMP and is_number(value.type)
        return Typed(context.converted(arguments[0], value, kind, safe=safe, explicit=explicit), kind)

    return made


def _timestamp_seconds(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    (made,) = counted(context, node, arguments, 1)
    if not (is_number(made.type) or made.type == NULL):
        context.text.refuse(
            arguments[0], "expected a number", found=format_type(made.type), cure="write CAST(... AS INT), or a number"
        )
    if pa.types.is_floating(made.type):
        return Typed(f"spark_try_moment(CAST({made.sql} AS DOUBLE))", TIMESTAMP)
    if pa.types.is_decimal(made.type) and made.type.scale > 6:
        micros = Typed(f"({made.sql} * 1000000)", pa.decimal128(38, made.type.scale))
        return Typed(f"make_timestamptz({assign(micros.sql, micros.type, BIGINT)})", TIMESTAMP)
    return Typed(f"make_timestamptz(CAST({made.sql} * 1000000 AS BIGINT))", TIMESTAMP)


def _unix_timestamp(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 1, 2)
    pattern = arguments[1] if len(arguments) > 1 else exp.Literal.string("yyyy-MM-dd HH:mm:ss")
    given = context.typed(arguments[0])
    both = [arguments[0], pattern]
    moment = _parsed(context, node, both, False) if given.type == STRING else _moment(context, node, arguments[0])
    return Typed(f"(epoch_us({moment}) // 1000000)", BIGINT)


def _from_unixtime(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 1, 2)
    seconds = context.converted(arguments[0], context.typed(arguments[0]), BIGINT)
    pattern = arguments[1] if len(arguments) > 1 else exp.Literal.string("yyyy-MM-dd HH:mm:ss")
    return Typed(_written(context, pattern, f"make_timestamptz({seconds} * 1000000)"), STRING)


def counted_only(context: Context, node: exp.Expression, arguments: Arguments, *counts: int) -> None:
    """Refuses another number of arguments."""
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts))
        context.text.refuse(
            node, "the number of arguments does not fit", expected=expected, found=len(arguments), cure="pass as many arguments"
        )


def _unit(context: Context, node: exp.Expression) -> str:
    """A unit, which is a word: in backquotes it is a column."""
    plain = isinstance(node, exp.Var) or (isinstance(node, exp.Column) and not node.this.args.get("quoted"))
    name = node.name.upper() if plain else ""
    if name not in _UNITS:
        context.text.refuse(node, "unknown unit", expected=f"one of {', '.join(_UNITS)}", cure="write one of these units")
    return name


def _shift(sign: int) -> Function:
    """`date_add` and the like: days and a date, or a unit, a number and a time."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted_only(context, node, arguments, 2, 3)
        if len(arguments) == 3:
            unit = _unit(context, arguments[0])
            number = context.converted(arguments[1], context.typed(arguments[1]), INT)
            step = f"to_months(CAST({number} * 3 AS INTEGER))" if unit == "QUARTER" else f"to_{unit.lower()}s({number})"
            value = context.typed(arguments[2])
            return Typed(f"({context.converted(arguments[2], value, TIMESTAMP)} + {step})", TIMESTAMP)
        value, days = counted(context, node, arguments, 2)
        if not ((pa.types.is_integer(days.type) and days.type != BIGINT) or days.type in (STRING, NULL)):
            context.text.refuse(
                arguments[1], "expected a number of days", found=format_type(days.type), cure="write a whole number"
            )
        date, number = context.converted(arguments[0], value, DATE), context.converted(arguments[1], days, INT)
        return Typed(f"({date} {'+' if sign > 0 else '-'} {number})", DATE)

    return made


def _bound(macro: str, first: str, last: str) -> str:
    """A call of a macro that writes its arguments many times."""
    call = f"{macro}(struct_extract(m, 'a'), struct_extract(m, 'b'))"
    return f"list_transform([{{'a': {first}, 'b': {last}}}], lambda m: {call})[1]"


def _between(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """`datediff`: days from the second date to the first, or whole units from the second argument to the third."""
    counted_only(context, node, arguments, 2, 3)
    if len(arguments) == 3:
        unit = _unit(context, arguments[0])
        first, last = (f"CAST({_moment(context, node, one)} AS TIMESTAMP)" for one in arguments[1:])
        if unit in _MONTHS:
            return Typed(f"({_bound('spark_months', first, last)} // {_MONTHS[unit]})", BIGINT)
        return Typed(f"datesub('{unit.lower()}', {first}, {last})", BIGINT)
    last, first = (context.converted(one, context.typed(one), DATE) for one in arguments)
    return Typed(f"CAST({last} - {first} AS INTEGER)", INT)


def _months_between(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 2, 3)
    rounded = len(arguments) == 2 or (isinstance(arguments[2], exp.Boolean) and bool(arguments[2].this))
    last, first = (_moment(context, node, one) for one in arguments[:2])
    made = _bound("spark_months_between", last, first)
    return Typed(f"spark_round({made}, 8)" if rounded else made, DOUBLE)


def _next_day(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 2)
    if any(isinstance(one, exp.Null) for one in arguments):
        counted(context, node, arguments, 2)
        return Typed("CAST(NULL AS DATE)", DATE)
    name = literal_text(context, arguments[1], "the day of the week").upper()
    days = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
    numbers = [number for number, day in enumerate(days, 1) if name in (day, day[:3], day[:2])]
    if not numbers:
        context.text.refuse(
            arguments[1], "unknown day of the week", expected=f"one of {', '.join(days)}", cure="write one of these days"
        )
    date = context.converted(arguments[0], context.typed(arguments[0]), DATE)
    return Typed(f"({date} + CAST((({numbers[0]} - isodow({date}) + 6) % 7) + 1 AS INTEGER))", DATE)


def _date_trunc(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 2:
        context.text.refuse(node, "date_trunc takes a unit and a timestamp", cure="write date_trunc('MONTH', time)")
    made = context.typed(arguments[1])
    if made.type not in (DATE, TIMESTAMP, pa.timestamp("us")):
        context.text.refuse(
            node, "date_trunc needs a timestamp", found=format_type(made.type), cure="write CAST(... AS TIMESTAMP)"
        )
    value = context.converted(node, made, TIMESTAMP)
    unit = _length(context, arguments[0])
    return Typed(f"{'date_trunc' if unit in (*DATE_UNITS, 'day') else 'spark_time_trunc'}('{unit}', {value})", TIMESTAMP)


def _trunc(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 2:
        context.text.refuse(node, "trunc takes a date and a unit", cure="write trunc(date, 'MONTH')")
    made, unit = context.typed(arguments[0]), _length(context, arguments[1])
    if made.type != DATE or unit not in DATE_UNITS:
        context.text.refuse(
            node, "trunc needs a DATE and a unit of", expected=", ".join(DATE_UNITS), cure="write a DATE and one of these units"
        )
    return Typed(f"CAST(date_trunc('{unit}', {made.sql}) AS DATE)", DATE)


def _length(context: Context, node: exp.Expression) -> str:
    name = literal_text(context, node, "the unit").upper()
    if name not in UNITS:
        context.text.refuse(node, "unknown unit", expected=f"one of {', '.join(UNITS)}", cure="write one of these units")
    return UNITS[name]


def current(context: Context, node: exp.Expression, date: bool) -> Typed:
    """The time of the statement, or its date."""
    if context.now is None:
        context.text.refuse(node, "the current time is not supported here", cure="write the time as a literal")
    moment = f"CAST({context.now} AS TIMESTAMP WITH TIME ZONE)"
    return Typed(f"CAST({moment} AS DATE)", DATE) if date else Typed(moment, TIMESTAMP)


def _current(date: bool) -> Function:
    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        counted(context, node, arguments, 0)
        return current(context, node, date)

    return made


def _local(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted(context, node, arguments, 0)
    return Typed(f"CAST({current(context, node, False).sql} AS TIMESTAMP)", TIMESTAMP_NTZ)


def _clock(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    counted_only(context, node, arguments, 0)
    return Typed(cast(current(context, node, False).sql, TIMESTAMP, TIME), TIME)


# -- fields of a time -------------------------------------------------------------------------------------------------

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
        return interval_functions.extracted(context, node, name, made)
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
        return interval_functions.no_field()
    return extracted(context, arguments[0], literal_text(context, arguments[0], "the field").upper(), arguments[1])


FUNCTIONS: dict[str, Function] = {
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "current_date": _current(True),
    "curdate": _current(True),
    "current_timestamp": _current(False),
    "now": _current(False),
    "current_time": _clock,
    "localtime": _clock,
    "localtimestamp": _local,
    "date_format": _date_format,
    "to_date": _to(DATE, False),
    "try_to_date": _to(DATE, True),
    "to_timestamp": _to(TIMESTAMP, False),
    "try_to_timestamp": _to(TIMESTAMP, True),
    "to_timestamp_ltz": _to(TIMESTAMP, False),
    "to_timestamp_ntz": _to(TIMESTAMP_NTZ, False),
    "unix_timestamp": _unix_timestamp,
    "to_unix_timestamp": _unix_timestamp,
    "from_unixtime": _from_unixtime,
    "date_add": _shift(1),
    "dateadd": _shift(1),
    "timestampadd": _shift(1),
    "date_sub": _shift(-1),
    "datediff": _between,
    "date_diff": _between,
    "timestamp_seconds": _timestamp_seconds,
    "timestampdiff": _between,
    "timediff": _between,
    "months_between": _months_between,
    "next_day": _next_day,
    "date_part": _date_part,
    "datepart": _date_part,
    "extract": _date_part,
}
