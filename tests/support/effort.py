"""The number of examples of random tests. `LSMLAKE_EXAMPLES=20 pytest tests/...` runs twenty times as many, 0.5 half as many."""

from __future__ import annotations

import os
from zlib import crc32

import pytest
from hypothesis import settings

SCALE = float(os.environ.get("LSMLAKE_EXAMPLES", "1"))


def scaled(number: int) -> int:
    return max(1, round(number * SCALE))


def sampled(number: int, of: int) -> bool:
    """Whether case `number` of many is tried: one in so many, and all of them on a long run."""
    return number % one_in(of) == 0


def one_in(number: int) -> int:
    """How many cases there are for each that is tried: so many, more on a short run, and one on a long run."""
    return 1 if SCALE > 1 else round(number / SCALE)


def in_turn(name: str, number: int, of: int) -> bool:
    """Whether case `name` is tried in way `number` of several: on a short run in one of them, which the name decides."""
    return SCALE >= 1 or crc32(name.encode()) % of == number


def kinds_of_session(connect: pytest.Mark) -> tuple[str, ...]:
    """On which a test with the marker `connect` runs."""
    short = connect.kwargs.get("short")
    return ("classic", "connect") if short is None or SCALE >= 1 else (short,)


def examples(number: int, **more: object) -> settings:
    """The settings of a property: so many examples, scaled, each of which may take its time."""
    return settings(max_examples=scaled(number), deadline=None, **more)
