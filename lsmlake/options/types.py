"""What the value of an option may be: parsers from text, as in SQL, or plain Python values.

A parser returns the value or raises ValueError; its `expected` says in words what it takes. Sizes come out in bytes, durations in
milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lsmlake.errors import InvalidOption

_NO_DIRECTORY = re.compile(r"[/\\\x00-\x1f\x7f]|[\ud800-\udfff]")
CURE = "correct the value or leave the option out"

_SIZES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
    "t": 1 << 40,
    "tb": 1 << 40,
}
_TIMES = {
    "ms": 1,
    "milli": 1,
    "millis": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "min": 60_000,
    "m": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}


def integer(low: int, high: int = 2**31 - 1) -> Callable[[object], int]:
    def parse(value: object) -> int:
        number = int(str(value))
        if not low <= number <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return number

    parse.expected = f"an integer from {low} to {high}"
    return parse


def _quantity(units: Mapping[str, int], expected: str) -> Callable[[object], int]:
    def parse(value: object) -> int:
        match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", str(value))
        if not match or match[2].lower() not in units:
            raise ValueError(expected)
        return int(match[1]) * units[match[2].lower()]

    parse.expected = expected
    return parse


def one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        name = str(value).strip().lower()
        if name not in names:
            raise ValueError
        return name

    parse.expected = " or ".join(repr(name) for name in names)
    return parse


def boolean(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


boolean.expected = "true or false"


def text(value: object) -> str:
    if not str(value).strip():
        raise ValueError
    return str(value).strip()


text.expected = "a name"


def directory_name(value: object) -> str:
    """Text that can be a part of the name of one directory in every store."""
    name = text(value)
    if _NO_DIRECTORY.search(name):
        raise ValueError
    return name


directory_name.expected = r"a name without /, \ and control characters"


def names(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, (list, tuple)) else str(value).split(",")
    found = tuple(str(name).strip() for name in given)
    if not found or not all(found):
        raise ValueError
    return found


names.expected = "column names separated by commas"
size = _quantity(_SIZES, "a size such as '128 mb'")
duration = _quantity(_TIMES, "a duration such as '10 min'")


def parsed(name: str, parse: Callable[[object], object], value: object, where: str, cure: str = CURE) -> object:
    """The value of the option of that name. Raises InvalidOption."""
    try:
        return parse(value)
    except ValueError:
        raise InvalidOption(
            f"option {name!r} has a value it cannot take", where=where, expected=parse.expected, found=repr(value), cure=cure
        ) from None


def as_text(parse: Callable[[object], object], value: object) -> str | None:
    """A parsed value as text that `parse` reads back; None for an option that is off."""
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    units = {size: _SIZE_UNITS, duration: _TIME_UNITS}.get(parse)
    if units is None or not value:
        return str(value)
    unit, factor = next((unit, factor) for unit, factor in units if value % factor == 0)
    return f"{value // factor} {unit}"


_SIZE_UNITS = ("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)
_TIME_UNITS = ("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)
