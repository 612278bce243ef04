"""Times sides in turns, so that a slow phase of the machine affects all of them equally.

CPU seconds, of this process and its descendants, hardly depend on the machine's other load: if their ratio differs from that of
the clock, the clock was disturbed, or one side uses more cores.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import psutil

from bench.result import Measure

WARMS_UP = True
"""Rounds that are not measured come first. Tests, which measure nothing, do without."""
_LEAST = 1e-6
"""The least CPU that a rate is divided by: less than a tick of 10 ms in another process counts as none."""
_LOST = -0.005
"""Less than half a tick below zero: a descendant has ended, and nobody has waited for it, so its CPU is lost."""
Side = Callable[[int], Callable[[], object]]
"""Called with the round, prepares it and returns what is to be timed."""


class Spent(NamedTuple):
    seconds: float
    cpu: float


def take_turns(sides: Mapping[str, Side], rounds: int, warm: int = 1) -> dict[str, Spent]:
    """The minimum of each side over the rounds, after `warm` rounds that are not measured.

    Each round begins with the next side (A B C, B C A, C A B): a JVM still compiles its code, so later sides would look faster.
    """
    names = list(sides)
    measured: dict[str, list[Spent]] = {name: [] for name in names}
    warm = warm if WARMS_UP else 0
    for number in range(warm + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            work = sides[name](number)
            gc.collect()
            measured[name].append(clock(work))
    return {name: Spent(*map(min, zip(*spent[warm:], strict=True))) for name, spent in measured.items()}


def clock(work: Callable[[], object]) -> Spent:
    """What `work` takes. CPU of this process is exact, that of processes it started in ticks of 10 ms until they have ended. It
    is infinite if the count fell, so that the minimum of several rounds is that of another one."""
    cpu, start = _cpu_seconds(), time.perf_counter()
    work()
    seconds, spent = time.perf_counter() - start, _cpu_seconds() - cpu
    return Spent(seconds, float("inf") if spent < _LOST else max(_LEAST, spent))


def compared(what: str, ours: Spent, theirs: Spent, target: float | None) -> tuple[Measure, Measure]:
    """By the clock, which counts, and by the CPU."""
    by_clock = Measure(what, ours.seconds, theirs.seconds, target=target)
    return by_clock, Measure(f"{what}: CPU", ours.cpu, theirs.cpu)


def _cpu_seconds() -> float:
    """Of this process and its descendants, those that have ended included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for process in psutil.Process().children(recursive=True):
        try:
            total += sum(process.cpu_times()[:4])  # user, system and both of the children waited for
        except psutil.NoSuchProcess:
            continue
    return total
