"""From a batch's arrival to the moment a query returns its rows, with and without compaction in the path.

Without: the table's own maintenance is switched off. With: it is on, and where nothing runs by itself, what the documents tell
to run is run after every batch. What is written for a byte of input tells what compaction adds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.peers.base import Peer
from bench.peers.data import Data, Stream, bytes_of
from bench.peers.read import Read, keys_between
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Written, Wrong, checked, clock, filled, growth, note, steady


def cases(sizes: Sizes) -> list[Case]:
    stream = Stream(sizes.rows[0], sizes.batch, sizes.batches, source=sizes.of("flights"))
    return [
        Case("without compaction", stream, {"compaction": False}),
        Case("with compaction", stream, {"compaction": True}),
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> dict[str, float]:
    filled(peer, data, inline=params["compaction"])
    written = Written(peer.folder)
    loaded, spent = written.total, []
    for path, low, end in zip(data.batches, data.facts["new_from"], data.facts["new_end"], strict=True):
        note(path.name)
        arrive = partial(_arrive, peer, path, keys_between(low, end), params["compaction"], end - low)
        spent.append(clock(arrive))
        written.look()
    checked(peer, data)
    times = [one.seconds for one in steady(spent)]
    share = (written.total - loaded) / sum(map(bytes_of, data.batches))
    return {"median s": statistics.median(times), "worst s": max(times), "last/first": growth(spent), "written/input": share}


def _arrive(peer: Peer, path: Path, read: Read, maintain: bool, new: int) -> None:
    peer.upsert(path)
    if maintain:
        peer.maintain()
    ((found,),) = peer.query(read)
    if found != new:
        raise Wrong(f"{found} of the {new} new rows of {path.name} are seen")
