"""A third of the keys deleted, batch after batch, then reads."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import read
from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import checked, deleted, filled, growth, rate, reads

DELETES, SHARE = 10, 0.3


def cases(sizes: Sizes) -> list[Case]:
    return [Case(f"{rows:,} rows", Stream(rows, 0, 0, deletes=DELETES, deleted=SHARE)) for rows in sizes.rows[:1]]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    filled(peer, data, deletes=True)
    spent = deleted(peer, data)
    checked(peer, data)
    keys = data.facts["known"] - data.facts["expected"][0]
    measures = {"keys/s": rate(keys, spent), "last/first": growth(spent)}
    return measures | reads(peer, data, read.of_orders(data.facts["known"]))
