"""Rows of 200 columns: upserts of all of them, updates of three, a query of three."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.base import Peer
from bench.peers.data import Data, Stream, bytes_of
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Written, checked, filled, growth, rate, reads, streamed, updated

_SHARE = 10
"""Of the rows of other workloads: a row is that much larger."""


def cases(sizes: Sizes) -> list[Case]:
    stream = {
        "rows": max(1, sizes.rows[0] // _SHARE),
        "batch": max(1, sizes.batch // _SHARE),
        "batches": sizes.batches,
        "source": "wide",
    }
    return [
        Case("all columns", Stream(**stream), {"three": False}),
        Case("three columns", Stream(**stream, three=True), {"three": True}),
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    three = params["three"]
    filled(peer, data, engine="partial" if three else "upsert")
    written = Written(peer.folder)
    loaded = written.total
    spent = updated(peer, data) if three else streamed(peer, data)
    checked(peer, data)
    return {
        "rows/s": rate(data.facts["batch_rows"], spent),
        "written/input": (written.look() - loaded) / sum(map(bytes_of, data.batches)),
        "last/first": growth(spent),
        **reads(peer, data, data.reads),
    }
