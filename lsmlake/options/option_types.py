"""Types of option values, parsed from text, as in SQL, or from Python values. Sizes become bytes, durations milliseconds."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Generic, TypeVar

from lsmlake.errors import InvalidOption, with_arguments

T = TypeVar("T")

_NO_DIRECTORY = re.compile(r"[/\\\x00-\x1f\x7f]|[\ud800-\udfff]")
CURE = "correct the value or leave the option out"


@dataclass(frozen=True)
class OptionType(Generic[T]):
    """`takes` describes the accepted values; `read` raises ValueError for others. `units`: of a quantity, name -> factor.
    `joins`: the text between the parts of a value."""

    name: str
    takes: str
    read: Callable[[object], T]
    units: Mapping[str, int] = field(default_factory=dict, compare=False)
    joins: str = ","

    def parse(self, option: str, value: object, where: str, cure: str = CURE) -> T:
        """The value of the named option. Raises InvalidOption."""
        return self._parse(f"option {option!r} has an invalid value", value, where, cure)

    def argument(self, name: str, value: object, where: str, cure: str) -> T:
        """The value of the named argument of a call. Raises InvalidOption."""
        return self._parse(with_arguments("{} has an invalid value", name), value, where, cure)

    def _parse(self, what: str, value: object, where: str, cure: str) -> T:
        try:
            return self.read(value)
        except ValueError:
            raise InvalidOption(what, where=where, expected=self.takes, found=repr(value), cure=cure) from None

    def text(self, value: object) -> str | None:
        """A parsed value as text that `read` accepts; None if the option is off."""
        if value is None or value == ():
            return None
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return self.joins.join(map(str, value))
        if not isinstance(value, int) or not self.units:
            return str(value)
        unit = next(unit for unit, factor in self.units.items() if value % factor == 0 and (value or factor == 1))
        return f"{value // self.units[unit]} {unit}"


_MOST = 2**31 - 1
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


def whole_number(text: str) -> int:
    """The integer that all readers of the text see. Raises ValueError, also for forms that only Python knows, such as 1_000."""
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


def _fraction(value: object) -> float:
    if re.search(r"[^0-9.eE+-]", text := str(value).strip()):
        raise ValueError
    number = float(text)
    if not 0 < number <= 1:
        raise ValueError
    return number


fraction = OptionType("fraction", "a number greater than 0, at most 1", _fraction)


def several_of(*names: str) -> OptionType[tuple[str, ...]]:
    def read(value: object) -> tuple[str, ...]:
        given = tuple(dict.fromkeys(name.lower() for name in _names(value)))
        if not set(given) <= set(names):
            raise ValueError
        return given

    return OptionType("names", f"some of {', '.join(map(repr, names))}, separated by commas", read)


def integer(low: int, high: int = _MOST) -> OptionType[int]:
    def read(value: object) -> int:
        number = whole_number(str(value))
        if not low <= number <= high:
            raise ValueError
        return number

    return OptionType("integer", f"an integer from {low} to {high}" if high < _MOST else f"an integer of at least {low}", read)


AUTO = "auto"
_BUCKETS_MAX = 1 << 15


def _buckets(value: object) -> int | str:
    text = str(value).strip().lower()
    if text in (AUTO, "-1", "-2"):  # Paimon's dynamic and postponed buckets
        return AUTO
    number = whole_number(text)
    if not 1 <= number <= _BUCKETS_MAX:
        raise ValueError
    return number


def one_of(*names: str) -> OptionType[str]:
    def read(value: object) -> str:
        name = str(value).strip().lower()
        if name not in names:
            raise ValueError
        return name

    return OptionType("enum", " or ".join(map(repr, names)), read)


NO_STATS, COUNTS, TRUNCATE, FULL = "none", "counts", "truncate", "full"
_STATS_BYTES_MAX = 1 << 16


def _stats_mode(value: object) -> str:
    mode = str(value).strip().lower()
    if mode in (NO_STATS, COUNTS, TRUNCATE, FULL):
        return mode
    number = re.fullmatch(rf"{TRUNCATE}\s*\(\s*([0-9]+)\s*\)", mode)
    if number is None or not 1 <= int(number[1]) <= _STATS_BYTES_MAX:
        raise ValueError
    return f"{TRUNCATE}({int(number[1])})"


def stats_length(mode: str, default: int) -> int | None:
    """How many bytes of the bounds of text a mode of statistics keeps. 0: it keeps no bounds; None: no statistics at all.
    `default`: of `truncate` without a number."""
    lengths = {NO_STATS: None, COUNTS: 0, TRUNCATE: default, FULL: sys.maxsize}
    return lengths[mode] if mode in lengths else int(mode.removeprefix(f"{TRUNCATE}(").removesuffix(")"))


def _boolean(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _true(value: object) -> bool:
    if not _boolean(value):
        raise ValueError
    return True


def _hour(value: object) -> int | None:
    number = _HOUR.read(value)
    return None if number == -1 else number


def _hours(value: object) -> tuple[int, int]:
    """ "22-6": from the first hour up to the second, which is not included."""
    if isinstance(value, tuple):
        value = "-".join(map(str, value))
    match = re.fullmatch(r"\s*([0-9]{1,2})\s*-\s*([0-9]{1,2})\s*", str(value))
    start, end = (int(match[1]), int(match[2])) if match else (0, 0)
    if start == end or start > 23 or end > 24:
        raise ValueError
    return start, end


def _any_text(value: object) -> str:
    """Text, or a number as text. Raises ValueError for a set, a mapping and others, whose text says nothing to the user."""
    if not isinstance(value, (str, Number)):
        raise ValueError
    return str(value)


def _text(value: object) -> str:
    text = _any_text(value).strip()
    if not text:
        raise ValueError
    return text


def _directory_name(value: object) -> str:
    name = _text(value)
    if _NO_DIRECTORY.search(name):
        raise ValueError
    return name


def _qualified_name(value: object) -> str:
    name = _text(value)
    if "." not in name or "" in name.split("."):
        raise ValueError
    return name


def _address(value: object) -> str:
    url = _text(value)
    if not re.match(r"https?://[^/\s]+", url) or re.search(r"\s", url):
        raise ValueError
    return url


def _names(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, (list, tuple)) else _text(value).split(",")
    names = tuple(_text(name) for name in given)
    if not names or not all(names):
        raise ValueError
    return names


def _quantity(name: str, takes: str, units: Mapping[str, int], *aliases: tuple[int, str]) -> OptionType[int]:
    """`units`: largest first; `aliases`: (factor, other names). 0 needs no unit."""
    factors = {**units, **{alias: factor for factor, names in aliases for alias in names.split(",")}}

    def read(value: object) -> int:
        match = re.fullmatch(r"\s*([0-9]+)\s*([a-zA-Z]*)\s*", str(value))
        if match and not match[2] and not int(match[1]):
            return 0
        if not match or match[2].lower() not in factors:
            raise ValueError
        return int(match[1]) * factors[match[2].lower()]

    return OptionType(name, takes, read, units)


_ISO = re.compile(r"P(?!$)(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII | re.IGNORECASE)


def _or_iso(of: OptionType[int]) -> OptionType[int]:
    """Also accepts durations in ISO 8601, such as PT1H."""

    def read(value: object) -> int:
        match = _ISO.fullmatch(str(value).strip())
        if match is None:
            return of.read(value)
        return sum(
            int(number or 0) * factor
            for number, factor in zip(match.groups(), (86_400_000, 3_600_000, 60_000, 1_000), strict=True)
        )

    return replace(of, read=read)


def _positive(value: object) -> int:
    if not (number := size.read(value)):
        raise ValueError
    return number


_HOUR = integer(-1, 23)
boolean = OptionType("boolean", "true or false", _boolean)
only_true = OptionType("boolean", "true", _true)
buckets = OptionType("buckets", f"auto, or an integer from 1 to {_BUCKETS_MAX}", _buckets)
stats_mode = OptionType(
    "statistics", f"{NO_STATS}, {COUNTS}, {TRUNCATE}, {TRUNCATE}(N) with 1 to {_STATS_BYTES_MAX} bytes, or {FULL}", _stats_mode
)
hour = OptionType("integer", "an hour from 0 to 23, or -1 to disable", _hour)
hours = OptionType("hours", "two hours of the day, such as 22-6", _hours, joins="-")
text = OptionType("text", "a name", _text)
qualified_name = OptionType("qualified name", "a namespace and a name, such as 'sales.orders'", _qualified_name)
any_text = OptionType("text", "any text", _any_text)
directory_name = OptionType("text", r"a name without /, \ or control characters", _directory_name)
entry_points = OptionType("names", "names of entry points, such as 'notify', separated by commas", _names)
address = OptionType("address", "an address such as 'https://localhost/hook'", _address)
names = OptionType("columns", "column names separated by commas", _names)
column = OptionType("column", "a column name", _text)
size = _quantity(
    "size",
    "a size such as '128 mb'; without a unit: bytes",
    {"tb": 1 << 40, "gb": 1 << 30, "mb": 1 << 20, "kb": 1 << 10, "b": 1},
    (1 << 40, "t"),
    (1 << 30, "g"),
    (1 << 20, "m"),
    (1 << 10, "k"),
    (1, ""),
)
positive_size = replace(size, takes="a size such as '128 mb', greater than 0", read=_positive)
duration = _or_iso(
    _quantity(
        "duration",
        "a duration such as '10 min' or 'PT10M'",
        {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1},
        (86_400_000, "day,days"),
        (3_600_000, "hour,hours"),
        (60_000, "m,minute,minutes"),
        (1_000, "sec,second,seconds"),
        (1, "milli,millis"),
    )
)
