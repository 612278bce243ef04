"""Formats values for people: on one line, without control characters."""

from __future__ import annotations

import datetime


def printable(text: str) -> str:
    """Returns `text` with escapes for line breaks, control characters and other characters that are not printable."""
    return text if text.isprintable() else repr(text)[1:-1]


def utc_time(moment: datetime.datetime) -> str:
    """2026-01-31 12:00:00 in UTC. `moment` has a zone."""
    return f"{moment.astimezone(datetime.timezone.utc):%Y-%m-%d %H:%M:%S}"


def utc_stamp(moment: datetime.datetime) -> str:
    """2026-01-31T12:00:00.123Z, with milliseconds and zone, without a blank."""
    return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def counted(count: int, noun: str, plural: str = "") -> str:
    """1 file, 2,000 files."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
