"""A stream of upserts into a table of N rows: rows a second, bytes written for a byte of input, growth."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers.base import Peer
from bench.peers.data import Data, Stream, bytes_of
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Measures, Written, checked, clock, filled, growth, note, rate, steady

BY_BATCH = "rows/s of a batch"


def cases(sizes: Sizes) -> list[Case]:
    return [
        Case(f"{rows:,} rows, {keys} keys", Stream(rows, sizes.batch, sizes.batches, keys, sizes.of("lineitem")))
        for keys in ("uniform", "recent")
        for rows in sizes.rows
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> Measures:
    load = filled(peer, data)
    written = Written(peer.folder)
    loaded, spent = written.total, []
    for path in data.batches:
        note(path.name)
        spent.append(clock(lambda path=path: peer.upsert(path)))
        written.look()
    checked(peer, data)
    return {
        "rows/s": rate(data.facts["batch_rows"], spent),
        "CPU s": sum(one.cpu for one in steady(spent)),
        "written/input": (written.total - loaded) / sum(bytes_of(path) for path in data.batches),
        "last/first": growth(spent),
        "load s": load.seconds,
        BY_BATCH: [data.facts["batch_rows"] / len(spent) / one.seconds for one in spent],
    }
