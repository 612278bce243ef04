"""Spark's casts (ANSI mode) from and to intervals, in DuckDB."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.dialect.failures import or_refused
from lsmlake.dialect.interval_forms import LARGEST, pattern
from lsmlake.dialect.types import STRING, duck_name, text
from lsmlake.types.intervals import CALENDAR, SIZES, Interval, is_interval

_HUGE_DIGITS, _SIZE_DIGITS = 38, {"DAY": 11, "HOUR": 10, "MINUTE": 8, "SECOND": 7, "YEAR": 2, "MONTH": 1}


def of_kind(sql: str, kind: Interval) -> str:
    """The expression, with its type in the text: expressions of different types have different texts."""
    return f"spark_interval({sql}, '{str(kind).removeprefix('INTERVAL').lstrip()}')"


def cast(sql: str, found: pa.DataType, wanted: pa.DataType, safe: bool) -> str | None:
    """`CAST(sql AS wanted)` if one of the types is an INTERVAL, or with `safe` TRY_CAST; None if Spark refuses it."""
    if found == CALENDAR:
        return f"spark_calendar_text({sql})" if wanted == STRING else None
    if is_interval(wanted):
        made = _to_interval(sql, found, wanted, safe)
        return None if made is None else of_kind(made, wanted)
    if wanted == STRING:
        return _text(sql, found)
    return _number(sql, found, wanted, "TRY_CAST" if safe else "CAST")


def _to_interval(sql: str, found: pa.DataType, wanted: Interval, safe: bool) -> str | None:
    t, word = pa.types, "TRY_CAST" if safe else "CAST"
    name, size = duck_name(wanted), SIZES.get(wanted.last, 1)
    if wanted == CALENDAR:
        return f"spark_calendar({sql})" if t.is_string(found) else None
    if t.is_string(found):
        tried = _parsed(sql, wanted)
        return tried if safe else or_refused(tried, sql, f"is not an {wanted}; use try_cast to get NULL instead")
    if is_interval(found):
        if found.storage_type != wanted.storage_type:
            return None
        cut = size > SIZES[found.last]
        return f"list_transform([{sql}], lambda v: v - v % {size})[1]" if cut else sql
    if t.is_integer(found):
        return f"{word}(CAST({sql} AS HUGEINT) * {size} AS {name})"
    if t.is_decimal(found) and found.precision + _SIZE_DIGITS[wanted.last] <= _HUGE_DIGITS:
        digits = _SIZE_DIGITS[wanted.last]
        product = f"CAST({sql} AS DECIMAL({_HUGE_DIGITS - digits},{found.scale})) * CAST({size} AS DECIMAL({digits},0))"
        return f"{word}({word}({product} AS DECIMAL(38,0)) AS {name})"
    return None


def _parsed(sql: str, kind: Interval) -> str:
    """A text as an interval, by the pattern of its type; null if it has another form."""
    form, names = pattern(kind)
    groups = ", ".join(text(name) for name in names)

    def group(name: str) -> str:
        return f"(struct_extract(p, '{name}1') || struct_extract(p, '{name}2'))"  # the text has one of the forms

    numbers = {field: f"TRY_CAST({group(field)} AS HUGEINT)" for field in kind.fields}
    total = " + ".join(f"{number} * {SIZES[field]}" for field, number in numbers.items())
    if kind.last == "SECOND":
        total += f" + CAST(rpad(substr({group('fraction')}, 2, 6), 6, '0') AS HUGEINT)"
    inner = [f"{numbers[field]} <= {LARGEST[field]}" for field in kind.fields[1:]]
    minus = "(struct_extract(p, 'a') = '-') <> (struct_extract(p, 'b') = '-' OR struct_extract(p, 'c') = '-')"
    made = f"CASE WHEN {' AND '.join([*inner, 'true'])} THEN CASE WHEN {minus} THEN -1 ELSE 1 END * ({total}) END"
    found = f"regexp_extract(spark_trimmed({sql}), {text(form)}, [{groups}])"
    return f"list_transform([{found}], lambda p: TRY_CAST({made} AS {duck_name(kind)}))[1]"


def _text(sql: str, kind: Interval) -> str:
    """As Spark writes an interval: INTERVAL '1 02:03:04.5' DAY TO SECOND."""
    if kind.is_months:
        years, rest = "CAST(abs(CAST(v AS BIGINT)) // 12 AS VARCHAR)", "CAST(abs(CAST(v AS BIGINT)) % 12 AS VARCHAR)"
        shown = {"YEAR": years, "MONTH": "CAST(abs(CAST(v AS BIGINT)) AS VARCHAR)"}.get(kind.first * (kind.first == kind.last))
        shown = shown or f"{years} || '-' || {rest}"
    else:
        parts, size = [], "abs(CAST(v AS HUGEINT))"
        for place, field in enumerate(kind.fields):
            number = size if not place else f"{size} % {SIZES[kind.fields[place - 1]]}"
            amount = f"CAST(({number}) // {SIZES[field]} AS BIGINT)"
            parts.append(f"CAST({amount} AS VARCHAR)" if field == "DAY" else f"printf('%02d', {amount})")
        shown = parts[0]
        for field, part in zip(kind.fields[1:], parts[1:], strict=True):
            shown += f" || {text(' ' if field == 'HOUR' else ':')} || {part}"
        if kind.last == "SECOND":
            rest = f"CAST({size} % {SIZES['SECOND']} AS BIGINT)"
            shown += f" || CASE WHEN {rest} = 0 THEN '' ELSE '.' || rtrim(printf('%06d', {rest}), '0') END"
    sign = "CASE WHEN v < 0 THEN '-' ELSE '' END"
    behind = text(f"' {str(kind).removeprefix('INTERVAL ')}")
    return f"list_transform([{sql}], lambda v: 'INTERVAL ''' || {sign} || {shown} || {behind})[1]"


def _number(sql: str, found: Interval, wanted: pa.DataType, word: str) -> str | None:
    """The number of the last field: its fraction is left out, but that of seconds stays in a decimal."""
    t, size = pa.types, SIZES[found.last]
    if t.is_integer(wanted):
        return f"{word}(({sql}) // {size} AS {duck_name(wanted)})"
    if not t.is_decimal(wanted):
        return None
    if found.last == "SECOND":
        return f"{word}(CAST({sql} AS DECIMAL(19,0)) * CAST('0.000001' AS DECIMAL(7,6)) AS {duck_name(wanted)})"
    return f"{word}(({sql}) // {size} AS {duck_name(wanted)})"
