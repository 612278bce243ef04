"""Options of partition expiry: how long partitions are kept, and how their time is read from their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.option_types import OptionType, duration, integer, one_of, only_true, text

VALUES_TIME, UPDATE_TIME = "values-time", "update-time"
_DIRECTIVES = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%f",
    "SSSSSS": "%f",
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']")

_EXPIRING = ((When("partition.expiration-time"),),)
_TIMED = ((When("partition.expiration-time"), When("partition.idle-time-to-done")),)
_BY_VALUES = ((When("partition.expiration-strategy", (VALUES_TIME,)),),)


def directives(formatter: str) -> str:
    """The format of `datetime.strptime` for a pattern of Java's DateTimeFormatter. Raises ValueError for unsupported letters."""
    parts, end = [], 0
    for token in _TOKEN.finditer(formatter):
        if token.start() != end:
            raise ValueError(formatter)
        end = token.end()
        if token[1] is not None:
            parts.append((token[1].replace("''", "'") or "'").replace("%", "%%"))
        elif token[2] is None:
            parts.append(token[0].replace("%", "%%"))
        elif token[0] in _DIRECTIVES:
            parts.append(_DIRECTIVES[token[0]])
        else:
            raise ValueError(formatter)
    if end != len(formatter):
        raise ValueError(formatter)
    return "".join(parts)


def _pattern(value: object) -> str:
    return text.read(value)


def renamed_pattern(value: str, columns: Callable[[str], str]) -> str:
    """Replaces the column names in a timestamp pattern by the results of `columns`. A name ends where no letter, digit or '_'
    follows."""
    return re.sub(r"\$(\w+)", lambda match: f"${columns(match[1])}", value)


def _formatter(value: object) -> str:
    pattern = text.read(value)
    directives(pattern)
    return pattern


pattern = OptionType("pattern", "text with names of partition columns, such as '$day $hour:00:00'", _pattern)
formatter = OptionType("pattern", "a pattern of yyyy, yy, MM, dd, HH, mm, ss and SSS, such as 'yyyyMMdd'", _formatter)


@dataclass(frozen=True)
class PartitionOptions:
    dynamic_overwrite: bool = option(
        "dynamic-partition-overwrite",
        only_true,
        True,
        "an overwrite that names no partition replaces the partitions of its rows, and no others",
    )
    expiration_ms: int | None = option(
        "partition.expiration-time", duration, None, "a partition expires when its time is older than this; default: never"
    )
    check_ms: int = option(
        "partition.expiration-check-interval",
        duration,
        3_600_000,
        "the first commit of each interval looks for expired partitions; 0: every commit does",
        only=_EXPIRING,
    )
    strategy: str = option(
        "partition.expiration-strategy",
        one_of(VALUES_TIME, UPDATE_TIME),
        VALUES_TIME,
        "the time of a partition: values-time reads it from the partition values, update-time is that of its newest file",
        only=_EXPIRING,
    )
    expired_max: int = option(
        "partition.expiration-max-num", integer(1), 100, "most partitions that expire at a time", only=_EXPIRING
    )
    pattern: str | None = option(
        "partition.timestamp-pattern",
        pattern,
        None,
        "the time of a partition as text, such as '$day $hour:00:00'; default: the end of the first field by years, months, days"
        " or hours, else the first partition column",
        only=(*_TIMED, *_BY_VALUES),
    )
    formatter: str | None = option(
        "partition.timestamp-formatter",
        formatter,
        None,
        "the format of that text, such as 'yyyyMMdd'; default: 'yyyy-MM-dd HH:mm:ss' or 'yyyy-MM-dd'",
        only=(*_TIMED, *_BY_VALUES),
    )
