"""How reads get slower round after round of upserts with maintenance on: LST-Bench's degradation rate, (1/n) sum of
(seconds of a round - of the one before) / seconds of the one before, and the last rounds against the first.

The table grows meanwhile, so beside them the slope of the seconds a row by least squares, in percent of their mean a round, and
twice its standard error: a slope smaller than that is not distinguishable from zero. The first quarter of the rounds, in which
the JVM still compiles, does not count for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Measures, Spent, checked, clock, filled, growth, note, steady

_MAINTAINED_EVERY = 10
_WARM = 4
_LINE = 3  # points, at least, for what is not on it
_READS = ("grouped", "filter", "point")
BY_ROUND = "{} s of a round"


def cases(sizes: Sizes) -> list[Case]:
    return [Case(f"{sizes.rounds} rounds", Stream(sizes.rows[0], sizes.batch, sizes.rounds, source=sizes.of("lineitem")))]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> Measures:
    filled(peer, data)
    queries = [one for one in data.reads if one.name in _READS]
    spent: dict[str, list[Spent]] = {one.name: [] for one in queries}
    for number, path in enumerate(data.batches):
        note(path.name)
        peer.upsert(path)
        if number % _MAINTAINED_EVERY == _MAINTAINED_EVERY - 1:
            peer.maintain()
        for one in queries:
            spent[one.name].append(min(clock(partial(peer.query, one)) for _ in range(2)))
    checked(peer, data)
    measures: Measures = {}
    for name, taken in spent.items():
        times = [one.seconds for one in steady(taken)]
        rates = [(after - before) / before for before, after in pairwise(times)]
        measures |= {f"{name} s": statistics.median(times), f"{name} rate": statistics.mean(rates)}
        measures[f"{name} last/first"] = growth(taken)
        seconds = [one.seconds for one in taken]
        if len(seconds) >= _LINE:
            measures[f"{name} slope %"], measures[f"{name} slope +- %"] = slope(seconds, data.facts["new_end"])
        measures[BY_ROUND.format(name)] = seconds
    return measures


def slope(seconds: Sequence[float], rows: Sequence[int]) -> tuple[float, float]:
    """Of the seconds a row, in percent of their mean, and twice its standard error."""
    warm = len(seconds) // _WARM
    cost = np.array(seconds[warm:]) / np.array(rows[warm:])
    at = np.arange(len(cost)) - (len(cost) - 1) / 2
    slope = at @ cost / (at @ at)
    rest = cost - cost.mean() - slope * at
    error = np.sqrt(rest @ rest / max(1, len(cost) - 2) / (at @ at))
    return slope / cost.mean() * 100, 2 * error / cost.mean() * 100
