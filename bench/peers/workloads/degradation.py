"""How reads get slower round after round of upserts with maintenance on: LST-Bench's degradation rate, (1/n) sum of
(seconds of a round - of the one before) / seconds of the one before, and the last rounds against the first."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Measures, Spent, checked, clock, filled, growth, note, steady

_MAINTAINED_EVERY = 10
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
        measures[BY_ROUND.format(name)] = [one.seconds for one in taken]
    return measures
