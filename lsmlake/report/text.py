"""Formats values for people: texts and times on one line, without control characters; numbers with three significant digits and
a unit.
"""

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


_CARRIED_FROM = 999.5  # prints as 1000, so the next unit begins here


def human_count(count: float) -> str:
    """Formats a count: up to 9,999 in full, then 12.3 k, 4.56 M, 789 G."""
    return f"{count:,.0f}" if count < 9_999.5 else _scaled(count, 1_000, ("", "k", "M", "G", "T", "P"))


def human_bytes(count: float) -> str:
    """Formats bytes with powers of 1,024: 512 B, 1.50 KiB, 23.4 MiB."""
    return _scaled(count, 1_024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def human_share(part: float, whole: float) -> str:
    """Formats a share in per cent: 0 %, <1 %, 37 %, >99 %, 100 %. Only a share of exactly 0 or 1 shows as 0 % or 100 %."""
    if part == 0:
        return "0 %"
    share = part / whole
    if share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{share * 100:.0f} %"


def _scaled(count: float, base: int, units: tuple[str, ...]) -> str:
    amount, power = float(count), 0
    while amount >= _CARRIED_FROM and power < len(units) - 1:
        amount, power = amount / base, power + 1
    digits = 0 if power == 0 or amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{digits}f} {units[power]}"
