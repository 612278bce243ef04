"""Functions of Spark that DuckDB lacks or computes differently, as macros of a DuckDB connection.

A value that Spark refuses in ANSI mode raises an error here, too. `refused` is the beginning of such a message.
"""

from __future__ import annotations

import re

_SPACES = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
_DATE_TEXT = r"\d{4}(-\d{1,2}(-\d{1,2}([ T].*)?)?)?"
_TIME_TEXT = r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{0,6})?)?)?"
_NUMBER_TEXT = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_CURE = "; use try_cast to get NULL instead"


def _checked(value: str, pattern: str, what: str) -> str:
    return (
        f"CASE WHEN {value} IS NULL THEN NULL WHEN regexp_full_match({value}, '{pattern}') THEN {value} "
        f"ELSE error('''' || {value} || ''' is not {what}{_CURE}') END"
    )


_ROUNDED = "sign(n) * sign(d) * (abs(n) // abs(d) + CASE WHEN abs(n) % abs(d) >= abs(d) - abs(n) % abs(d) THEN 1 ELSE 0 END)"

MACROS = {
    "spark_divide(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN error('division by zero; "
    "divide by nullif(divisor, 0) to get NULL instead') ELSE a / b END",
    "spark_div(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN error('division by zero; "
    "divide by nullif(divisor, 0) to get NULL instead') ELSE a // b END",
    "spark_mod(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN error('remainder by zero; "
    "use nullif(divisor, 0) to get NULL instead') ELSE a % b END",
    "spark_quotient(n, d)": "CASE WHEN n IS NULL OR d IS NULL THEN NULL WHEN d = 0 THEN error('division by zero; "
    f"divide by nullif(divisor, 0) to get NULL instead') ELSE {_ROUNDED} END",
    # an expression that may raise an error() makes DuckDB join a correlated subquery row by row: none where the divisor is not 0
    "spark_whole_quotient(n, d)": _ROUNDED,
    "spark_trimmed(s)": f"trim(s, {_SPACES})",
    "spark_integer_text(s)": f"ltrim({_checked('trim(s, ' + _SPACES + ')', '[+-]?[0-9]+', 'an integer')}, '+')",
    "spark_number_text(s)": _checked("trim(s, " + _SPACES + ")", _NUMBER_TEXT + "|NaN|[+-]?Infinity", "a number"),
    "spark_decimal_text(s)": _checked("trim(s, " + _SPACES + ")", _NUMBER_TEXT, "a number"),
    "spark_date_text(s)": "regexp_extract(" + _checked("trim(s, " + _SPACES + ")", _DATE_TEXT, "a date") + r", '^[^ T]*')",
    "spark_whole_date(s)": "CASE length(s) - length(replace(s, '-', '')) WHEN 0 THEN s || '-01-01' WHEN 1 THEN s || '-01' "
    "ELSE s END",
    "spark_time_text(s)": _checked("trim(s, " + _SPACES + ")", _TIME_TEXT, "a timestamp"),
    "spark_zoned_text(s)": _checked("trim(s, " + _SPACES + ")", _TIME_TEXT + r"(Z|[+-]\d{2}:\d{2})?", "a timestamp"),
    "spark_boolean(s)": "CASE WHEN s IS NULL THEN NULL WHEN lower(trim(s, " + _SPACES + ")) IN ('t', 'true', 'y', 'yes', '1') "
    "THEN true WHEN lower(trim(s, " + _SPACES + ")) IN ('f', 'false', 'n', 'no', '0') THEN false "
    f"ELSE error('''' || s || ''' is not a boolean{_CURE}') END",
    "spark_substring(s, p, n)": "CASE WHEN s IS NULL OR p IS NULL OR n IS NULL THEN NULL WHEN n <= 0 THEN '' "
    "WHEN p > 0 THEN substr(s, p, n) WHEN p = 0 THEN substr(s, 1, n) "
    "WHEN -p <= length(s) THEN substr(s, length(s) + p + 1, n) "
    "WHEN n + p + length(s) <= 0 THEN '' ELSE substr(s, 1, n + p + length(s)) END",
    "spark_element(a, i)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i < 0 OR i >= len(a) "
    "THEN error('the index ' || i || ' is outside of an array of ' || len(a) || ' elements; use get() to get NULL instead') "
    "ELSE a[i + 1] END",
    "spark_round(x, n)": "CASE WHEN x IS NULL OR isnan(x) OR abs(x) >= 1e17 THEN x "
    "ELSE CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38,20)), n) AS DOUBLE) END",
}
"""Head -> body."""


_ERROR = re.compile(r"ELSE error\(.*\) END")
TRYING = {
    head.replace("spark_", "spark_try_"): _ERROR.sub("END", body)
    for head, body in MACROS.items()
    if head.startswith(
        ("spark_boolean", "spark_integer", "spark_number", "spark_decimal", "spark_date", "spark_time", "spark_zoned")
    )
}
"""The conversions of text for try_cast: null instead of an error."""


def create_macros(sql: str | None = None) -> str:
    """The statements that create all macros, or those that `sql` calls."""
    return "; ".join(
        f"CREATE OR REPLACE TEMP MACRO {head} AS {body}"
        for head, body in {**MACROS, **TRYING}.items()
        if sql is None or head.partition("(")[0] in sql
    )
