"""Steps that workloads share: fill, stream, read, check."""

from __future__ import annotations

import gc
import statistics
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from bench.peers.base import Peer, Unsupported, Wanted
from bench.peers.data import KEY, Data
from bench.peers.read import Read, normal, totals
from bench.timing import Spent, clock, take_turns

Measures = dict[str, float | list[float]]
"""By name, the unit in it: a number, or one for each time it was measured."""
ROUNDS = 3
_SAMPLE_SECONDS = 0.05


class Wrong(Exception):
    """The peer's answer is not what it must be."""


def note(progress: str) -> None:
    """Record the step, for the report of a run that does not finish."""
    print(f"@ {progress}", file=sys.stderr, flush=True)


def filled(peer: Peer, data: Data, **wanted: object) -> Spent:
    """A new table with the stream's load."""
    peer.create(Wanted(data.schema, KEY, **wanted))
    note("load")
    return clock(partial(peer.load, data.load))


def streamed(peer: Peer, data: Data) -> list[Spent]:
    """The batches one after the other, and what each took."""
    return [_batch(peer.upsert, path) for path in data.batches]


def _batch(change: Callable[[Path], None], path: Path) -> Spent:
    note(path.name)
    return clock(partial(change, path))


def updated(peer: Peer, data: Data) -> list[Spent]:
    return [_batch(peer.update, path) for path in data.batches]


def steady(spent: list[Spent]) -> list[Spent]:
    """Without the first, which pays for what is loaded and compiled once."""
    return spent[1:] or spent


def rate(rows: int, spent: list[Spent]) -> float:
    """Rows a second of batches that have `rows` rows together."""
    counted = steady(spent)
    return rows * len(counted) / len(spent) / sum(one.seconds for one in counted)


def growth(spent: list[Spent]) -> float:
    """What the last batches took for one second of the first ones: medians of a third of them."""
    times = [one.seconds for one in steady(spent)]
    third = max(1, len(times) // 3)
    return statistics.median(times[-third:]) / statistics.median(times[:third])


def checked(peer: Peer, data: Data, expected: str = "expected") -> None:
    """The table holds what NumPy says. Raises Wrong."""
    note("check")
    found, right = normal(peer.query(totals(data.schema, data.source.totals))), normal([data.facts[expected]])
    if found != right:
        raise Wrong(f"count and sums are {found[0]}, must be {right[0]}")


def reads(peer: Peer, data: Data, queries: list[Read]) -> dict[str, float]:
    """Each query and a full export, of the table and of plain Parquet files of the same rows in turns, best of a few rounds; the
    answers must be the same."""
    plain, measures = peer.plain(data.final), {}
    for read in queries:
        note(f"read {read.name}")
        measures |= _both(read.name, partial(peer.query, read), partial(plain.query, read))
        found, right = normal(peer.query(read)), normal(plain.query(read))
        if found != right:
            raise Wrong(f"{read.name} answers {str(found)[:200]}, plain Parquet {str(right)[:200]}")
    note("read export")
    measures |= _both("export", peer.export, plain.export)
    if peer.export() != plain.export():
        raise Wrong("a full export differs from plain Parquet")
    return measures


def _both(name: str, table: Callable[[], object], plain: Callable[[], object]) -> dict[str, float]:
    spent = take_turns({"table": lambda _: table, "plain": lambda _: plain}, ROUNDS)
    return {f"{name} s": spent["table"].seconds, f"{name} /plain": spent["table"].seconds / spent["plain"].seconds}


class Written:
    """Bytes written below a folder, counted at each `look` from the files that are new or have grown. Files that appear and
    disappear between two looks, and bytes overwritten in place, are not counted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sizes, self.total = folder, {}, 0
        self.look()

    def look(self) -> int:
        for path in self.folder.rglob("*"):
            if path.is_file():
                size = path.stat().st_size
                self.total += max(0, size - self.sizes.get(path, 0))
                self.sizes[path] = size
        return self.total


def peak_memory(work: Callable[[], object]) -> tuple[Spent, int]:
    """What `work` takes, and the most memory, in bytes, that this process and all it started held while it ran."""
    done, peak = threading.Event(), [0]

    def watch() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            peak[0] = max(peak[0], _resident())

    gc.collect()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        spent = clock(work)
    finally:
        done.set()
        watcher.join()
    return spent, max(peak[0], _resident())


def _resident() -> int:
    total, own = 0, psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def compacted(peer: Peer) -> bool:
    """Whether the peer could."""
    try:
        peer.compact()
    except Unsupported:
        return False
    return True
