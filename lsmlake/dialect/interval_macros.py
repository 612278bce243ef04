"""Macros of DuckDB for intervals. A calendar interval is a struct of months, days and microseconds."""

from __future__ import annotations

from lsmlake.dialect.failures import refused
from lsmlake.dialect.interval_forms import DAY, HOUR, MINUTE, SECOND

_NULL_INSTEAD = "divide by nullif(divisor, 0) to get NULL instead"
_ZERO = refused(f"'division of an INTERVAL by zero; {_NULL_INSTEAD}'")
_NO_NUMBER = refused("'an INTERVAL times or by NaN or infinity; correct the number'")
_NOT_IN_DATE = refused(
    "'an INTERVAL with hours, minutes or seconds is no number of days; add it to a TIMESTAMP: CAST(date AS TIMESTAMP) + interval'"
)
_TOO_LONG = refused("'an INTERVAL of more than 292 years of hours, minutes and seconds cannot be a result; CAST it to STRING'")


def _of(struct: str, name: str) -> str:
    return f"struct_extract({struct}, '{name}')"  # a dot after the name of a parameter would prefer a column of that name


_MONTHS, _DAYS, _MICROS = (_of("a", name) for name in ("months", "days", "microseconds"))
_SHIFTED = f"t + to_months({_MONTHS}) + to_days({_DAYS}) + to_microseconds({_MICROS})"


def _amount(value: str, unit: str) -> str:
    return f"CASE WHEN {value} <> 0 THEN {value} || ' {unit}' END"


def _parts(template: str) -> str:
    """The amounts of a calendar interval, each by a template that has {0} for it in `a`, {1} for it in `b`."""
    sides = [[f"CAST({_of(side, name)} AS HUGEINT)" for side in "ab"] for name in ("months", "days", "microseconds")]
    return ", ".join(template.format(*both) for both in sides)


def _scaled(op: str) -> str:
    """A calendar interval times or by a number: fractions of days are microseconds, those of months are lost."""
    months, days, micros = (f"(CAST({part} AS DOUBLE) {op} n)" for part in (_MONTHS, _DAYS, _MICROS))
    rest = f"floor({micros} + {DAY} * ({days} - trunc({days})) + 0.5)"
    return f"spark_calendar_of(CAST(trunc({months}) AS INTEGER), CAST(trunc({days}) AS INTEGER), CAST({rest} AS BIGINT))"


_REST = f"({_MICROS} % {MINUTE})"
_FRACTION = f"printf('%06d', abs({_REST}) % {SECOND})"
_SECONDS = (
    f"CASE WHEN {_REST} < 0 THEN '-' ELSE '' END || abs({_REST}) // {SECOND} "
    f"|| CASE WHEN {_REST} % {SECOND} = 0 THEN '' ELSE '.' || rtrim({_FRACTION}, '0') END"
)
_AMOUNTS = (
    _amount(f"({_MONTHS} // 12)", "years"),
    _amount(f"({_MONTHS} % 12)", "months"),
    _amount(_DAYS, "days"),
    _amount(f"({_MICROS} // {HOUR})", "hours"),
    _amount(f"({_MICROS} % {HOUR} // {MINUTE})", "minutes"),
    f"CASE WHEN {_REST} <> 0 THEN {_SECONDS} || ' seconds' END",
)
_NUMBER = r"[+-]?\s*(?:\d+(?:\.\d{0,9})?|\.\d{1,9})"
_UNIT = "(?:year|month|week|day|hour|minute|second|millisecond|microsecond)s?"
_TEXT = rf"(\s*(?:[+-]?\s*\d+\s+{_UNIT}|{_NUMBER}\s+seconds?)(\s+|$))+"


def _summed(unit: str, size: int) -> str:
    """The numbers before a unit in a text, times its size."""
    numbers = f"regexp_extract_all(s, '({_NUMBER})\\s+{unit}s?(?:\\s|$)', 1)"
    number = f"CAST(trunc(CAST(replace(regexp_replace(x, '\\s', '', 'g'), '+', '') AS DECIMAL(38,9)) * {size}) AS HUGEINT)"
    return f"coalesce(list_sum(list_transform({numbers}, lambda x: {number})), 0)"


_READ_MONTHS = f"{_summed('year', 12)} + {_summed('month', 1)}"
_READ_DAYS = f"{_summed('week', 7)} + {_summed('day', 1)}"
_READ_MICROS = " + ".join(
    _summed(unit, size)
    for unit, size in (("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("millisecond", 1000), ("microsecond", 1))
)

MACROS = {
    "spark_interval(n, t)": "n",
    "spark_day_time(m)": f"(to_days(CAST(m // {DAY} AS INTEGER)) + to_microseconds(m % {DAY}))",
    # first the days, as in Spark: DuckDB takes the parts of a negative interval the other way round
    "spark_after(t, m)": f"(t + to_days(CAST(m // {DAY} AS INTEGER)) + to_microseconds(m % {DAY}))",
    "spark_interval_product(m, n)": f"CASE WHEN isfinite(m * n) THEN round(m * n) WHEN m * n IS NOT NULL THEN {_NO_NUMBER} END",
    "spark_interval_quotient(m, n)": f"CASE WHEN m IS NULL OR n IS NULL THEN NULL WHEN n = 0 THEN {_ZERO} "
    f"WHEN isnan(n) THEN {_NO_NUMBER} ELSE round(m / n) END",
    "spark_calendar_of(mo, d, u)": "CASE WHEN mo IS NOT NULL AND d IS NOT NULL AND u IS NOT NULL THEN struct_pack(months := "
    "CAST(mo AS INTEGER), days := CAST(d AS INTEGER), microseconds := CAST(u AS BIGINT)) END",
    "spark_calendar_sum(a, b)": f"spark_calendar_of({_parts('{0} + {1}')})",
    "spark_calendar_negative(a)": f"spark_calendar_of({_parts('-{0}')})",
    "spark_calendar_product(a, n)": _scaled("*"),
    "spark_calendar_quotient(a, n)": f"CASE WHEN n = 0 THEN {_ZERO} ELSE {_scaled('/')} END",
    "spark_calendar_time(t, a)": _SHIFTED,
    "spark_calendar_date(t, a)": f"CASE WHEN {_MICROS} <> 0 THEN {_NOT_IN_DATE} ELSE CAST({_SHIFTED} AS DATE) END",
    "spark_calendar_text(a)": f"CASE WHEN a IS NOT NULL THEN coalesce(nullif(concat_ws(' ', {', '.join(_AMOUNTS)}), ''), "
    "'0 seconds') END",
    "spark_calendar_result(a)": f"CASE WHEN abs(CAST({_MICROS} AS HUGEINT)) > 9223372036854775 THEN {_TOO_LONG} "
    f"ELSE to_months({_MONTHS}) + to_days({_DAYS}) + to_microseconds({_MICROS}) END",
    "spark_calendar_read(s)": f"CASE WHEN regexp_full_match(s, '{_TEXT}') "
    f"THEN TRY(spark_calendar_of({_READ_MONTHS}, {_READ_DAYS}, {_READ_MICROS})) END",
    "spark_calendar(s)": "spark_calendar_read(regexp_replace(lower(spark_trimmed(s)), '^interval\\s', ''))",
}
"""Head -> body."""
