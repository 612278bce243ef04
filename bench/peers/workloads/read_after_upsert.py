"""Reads right after a stream of upserts, with no maintenance but the system's own while it writes, against plain Parquet."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import checked, filled, reads, streamed


def cases(sizes: Sizes) -> list[Case]:
    return [Case(f"{rows:,} rows", Stream(rows, sizes.batch, sizes.batches, source=sizes.of("lineitem"))) for rows in sizes.rows]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    filled(peer, data)
    streamed(peer, data)
    checked(peer, data)
    return reads(peer, data, data.reads)
