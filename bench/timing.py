"""Seconds of sides that take turns, so that a slow minute of the machine hits all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

Side = Callable[[int], Callable[[], object]]
"""Called with the round, prepares it and returns what is to be timed."""


def take_turns(sides: Mapping[str, Side], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds of every side by round: A B A B ..., after `warm` rounds that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warm + rounds):
        for name, prepare in sides.items():
            work = prepare(number)
            gc.collect()
            taken = clock(work)
            if number >= warm:
                seconds[name].append(taken)
    return seconds


def clock(work: Callable[[], object]) -> float:
    """Seconds `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
