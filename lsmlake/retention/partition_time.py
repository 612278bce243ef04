"""Reads the time of a partition from its values, by the options `partition.timestamp-*`. All times are in UTC. Pure.

Under years, months, days or hours no pattern is needed, and the time is the last millisecond of the unit: no row is younger.

Source of the rules: Apache Paimon, `PartitionTimeExtractor`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from lsmlake.options.partitions import PartitionOptions, directives
from lsmlake.schema.partitioning import PartitionColumn, human_values

_DEFAULT = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")


def time_of_partition(fields: Sequence[PartitionColumn], partition: tuple, options: PartitionOptions) -> int | None:
    """The time of a partition in milliseconds since 1970; None if its values are not a time."""
    if not fields:  # files from before the table was partitioned
        return None
    if options.pattern is None:
        for field, value in zip(fields, partition, strict=True):
            if field.transform.is_time:
                return None if value is None else field.transform.end_ms(value) - 1
    columns = [field.name for field in fields]
    texts = [_text(value) for value in human_values(fields, partition)]
    if options.pattern is None:
        text = texts[0]
    else:
        known = dict(zip(columns, texts, strict=True))
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        used = re.findall(rf"\$({names})", options.pattern)
        missing = any(known[name] is None for name in used)
        text = None if missing else re.sub(rf"\$({names})", lambda match: known[match[1]] or "", options.pattern)
    if text is None:
        return None
    try:
        found = _parsed(text, options.formatter)
    except ValueError:
        return None
    return int(found.replace(tzinfo=dt.timezone.utc).timestamp() * 1000)


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        aware = value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return aware.isoformat(sep=" ")
    return str(value)


def _parsed(text: str, formatter: str | None) -> dt.datetime:
    if formatter is not None:
        return dt.datetime.strptime(text, directives(formatter))
    match = _DEFAULT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    *parts, fraction = match.groups(default="0")
    return dt.datetime(*map(int, parts), int(f"{fraction:0<6}"[:6]))
