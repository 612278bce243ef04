"""Paimon's merge engines partial-update and aggregation, and the feed of changes, against those who have such things."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.base import Peer
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Wrong, checked, clock, filled, growth, note, rate, streamed


def cases(sizes: Sizes) -> list[Case]:
    stream = Stream(sizes.rows[0], sizes.batch, sizes.batches, source=sizes.of("orders"))
    return [
        Case("partial-update", stream, {"engine": "partial-update", "expected": "expected"}),
        Case("aggregation", stream, {"engine": "aggregation", "expected": "summed"}),
        Case("changes", stream, {"changes": True, "expected": "expected"}),
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    changes = bool(params.get("changes"))
    filled(peer, data, engine=params.get("engine", "upsert"), changes=changes)
    since = peer.mark() if changes else None
    spent = streamed(peer, data)
    measures = {"rows/s": rate(data.facts["batch_rows"], spent), "last/first": growth(spent)}
    if changes:
        measures["changes/s"] = data.facts["batch_rows"] / _consumed(peer, since, data.facts["batch_rows"])
    checked(peer, data, str(params["expected"]))
    return measures


def _consumed(peer: Peer, since: object, expected: int) -> float:
    """Seconds to read every change since the mark."""
    note("changes")
    found = []
    spent = clock(lambda: found.append(peer.count_changes(since)))
    if found != [expected]:
        raise Wrong(f"{found[0]} changes are reported, {expected} were made")
    return spent.seconds
