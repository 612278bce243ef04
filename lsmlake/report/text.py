"""Values of a table as text for people: on one line, with nothing in it that a terminal would obey."""

from __future__ import annotations

import datetime


def printable(text: str) -> str:
    """`text` with escapes for line breaks, control characters and whatever else has no glyph."""
    return text if text.isprintable() else repr(text)[1:-1]


def utc_time(moment: datetime.datetime) -> str:
    """2026-01-31 12:00:00 in UTC. `moment` has a zone."""
    return f"{moment.astimezone(datetime.timezone.utc):%Y-%m-%d %H:%M:%S}"


def utc_stamp(moment: datetime.datetime) -> str:
    """2026-01-31T12:00:00.123Z: the same without a blank, exact to the millisecond, with its zone."""
    return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def counted(count: int, noun: str, plural: str = "") -> str:
    """1 file, 2,000 files."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
