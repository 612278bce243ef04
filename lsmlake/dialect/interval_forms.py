"""The texts of intervals, by the rules of literals and of CAST in Spark: their patterns, and their values as numbers.

    units("3 days -2 hours")                # Amounts(months=0, days=3, microseconds=-7200000000), {"DAY", "HOUR"}
    value("1 2:3:4.5", DAY_TIME)            # 93784500000: the text between the quotes of INTERVAL '...' DAY TO SECOND

Neighbours: `interval_literals` types literals, `interval_cast` has the SQL of CAST for the same patterns.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lsmlake.types.intervals import MICROSECONDS, MONTHS, SIZES, Interval

DAY, HOUR, MINUTE, SECOND = (SIZES[field] for field in MICROSECONDS)
LARGEST = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}
"""The largest number of a field behind another one."""
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
    found = re.fullmatch(f"{_SIGN}{numbers}", trimmed(text), re.ASCII)
    if found is None:
        raise ValueError(f"the text does not have the form of {kind}")
    total = 0
    for place, (field, digits) in enumerate(zip(names, found.groups()[1:], strict=True)):
        if field == "fraction":
            total += int((digits or ".0")[1:].ljust(6, "0")[:6])
        elif place and int(digits) > LARGEST[field]:
            raise ValueError(f"the {field} is more than {LARGEST[field]}")
        else:
            total += int(digits) * SIZES[field]
    return within(-total if found[1] == "-" else total, _INT32 if kind.is_months else _INT64)


def within(number: int, limit: int) -> int:
    """The number, if it is one of 32 or 64 bits. Raises ValueError."""
    if not -limit <= number < limit:
        raise ValueError("the interval is out of range")
    return number


def units(text: str) -> tuple[Amounts, frozenset[str]]:
    """The amounts of a text such as `1 day -2 hours`, and their fields. Raises ValueError."""
    rest = trimmed(text).lower()
    rest = rest[len("interval") :] if _PREFIX.match(rest) else rest
    sums, fields, place = {"months": 0, "days": 0, "microseconds": 0}, set(), 0
    while place < len(rest) or not fields:
        found = _PART.match(rest, place)
        if found is None or not (found[2] or found[4]):
            raise ValueError("expected numbers, each with a unit of time")
        unit, scale = _UNITS[found[5]]
        if found[3] and found[5] != "second":
            raise ValueError(f"the number of {found[5].upper()} has a fraction")
        amount = within(int(found[2] or 0), _INT64) * scale + int((found[4] or "").ljust(6, "0")[:6] or 0)
        limit = _INT64 if unit == "microseconds" else _INT32
        sums[unit] = within(sums[unit] + (-amount if found[1] == "-" else amount), limit)
        fields.add(_FIELDS.get(found[5], found[5].upper()))
        place = found.end()
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
