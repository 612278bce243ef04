"""The texts of intervals, by the rules of literals and of CAST in Spark: their patterns, and their values as numbers.

    units("3 days -2 hours")                # Amounts(months=0, days=3, microseconds=-7200000000), {"DAY", "HOUR"}
    value("1 2:3:4.5", DAY_TIME)            # 93784500000: the text between the quotes of INTERVAL '...' DAY TO SECOND

The same patterns make the SQL of CAST, from and to intervals. Neighbour: `interval_functions` types literals.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

from lsmlake.dialect.failures import or_refused
from lsmlake.dialect.sql_types import STRING, duck_name, text
from lsmlake.types.intervals import CALENDAR, MICROSECONDS, MONTHS, SIZES, Interval, is_interval

DAY, HOUR, MINUTE, SECOND = (SIZES[field] for field in MICROSECONDS)
LARGEST = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}
"""The largest number of a field that stands behind another field."""
_DIGITS = {"YEAR": "+", "MONTH": "+", "DAY": "{1,9}", "HOUR": "{1,10}", "MINUTE": "{1,12}", "SECOND": "{1,13}"}
_BEFORE = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}
_SPACE, _SIGN = r"[ \t\n\x0b\f\r]", "([+|-])?"
_INT64, _INT32 = 2**63, 2**31
_TRIMMED = "".join(map(chr, range(33))) + "\x7f"
_UNITS = {
    "year": ("months", 12), "month": ("months", 1), "week": ("days", 7), "day": ("days", 1), "hour": ("microseconds", HOUR),
    "minute": ("microseconds", MINUTE), "second": ("microseconds", SECOND), "millisecond": ("microseconds", 1000),
    "microsecond": ("microseconds", 1),
}  # fmt: skip
_FIELDS = {"week": "DAY", "millisecond": "SECOND", "microsecond": "SECOND"}
_PART = re.compile(rf"{_SPACE}*([+-]?){_SPACE}*(\d*)(?:(\.)(\d{{0,9}}))?{_SPACE}+({'|'.join(_UNITS)})s?(?={_SPACE}|$)", re.ASCII)
_PREFIX = re.compile(rf"interval{_SPACE}", re.ASCII)


class Amounts(NamedTuple):
    """A calendar interval."""

    months: int
    days: int
    microseconds: int


def core(kind: Interval) -> tuple[str, list[str]]:
    """The pattern of the numbers in a text of a type, and the names of its groups: the fields, and `fraction` for `.5`."""
    pattern, names = "", list(kind.fields)
    for place, field in enumerate(names):
        digits = "{1,2}" if place and field != "MONTH" else _DIGITS[field]
        pattern += (_BEFORE[field] if place else "") + rf"(\d{digits})"
    return (pattern + r"(\.\d{1,9})?", [*names, "fraction"]) if kind.last == "SECOND" else (pattern, names)


def pattern(kind: Interval) -> tuple[str, list[str]]:
    """The pattern of a text that CAST takes, `1 2` or `INTERVAL '1 2' DAY TO HOUR`, and the names of its groups: `a`, `b` and `c`
    of the signs, and those of `core` with 1 or 2 behind them."""
    numbers, names = core(kind)
    words = f"{_SPACE}+".join(str(kind).split(" ")[1:])
    text = f"(?i)^(?:INTERVAL{_SPACE}+{_SIGN}'{_SIGN}{numbers}'{_SPACE}+{words}|{_SIGN}{numbers})$"
    return text, ["a", "b", *(f"{name}1" for name in names), "c", *(f"{name}2" for name in names)]


def trimmed(text: str) -> str:
    """The text without blanks and control characters around it."""
    return text.strip(_TRIMMED)


def value(text: str, kind: Interval) -> int:
    """The number of months or microseconds that a text such as `1 2:3:4.5` stands for. Raises ValueError."""
    numbers, names = core(kind)
    match = re.fullmatch(f"{_SIGN}{numbers}", trimmed(text), re.ASCII)
    if match is None:
        raise ValueError(f"the text does not have the form of {kind}")
    total = 0
    for place, (field, digits) in enumerate(zip(names, match.groups()[1:], strict=True)):
        if field == "fraction":
            total += int((digits or ".0")[1:].ljust(6, "0")[:6])
        elif place and int(digits) > LARGEST[field]:
            raise ValueError(f"the {field} is more than {LARGEST[field]}")
        else:
            total += int(digits) * SIZES[field]
    return within(-total if match[1] == "-" else total, _INT32 if kind.is_months else _INT64)


def within(number: int, limit: int) -> int:
    """The number, if it is within a limit, that of 32 or 64 bits. Raises ValueError."""
    if not -limit <= number < limit:
        raise ValueError("the interval is out of range")
    return number


def units(text: str) -> tuple[Amounts, frozenset[str]]:
    """The amounts of a text such as `1 day -2 hours`, and their fields. Raises ValueError."""
    rest = trimmed(text).lower()
    rest = rest[len("interval") :] if _PREFIX.match(rest) else rest
    sums, fields, place = {"months": 0, "days": 0, "microseconds": 0}, set(), 0
    while place < len(rest) or not fields:
        match = _PART.match(rest, place)
        if match is None or not (match[2] or match[4]):
            raise ValueError("expected numbers, each with a unit of time")
        unit, scale = _UNITS[match[5]]
        if match[3] and match[5] != "second":
            raise ValueError(f"the number of {match[5].upper()} has a fraction")
        amount = within(int(match[2] or 0), _INT64) * scale + int((match[4] or "").ljust(6, "0")[:6] or 0)
        limit = _INT64 if unit == "microseconds" else _INT32
        sums[unit] = within(sums[unit] + (-amount if match[1] == "-" else amount), limit)
        fields.add(_FIELDS.get(match[5], match[5].upper()))
        place = match.end()
    return Amounts(**sums), frozenset(fields)


def typed(amounts: Amounts, fields: frozenset[str]) -> tuple[Interval, int]:
    """The type of a literal with these fields, and its number of months or microseconds. Raises ValueError."""
    months = [field for field in MONTHS if field in fields]
    times = [field for field in SIZES if field in fields and field not in MONTHS]
    if months and times:
        raise ValueError("YEAR and MONTH do not stand beside DAY, HOUR, MINUTE and SECOND")
    if months:
        return Interval.of(months[0], months[-1]), amounts.months
    return Interval.of(times[0], times[-1]), within(amounts.days * DAY + amounts.microseconds, _INT64)


_HUGE_DIGITS, _SIZE_DIGITS = 38, {"DAY": 11, "HOUR": 10, "MINUTE": 8, "SECOND": 7, "YEAR": 2, "MONTH": 1}


def of_kind(sql: str, kind: Interval) -> str:
    """The expression, with its type in the text: expressions of different types have different texts."""
    return f"spark_interval({sql}, '{str(kind).removeprefix('INTERVAL').lstrip()}')"


def cast(sql: str, kind: pa.DataType, wanted: pa.DataType, safe: bool) -> str | None:
    """`CAST(sql AS wanted)` if one of the types is an INTERVAL, or with `safe` TRY_CAST; None if Spark refuses it."""
    if kind == CALENDAR:
        return f"spark_calendar_text({sql})" if wanted == STRING else None
    if is_interval(wanted):
        made = _to_interval(sql, kind, wanted, safe)
        return None if made is None else of_kind(made, wanted)
    if wanted == STRING:
        return _text(sql, kind)
    return _number(sql, kind, wanted, "TRY_CAST" if safe else "CAST")


def _to_interval(sql: str, kind: pa.DataType, wanted: Interval, safe: bool) -> str | None:
    t, word = pa.types, "TRY_CAST" if safe else "CAST"
    name, size = duck_name(wanted), SIZES.get(wanted.last, 1)
    if wanted == CALENDAR:
        return f"spark_calendar({sql})" if t.is_string(kind) else None
    if t.is_string(kind):
        tried = _parsed(sql, wanted)
        return tried if safe else or_refused(tried, sql, f"is not an {wanted}; use try_cast to get NULL instead")
    if is_interval(kind):
        if kind.storage_type != wanted.storage_type:
            return None
        cut = size > SIZES[kind.last]
        return f"list_transform([{sql}], lambda v: v - v % {size})[1]" if cut else sql
    if t.is_integer(kind):
        return f"{word}(CAST({sql} AS HUGEINT) * {size} AS {name})"
    if t.is_decimal(kind) and kind.precision + _SIZE_DIGITS[wanted.last] <= _HUGE_DIGITS:
        digits = _SIZE_DIGITS[wanted.last]
        product = f"CAST({sql} AS DECIMAL({_HUGE_DIGITS - digits},{kind.scale})) * CAST({size} AS DECIMAL({digits},0))"
        return f"{word}({word}({product} AS DECIMAL(38,0)) AS {name})"
    return None


def _parsed(sql: str, kind: Interval) -> str:
    """A text as an interval, by the pattern of its type; null if it has another form."""
    form, names = pattern(kind)
    groups = ", ".join(text(name) for name in names)

    def group(name: str) -> str:
        return f"(struct_extract(p, '{name}1') || struct_extract(p, '{name}2'))"  # one of the two is empty

    numbers = {field: f"TRY_CAST({group(field)} AS HUGEINT)" for field in kind.fields}
    total = " + ".join(f"{number} * {SIZES[field]}" for field, number in numbers.items())
    if kind.last == "SECOND":
        total += f" + CAST(rpad(substr({group('fraction')}, 2, 6), 6, '0') AS HUGEINT)"
    inner = [f"{numbers[field]} <= {LARGEST[field]}" for field in kind.fields[1:]]
    minus = "(struct_extract(p, 'a') = '-') <> (struct_extract(p, 'b') = '-' OR struct_extract(p, 'c') = '-')"
    made = f"CASE WHEN {' AND '.join([*inner, 'true'])} THEN CASE WHEN {minus} THEN -1 ELSE 1 END * ({total}) END"
    parts = f"regexp_extract(spark_trimmed({sql}), {text(form)}, [{groups}])"
    return f"list_transform([{parts}], lambda p: TRY_CAST({made} AS {duck_name(kind)}))[1]"


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


def _number(sql: str, kind: Interval, wanted: pa.DataType, word: str) -> str | None:
    """An interval as the number of its last field. The fraction is cut off, except that of seconds in a DECIMAL."""
    t, size = pa.types, SIZES[kind.last]
    if t.is_integer(wanted):
        return f"{word}(({sql}) // {size} AS {duck_name(wanted)})"
    if not t.is_decimal(wanted):
        return None
    if kind.last == "SECOND":
        return f"{word}(CAST({sql} AS DECIMAL(19,0)) * CAST('0.000001' AS DECIMAL(7,6)) AS {duck_name(wanted)})"
    return f"{word}(({sql}) // {size} AS {duck_name(wanted)})"
