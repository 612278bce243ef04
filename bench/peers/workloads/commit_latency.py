"""Many tiny upserts: how long one takes, and how that grows with the history."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import checked, filled, growth, steady, streamed

ROWS_A_COMMIT = 100


def cases(sizes: Sizes) -> list[Case]:
    return [Case(f"{sizes.commits:,} commits", Stream(sizes.rows[0], ROWS_A_COMMIT, sizes.commits, source=sizes.of("flights")))]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    filled(peer, data)
    spent = streamed(peer, data)
    checked(peer, data)
    half, nearly_all = np.percentile([one.seconds for one in steady(spent)], [50, 99])
    return {"p50 ms": half * 1e3, "p99 ms": nearly_all * 1e3, "last/first": growth(spent)}
