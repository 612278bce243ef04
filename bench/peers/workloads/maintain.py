"""A full compaction after a stream of upserts: seconds, bytes, peak memory; then reads."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Written, checked, filled, note, peak_memory, reads, streamed


def cases(sizes: Sizes) -> list[Case]:
    return [
        Case(f"{rows:,} rows", Stream(rows, sizes.batch, sizes.batches, source=sizes.of("lineitem"))) for rows in sizes.rows[:1]
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    filled(peer, data)
    streamed(peer, data)
    written = Written(peer.folder)
    before = written.total
    note("compact")
    spent, peak = peak_memory(peer.compact)
    measures = {"compact s": spent.seconds, "MB written": (written.look() - before) / 1e6, "peak MB": peak / 1e6}
    checked(peer, data)
    return measures | reads(peer, data, data.reads)
