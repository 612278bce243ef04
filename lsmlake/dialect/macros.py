"""Functions of Spark that DuckDB lacks or computes differently, as macros of a DuckDB connection, and connections that have
them.

A value that Spark refuses in ANSI mode raises an error here, too. `refused` is the beginning of such a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lsmlake.dialect import encodings, interval_macros, json_macros, number_text, numbers, time_text, vectors
from lsmlake.dialect.connection import Database, PatientConnection, opened
from lsmlake.dialect.failures import REFUSE

_SPACES = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
_NUMBER_TEXT = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_CURE = "; use try_cast to get NULL instead"


def _checked(value: str, pattern: str, what: str) -> str:
    return (
        f"CASE WHEN {value} IS NULL THEN NULL WHEN regexp_full_match({value}, '{pattern}') THEN {value} "
        f"ELSE spark_refuse('''' || {value} || ''' is not {what}{_CURE}') END"
    )


_ROUNDED = "sign(n) * sign(d) * (abs(n) // abs(d) + CASE WHEN abs(n) % abs(d) >= abs(d) - abs(n) % abs(d) THEN 1 ELSE 0 END)"


def _month_number(day: str) -> str:
    return f"((year({day}) * 12 + month({day})) * 32 + day({day}))"


_DAYS_LEFT = (
    "CASE WHEN CAST(b AS DATE) > CAST(a AS DATE) AND CAST(b AS TIME) < CAST(a AS TIME) THEN -1 "
    "WHEN CAST(b AS DATE) < CAST(a AS DATE) AND CAST(b AS TIME) > CAST(a AS TIME) THEN 1 ELSE 0 END"
)
"""-1, 0 or 1: the days to add to the date of b, so that a day between a and b that is not whole does not count."""

MACROS = {
    "spark_divide(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN spark_refuse('division by zero; "
    "divide by nullif(divisor, 0) to get NULL instead') ELSE a / b END",
    "spark_div(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN spark_refuse('division by zero; "
    "divide by nullif(divisor, 0) to get NULL instead') ELSE a // b END",
    "spark_mod(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN spark_refuse('remainder by zero; "
    "use nullif(divisor, 0) to get NULL instead') ELSE a % b END",
    "spark_whole_mod(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN spark_refuse('remainder by zero; "
    "use nullif(divisor, 0) to get NULL instead') WHEN b = -1 THEN a - a ELSE a % b END",  # DuckDB divides the least integer
    # as in Java: 2 ** 63 counts as the greatest BIGINT
    "spark_long(x)": "CASE WHEN x = 9223372036854775808 THEN 9223372036854775807 ELSE CAST(trunc(x) AS BIGINT) END",
    "spark_try_long(x)": "CASE WHEN x = 9223372036854775808 THEN 9223372036854775807 ELSE TRY_CAST(trunc(x) AS BIGINT) END",
    "spark_try_moment(s)": "CASE WHEN isfinite(s) THEN make_timestamptz(TRY_CAST(trunc(s * 1000000) AS BIGINT)) END",
    "spark_moment(s)": "CASE WHEN s IS NULL THEN NULL WHEN isfinite(s) THEN make_timestamptz(CAST(trunc(s * 1000000) AS BIGINT)) "
    "ELSE spark_refuse(s || ' is no number of seconds; use try_cast to get NULL instead') END",
    "spark_make_timestamp(y, mo, d, h, mi, s)": "CASE WHEN h NOT BETWEEN 0 AND 23 OR mi NOT BETWEEN 0 AND 59 "
    "OR NOT (s >= 0 AND s <= 60) THEN spark_refuse('there is no time of day ' || h || ':' || mi || ':' || s || '; correct it') "
    "ELSE spark_instant(make_timestamp(CAST(y AS BIGINT), CAST(mo AS BIGINT), CAST(d AS BIGINT), CAST(h AS BIGINT), "
    "CAST(mi AS BIGINT), s)) END",
    "spark_quotient(n, d)": "CASE WHEN n IS NULL OR d IS NULL THEN NULL WHEN d = 0 THEN spark_refuse('division by zero; "
    f"divide by nullif(divisor, 0) to get NULL instead') ELSE {_ROUNDED} END",
    # for a divisor that is not 0: DuckDB joins a correlated subquery row by row if an expression in it may raise an error()
    "spark_whole_quotient(n, d)": _ROUNDED,
    "spark_trimmed(s)": f"trim(s, {_SPACES})",
    "spark_integer_text(s)": f"ltrim({_checked('trim(s, ' + _SPACES + ')', '[+-]?[0-9]+', 'an integer')}, '+')",
    "spark_number_text(s)": "regexp_replace("
    + _checked("trim(s, " + _SPACES + ")", _NUMBER_TEXT + "[dDfF]?|(?i:nan|[+-]?inf(inity)?)", "a number")
    + r", '([0-9.])[dDfF]$', '\1')",
    "spark_decimal_text(s)": _checked("trim(s, " + _SPACES + ")", _NUMBER_TEXT, "a number"),
    "spark_boolean(s)": "CASE WHEN s IS NULL THEN NULL WHEN lower(trim(s, " + _SPACES + ")) IN ('t', 'true', 'y', 'yes', '1') "
    "THEN true WHEN lower(trim(s, " + _SPACES + ")) IN ('f', 'false', 'n', 'no', '0') THEN false "
    f"ELSE spark_refuse('''' || s || ''' is not a boolean{_CURE}') END",
    "spark_substring(s, p, n)": "CASE WHEN s IS NULL OR p IS NULL OR n IS NULL THEN NULL WHEN n <= 0 THEN '' "
    "WHEN p > 0 THEN substr(s, p, n) WHEN p = 0 THEN substr(s, 1, n) "
    "WHEN -p <= length(s) THEN substr(s, length(s) + p + 1, n) "
    "WHEN n + p + length(s) <= 0 THEN '' ELSE substr(s, 1, n + p + length(s)) END",
    "spark_element(a, i)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i < 0 OR i >= len(a) "
    "THEN spark_refuse('the index ' || i || ' is outside of an array of ' || len(a) || ' elements; get() gives NULL instead') "
    "ELSE a[i + 1] END",
    "spark_initcap(s)": "CASE WHEN s IS NOT NULL THEN array_to_string(list_transform(string_split(lower(s), ' '), "
    "lambda w: upper(left(w, 1)) || substr(w, 2)), ' ') END",
    "spark_substring_index(s, d, n)": "CASE WHEN s IS NULL OR d IS NULL OR n IS NULL THEN NULL WHEN d = '' OR n = 0 THEN '' "
    "WHEN n > 0 THEN array_to_string(list_slice(string_split(s, d), 1, n), d) "
    "ELSE array_to_string(list_slice(string_split(s, d), greatest(1, len(string_split(s, d)) + n + 1), "
    "len(string_split(s, d))), d) END",
    "spark_split_part(s, d, n)": "CASE WHEN s IS NULL OR d IS NULL OR n IS NULL THEN NULL WHEN n = 0 "
    "THEN spark_refuse('the index 0 of split_part is invalid; parts are counted from 1') WHEN d = '' AND n IN (1, -1) THEN s "
    "WHEN d = '' THEN '' ELSE split_part(s, d, n) END",
    "spark_chr(n)": "CASE WHEN n IS NULL THEN NULL WHEN n < 0 THEN '' ELSE chr(CAST(n & 255 AS INTEGER)) END",
    "spark_shift_left_long(a, n)": "CAST(((CAST(a AS HUGEINT) & (CAST(pow(2, 64 - (n & 63)) AS HUGEINT) - 1)) "
    "* CAST(pow(2, n & 63) AS HUGEINT) + 9223372036854775808) % 18446744073709551616 - 9223372036854775808 AS BIGINT)",
    "spark_shift_left(a, n)": "CAST(CAST((CAST(a AS HUGEINT) * CAST(pow(2, n & 31) AS HUGEINT) + 2147483648) % 4294967296 "
    "+ CASE WHEN (CAST(a AS HUGEINT) * CAST(pow(2, n & 31) AS HUGEINT) + 2147483648) % 4294967296 < 0 THEN 4294967296 ELSE 0 END "
    "- 2147483648 AS BIGINT) AS INTEGER)",
    "spark_months_between(a, b)": "CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN day(a) = day(b) OR (CAST(a AS DATE) = last_day(CAST(a AS DATE)) AND CAST(b AS DATE) = last_day(CAST(b AS DATE))) "
    "THEN CAST((year(a) - year(b)) * 12 + month(a) - month(b) AS DOUBLE) "
    "ELSE (year(a) - year(b)) * 12 + month(a) - month(b) + ((day(a) - day(b)) * 86400 + "
    "(epoch_us(a) - epoch_us(date_trunc('day', a))) // 1000000 - (epoch_us(b) - epoch_us(date_trunc('day', b))) // 1000000) "
    "/ CAST(2678400 AS DOUBLE) END",
    "spark_floor_div(a, n)": "(a - ((a % n) + n) % n) // n",
    "spark_months(a, b)": f"({_month_number('CAST(b AS DATE) + CAST(' + _DAYS_LEFT + ' AS INTEGER)')} "
    f"- {_month_number('CAST(a AS DATE)')}) // 32",
    "spark_luhn_digit(d)": "d // 10 + d % 10",
    "spark_luhn_check(s)": "CASE WHEN regexp_full_match(s, '[0-9]+') THEN list_sum(list_transform(string_split(reverse(s), ''), "
    "lambda c, i: spark_luhn_digit(CAST(c AS INTEGER) * (2 - i % 2)))) % 10 = 0 WHEN s IS NOT NULL THEN false END",
    "spark_mask(s, u, l, d, o)": "CASE WHEN s = '' THEN s ELSE array_to_string(list_transform(string_split(s, ''), lambda c: "
    r"CASE WHEN regexp_matches(c, '\p{Lu}') THEN coalesce(u, c) WHEN regexp_matches(c, '\p{Ll}') THEN coalesce(l, c) "
    r"WHEN regexp_matches(c, '\p{Nd}') THEN coalesce(d, c) ELSE coalesce(o, c) END), '') END",
    "spark_getbit(a, i, n)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i < 0 OR i >= n THEN "
    "spark_refuse('the bit ' || i || ' is outside of a number of ' || n || ' bits; bits are counted from 0') "
    "ELSE CAST((a >> i) & 1 AS TINYINT) END",
    # the parts p of s, with b between them, but at most n: the last one is the rest of s
    "spark_limited(s, p, b, n)": "CASE WHEN s IS NULL THEN NULL WHEN len(p) <= n THEN p "
    "ELSE list_append(p[1:n - 1], substr(s, 1 + length(array_to_string(list_concat(p[1:n - 1], b[1:n - 1]), '')))) END",
    # i counts from 1, or from -1 behind the last element; nulls fill the gap to it
    "spark_array_insert(a, i, x)": "CASE WHEN a IS NULL OR i IS NULL THEN NULL WHEN i = 0 THEN "
    "spark_refuse('the index 0 of array_insert is invalid; elements are counted from 1') "
    "WHEN i > 0 THEN list_concat(list_append(list_resize(list_slice(a, 1, i - 1), i - 1), x), list_slice(a, i, len(a))) "
    "WHEN -i <= len(a) + 1 THEN "
    "list_concat(list_append(list_slice(a, 1, len(a) + i + 1), x), list_slice(a, len(a) + i + 2, len(a))) "
    "ELSE list_concat(list_resize([x], -i - len(a)), a) END",
    # the rounding of 1 + x is taken out again
    "spark_log1p(x)": "CASE WHEN NOT isfinite(x) OR 1 + x = 1 THEN x WHEN x = -1 THEN CAST('-Infinity' AS DOUBLE) "
    "ELSE ln(1 + x) * (x / ((1 + x) - 1)) END",
    "spark_cbrt(x)": "CASE WHEN x = 0 OR NOT isfinite(x) THEN x ELSE cbrt(x) - (cbrt(x) - x / (cbrt(x) * cbrt(x))) / 3 END",
    "spark_expm1(x)": "CASE WHEN NOT isfinite(exp(x)) OR abs(x) > 1 THEN exp(x) - 1 WHEN exp(x) = 1 THEN x "
    "ELSE (exp(x) - 1) * x / ln(exp(x)) END",
    "spark_width_bucket(v, a, b, n)": "CASE WHEN isnan(v) OR NOT isfinite(a) OR NOT isfinite(b) OR a = b OR n <= 0 "
    "OR n = 9223372036854775807 THEN NULL WHEN (a < b AND v < a) OR (a > b AND v > a) THEN 0 "
    "WHEN (a < b AND v >= b) OR (a > b AND v <= b) THEN n + 1 "
    "WHEN a < b THEN CAST(trunc(n * (v - a) / (b - a)) AS BIGINT) + 1 ELSE CAST(trunc(n * (a - v) / (a - b)) AS BIGINT) + 1 END",
}
"""Head -> body."""


_ERROR = re.compile(r"ELSE spark_refuse\(.*\) END")
TRYING = {
    head.replace("spark_", "spark_try_"): _ERROR.sub("END", body)
    for head, body in MACROS.items()
    if head.startswith(("spark_boolean", "spark_integer", "spark_number", "spark_decimal"))
}
"""The conversions of text for try_cast: null instead of an error."""


_INSTANT = "CAST({0} AS TIMESTAMP WITH TIME ZONE)"
_DAY_BEFORE = f"({_INSTANT} - to_hours(24))"
_EARLIER = f"make_timestamptz(epoch_us({{0}}) - epoch_us(CAST({_DAY_BEFORE} AS TIMESTAMP)) + epoch_us({_DAY_BEFORE}))"
"""The instant of a local time, by the offset from UTC of the day before. If clocks were set back, so that the local time occurs
twice, this is the earlier instant."""
_LOCAL_INSTANT = f"CASE WHEN CAST({_EARLIER} AS TIMESTAMP) = {{0}} THEN {_EARLIER} ELSE {_INSTANT} END"
_TRUNCATED = "CAST(t AS TIMESTAMP)) - epoch_us(date_trunc(u, CAST(t AS TIMESTAMP)))"
ZONED = {
    "spark_instant(l)": (_INSTANT.format("l"), _LOCAL_INSTANT.format("l")),
    "spark_time_trunc(u, t)": ("date_trunc(u, t)", f"make_timestamptz(epoch_us(t) - (epoch_us({_TRUNCATED}))"),
}
"""Head -> body in UTC, and in zones whose clocks may be set: a local time that comes twice is the earlier instant, as in Java."""


_TIMES = {head: body for kind, what in time_text.KINDS.items() for head, body in time_text.checked(kind, what, _CURE).items()}
"""The conversions of text to times for cast."""


def macros(zone: str) -> dict[str, str]:
    """Head -> body of every macro, for the time zone of a session. A macro comes after those that it calls."""
    zoned = {head: in_utc if zone == "UTC" else local for head, (in_utc, local) in ZONED.items()}
    own = (number_text, numbers, encodings, interval_macros, json_macros, vectors, time_text)
    made = {head: body for module in own for head, body in module.MACROS.items()}
    return {**dict([REFUSE]), **zoned, **MACROS, **made, **TRYING, **_TIMES}


def called(among: Mapping[str, str], sql: str | None) -> dict[str, str]:
    """The macros that a statement calls, and those that they call; all of them without a statement."""
    if sql is None:
        return dict(among)
    needed: dict[str, str] = {}
    texts = [sql]
    while texts:
        text = texts.pop()
        new = {head: body for head, body in among.items() if head not in needed and head.partition("(")[0] in text}
        needed |= new
        texts += new.values()
    return {head: body for head, body in among.items() if head in needed}


# -- connections ------------------------------------------------------------------------------------------------------


@contextmanager
def spark_connected(zone: str, what: str = "SQL", sql: str | None = None) -> Iterator[PatientConnection]:
    """As `connected`, with the functions of Spark. Macros must be made `TEMP`, too.

    Args:
        zone: the time zone of the session.
        what: the feature that needs DuckDB, for the error message.
        sql: the only statement that will use functions of Spark. Default: all functions are made.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    with opened(zone, what, lambda database: _macros(database, zone, sql)) as connection:
        yield connection


def _macros(database: Database, zone: str, sql: str | None) -> Iterator[str]:
    """Statements that make the macros that `sql` calls: for UTC they stay in the database, those for another zone go with the
    connection."""
    for head, body in called(macros("UTC"), sql).items():
        if head not in database.made:
            yield f"CREATE MACRO {head} AS {body}"
            database.made.add(head)
    if zone != "UTC":
        for head, body in called(macros(zone), sql).items():
            if head in ZONED:
                yield f"CREATE TEMP MACRO {head} AS {body}"
