"""The number of examples of random tests. `LSMLAKE_EXAMPLES=20 pytest tests/...` runs twenty times as many, 0.5 half as many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from zlib import crc32

import pytest
from hypothesis import settings

SCALE = float(os.environ.get("LSMLAKE_EXAMPLES", "1"))
TURN = int(os.environ.get("LSMLAKE_TURN", "0"))
"""A run with less than all examples tries a part of the cases: the next turns try the others."""
_TURNS, _SLOW_TURNS = 8, 4
"""In how many short runs all cases of a test are tried, and all slow tests."""


def scaled(number: int) -> int:
    return max(1, round(number * SCALE))


def sampled(number: int, of: int) -> bool:
    """Whether case `number` of many is tried: one in so many, and all of them on a long run."""
    return number % one_in(of) == 0


def one_in(number: int) -> int:
    """How many cases there are for each that is tried: so many, more on a short run, and one on a long run."""
    return 1 if SCALE > 1 else round(number / SCALE)


def in_turn(name: str, number: int, of: int) -> bool:
    """Whether case `name` is tried in way `number` of several: on a short run in one of them, which name and turn decide."""
    return SCALE >= 1 or (crc32(name.encode()) + TURN) % of == number


def kinds_of_session(connect: pytest.Mark, test: str) -> list[str]:
    """On which the test of this name, which has the marker `connect`, runs."""
    if (short := connect.kwargs.get("short")) is not None and SCALE < 1:
        return [short]
    return [kind for number, kind in enumerate(("classic", "connect")) if in_turn(test, number, 2)]


def left_to_another_turn(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """What a short run leaves out: of a test with several cases all but every eighth one, unless it is marked `every_case`; and
    three of four tests that are marked `in_turn`."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items if SCALE < 1 else ():
        if item.get_closest_marker("every_case") is None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for cases in tests.values() for item in set(cases) - set(_of_this_turn(cases))}


def is_slow_now(file: str, test: str) -> bool:
    """Whether it is the turn of a test that is marked `in_turn`. `file`: the name of its file."""
    return in_turn(f"{file}::{test}", 0, _SLOW_TURNS)


def _of_this_turn(cases: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    parts, turn, one = min(_TURNS, len(cases)), TURN, cases[0]
    if one.get_closest_marker("in_turn"):
        if not is_slow_now(one.path.name, one.originalname):
            return ()
        turn = TURN // _SLOW_TURNS  # a test in turn meets the same remainder of turns each time
    return cases[turn % parts :: parts]


def examples(number: int, **more: object) -> settings:
    """The settings of a property: so many examples, scaled, each of which may take its time."""
    return settings(max_examples=scaled(number), deadline=None, **more)
