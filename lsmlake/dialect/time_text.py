r"""Text as dates and timestamps, by the rules of CAST in Spark, as macros of DuckDB.

A timestamp is `[+-]yyyy[-m[m][-d[d][ |T]h[h][:m[m][:s[s][.fraction][zone]]]]]`, or only its time of day, which is today's. A zone
is `Z`, an offset such as +8, +08:30 or GMT+8, or the name of a region. A TIME is `h[h]:m[m][:s[s][.fraction]]`, in which only
zeros follow the sixth digit of the fraction. A text of another form gives null here.
"""

from __future__ import annotations

from lsmlake.dialect.failures import or_refused

_HOUR, _SIXTY = "([01]?[0-9]|2[0-3])", "([0-5]?[0-9])"
_CLOCK = rf"{_HOUR}(?::{_SIXTY}(?::{_SIXTY}(?:\.(\d*))?(\D.*)?)?)?"
TIMESTAMP_FORM = rf"^([+-]?\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_CLOCK})?)?)?$"
_TIME_OF_DAY = rf"{_HOUR}:{_SIXTY}(?::{_SIXTY}(?:\.\d{{0,6}}0*)?)?"
DATE_FORM = r"^([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?$"
_OFFSET = (
    r"^(?:UTC|GMT|UT)?([+-])(?:(0?[0-9]|1[0-8])(?::([0-5]?[0-9])(?::([0-5][0-9]))?)?|(0[0-9]|1[0-8])([0-5][0-9])([0-5][0-9])?)$"
)
_REGION = r"[A-Z][A-Za-z0-9]*|(?:[A-Z][a-z]+V?|US)(?:/[A-Z][A-Za-z0-9_+-]*)+"


def _part(of: str, name: str) -> str:
    return f"struct_extract({of}, '{name}')"  # a dot after the name of a parameter would prefer a column of that name


def _number(of: str, name: str, default: int) -> str:
    return f"CAST(coalesce(nullif({_part(of, name)}, ''), '{default}') AS BIGINT)"


_SECONDS = (
    f"(({_number('o', 'h', 0)} + {_number('o', 'hh', 0)}) * 3600 + ({_number('o', 'm', 0)} + {_number('o', 'mm', 0)}) * 60 "
    f"+ {_number('o', 's', 0)} + {_number('o', 'ss', 0)})"
)
_BEFORE = f"({_part('r', 'i')} - to_hours(24))"
_EARLIER = (
    f"make_timestamptz(epoch_us({_part('r', 'l')}) - (epoch_us(timezone({_part('r', 'z')}, {_BEFORE})) - epoch_us({_BEFORE})))"
)
_YEAR = _part("p", "y")
_MONTH_DAY = f"{_number('p', 'y', 0)}, {_number('p', 'mo', 1)}, {_number('p', 'd', 1)}"
_DATE_PARTS = f"regexp_extract(spark_trimmed(s), '{DATE_FORM}', ['y', 'mo', 'd'], 's')"
_OFFSET_PARTS = f"regexp_extract(z, '{_OFFSET}', ['sign', 'h', 'm', 's', 'hh', 'mm', 'ss'])"

KINDS = {"date": "a date", "time": "a timestamp", "instant": "a timestamp", "clock": "a TIME such as 10:30:00.123456"}
"""Kind of a time in the names of macros -> its name in errors."""
MACROS = {
    "spark_parts(s)": "regexp_extract(CASE WHEN regexp_matches(s, '^(T[0-9]|[0-9]{1,2}:)') THEN CAST(current_date AS VARCHAR) "
    f"|| 'T' || ltrim(s, 'T') ELSE s END, '{TIMESTAMP_FORM}', ['y', 'mo', 'd', 'h', 'mi', 's', 'f', 'z'], 's')",
    "spark_local(p)": f"CASE WHEN {_YEAR} <> '' THEN TRY(make_timestamp({_MONTH_DAY}, {_number('p', 'h', 0)}, "
    f"{_number('p', 'mi', 0)}, CAST({_number('p', 's', 0)} AS DOUBLE))) "
    f"+ to_microseconds(CAST(rpad(left({_part('p', 'f')}, 6), 6, '0') AS BIGINT)) END",
    "spark_offset(o)": f"CASE WHEN {_SECONDS} <= 64800 "
    f"THEN {_SECONDS} * CASE {_part('o', 'sign')} WHEN '-' THEN -1000000 ELSE 1000000 END END",
    "spark_region(r)": f"CASE WHEN {_part('r', 'i')} IS NULL THEN NULL "
    f"WHEN timezone({_part('r', 'z')}, {_EARLIER}) = {_part('r', 'l')} THEN {_EARLIER} ELSE {_part('r', 'i')} END",
    "spark_in_zone(l, z)": "CASE WHEN z = 'Z' THEN make_timestamptz(epoch_us(l)) "
    f"WHEN regexp_matches(z, '{_OFFSET}') THEN make_timestamptz(epoch_us(l) - spark_offset({_OFFSET_PARTS})) "
    f"WHEN regexp_full_match(z, '{_REGION}') THEN list_transform([{{'l': l, 'z': z, 'i': "
    "TRY_CAST(strftime(l, '%Y-%m-%d %H:%M:%S.%f') || ' ' || z AS TIMESTAMP WITH TIME ZONE)}], lambda r: spark_region(r))[1] END",
    # a part of the struct `b` is cheap to write twice, as the macros do; the expression that made it is not
    "spark_zoned(b)": f"CASE WHEN {_part('b', 'z')} = '' THEN spark_instant({_part('b', 'l')}) "
    f"ELSE spark_in_zone({_part('b', 'l')}, trim({_part('b', 'z')})) END",
    "spark_bound(s)": "list_transform([spark_parts(spark_trimmed(s))], "
    f"lambda p: {{'l': spark_local(p), 'z': {_part('p', 'z')}}})",
    "spark_try_instant_text(s)": "list_transform(spark_bound(s), lambda b: spark_zoned(b))[1]",
    "spark_try_time_text(s)": "CASE WHEN NOT regexp_matches(s, '^\\s*(T[0-9]|[0-9]{1,2}:)') THEN "
    f"list_transform(spark_bound(s), lambda b: CASE WHEN spark_zoned(b) IS NOT NULL THEN {_part('b', 'l')} END)[1] END",
    "spark_try_clock_text(s)": f"CASE WHEN regexp_full_match(spark_trimmed(s), '{_TIME_OF_DAY}') "
    "THEN TRY_CAST(rtrim(spark_trimmed(s), '.') AS TIME) END",
    "spark_try_date_text(s)": f"list_transform([{_DATE_PARTS}], "
    f"lambda p: CASE WHEN {_YEAR} <> '' THEN TRY(make_date({_MONTH_DAY})) END)[1]",
}
"""Head -> body. `spark_instant` is the instant of a local time in the session's zone."""


def checked(kind: str, what: str, cure: str) -> dict[str, str]:
    """The macro of CAST, which raises an error for a text for which the macro of TRY_CAST gives null."""
    return {f"spark_{kind}_text(s)": or_refused(f"spark_try_{kind}_text(s)", "s", f"is not {what}{cure}")}
