"""Looks rows up by primary key: one at a time, and many in one call.

Keys are random over all rows; "hot" keys are a thousand of them, looked up before in one call. The bytes that lookups read from
data files are counted by a storage of its own: those of the first one, and those after the footers and keys have been cached.
With a cache on disk, single keys are looked up before until it grows no more: a row group is copied after some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import lsmlake
from bench import tables
from bench.result import Measure, Report
from bench.rows import KEY, orders
from bench.timing import Spent, clock
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage

_BATCH = 1_000_000
_HOT = 1_000


def run(folder: Path, rows: int = 10_000_000, lookups: int = 1_000, batch: int = 10_000) -> Report:
    """`rows` of 12 columns in 8 buckets, compacted; a fiftieth replaced since. `batch`: keys of one call."""
    table = tables.create(folder, {"bucket": 8})
    for start in range(0, rows, _BATCH):
        table.upsert(orders(np.arange(start, min(rows, start + _BATCH))))
    table.compact(full=True)
    chance = np.random.default_rng(1)
    table.upsert(orders(np.sort(chance.choice(rows, rows // 50, replace=False)), version=1))
    table = tables.reopen(folder)
    first = clock(lambda: table.get({KEY: rows // 2})).seconds
    keys = chance.integers(0, rows, lookups).tolist()
    for key in keys[: lookups // 2]:
        table.get({KEY: key})
    spent = [clock(lambda key=key: table.get({KEY: key})) for key in keys[lookups // 2 :]]
    again = [clock(lambda key=key: table.get({KEY: key})) for key in keys[lookups // 2 :]]
    hot = chance.choice(rows, min(_HOT, rows), replace=False)
    many = chance.choice(rows, min(batch, rows), replace=False)
    seconds = {
        "hot": min(clock(lambda: table.get(_keys(hot))).seconds for _ in range(3)),
        "many": min(clock(lambda: table.get(_keys(many))).seconds for _ in range(2)),
        "absent": clock(lambda: [table.get({KEY: rows + key}) for key in range(lookups)]).seconds,
        "where": median(clock(lambda key=key: table.scan(where=f"{KEY} = {key}").to_arrow()).seconds for key in keys[:20]),
    }
    cold, counted = _bytes_read(folder, table.name, keys)
    cached = lsmlake.connect(folder, cache=folder / "cache").table(table.name)
    copying = clock(lambda: _copy_rows(cached, folder / "cache", lambda: chance.integers(0, rows, lookups).tolist()))
    copied = clock(lambda: [cached.get({KEY: key}) for key in keys])
    assert cached.get({KEY: keys[0]}) == table.get({KEY: keys[0]})
    many_copied = min(clock(lambda: cached.get(_keys(many))).seconds for _ in range(2))
    found = table.get(_keys(many))
    assert sorted(found[KEY].to_pylist()) == sorted(many.tolist())
    return Report(
        "point_read",
        f"{lookups // 2} single lookups after as many that do not count; best of a few batches",
        {"rows": f"{rows:,} x 12 columns in {table.files().num_rows} files of 8 buckets"},
        f"{found.num_rows:,} rows",
        (
            Measure("first lookup of a new handle", first, None),
            Measure("single lookup of a random key: p50", median(one.seconds for one in spent) * 1e3, None, "ms"),
            Measure("the same, CPU: mean", sum(one.cpu for one in spent) / len(spent) * 1e3, None, "ms"),
            Measure("single lookups a second", _per_second(spent), None, "1/s", 1_000, at_least=True),
            Measure("single lookups a second of keys looked up before", _per_second(again), None, "1/s", 2_000, at_least=True),
            Measure("single lookups of absent keys a second", lookups / seconds["absent"], None, "1/s"),
            Measure(f"lookups a second, {len(hot):,} keys in one call", len(hot) / seconds["hot"], None, "1/s"),
            Measure(f"lookups a second, {len(many):,} keys in one call", len(many) / seconds["many"], None, "1/s", 2_000, True),
            Measure("scan with where key = ..: p50", seconds["where"] * 1e3, None, "ms"),
            Measure("with a cache on disk: first lookups, which copy all rows, CPU", copying.cpu, None),
            Measure("with a cache on disk: single lookups a second", lookups / copied.seconds, None, "1/s", 20_000, True),
            Measure("the same, CPU: mean", copied.cpu / lookups * 1e3, None, "ms"),
            Measure(
                f"with a cache on disk: lookups a second, {len(many):,} keys in one call", len(many) / many_copied, None, "1/s"
            ),
            Measure("bytes read from data files by a single lookup of a random key", counted, None, "bytes"),
            Measure("bytes read by the first lookup of a new handle", cold, None, "bytes"),
        ),
    )


def _per_second(lookups: list[Spent]) -> float:
    return len(lookups) / sum(one.seconds for one in lookups)


def _keys(ids: np.ndarray) -> pa.Table:
    return pa.table({KEY: ids})


class _Counting(LocalStorage):
    """Counts the bytes read from data files."""

    count = 0

    def read(self, path: str) -> pa.NativeFile:
        file = super().read(path)
        return pa.PythonFile(_CountedFile(self, file), mode="r") if "/data-" in path else file

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        return self.read(path)


class _CountedFile:
    def __init__(self, storage: _Counting, file: pa.NativeFile) -> None:
        self.storage, self.file, self.closed = storage, file, False
        self.seek, self.tell, self.size = file.seek, file.tell, file.size

    def read(self, length: int = -1) -> bytes:
        data = self.file.read() if length is None or length < 0 else self.file.read(length)
        self.storage.count += len(data)
        return data

    def close(self) -> None:
        self.closed = True
        self.file.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _copy_rows(cached: Table, folder: Path, draw: Callable[[], list[int]]) -> None:
    """Looks drawn keys up until the files of the cache do not become more."""
    before = -1
    while (files := sum(1 for _ in folder.rglob("*"))) > before:
        before = files
        for key in draw():
            cached.get({KEY: key})


def _bytes_read(folder: Path, name: str, keys: list[int]) -> tuple[float, float]:
    """The bytes that the first lookup reads, and the mean of lookups after half of the keys."""
    storage = _Counting(folder)
    table: Table = Lake(Env(storage, followers=FOLLOWERS), Runtime()).table(name)
    table.get({KEY: keys[0]})
    first = storage.count
    for key in keys[1 : len(keys) // 2]:
        table.get({KEY: key})
    before = storage.count
    for key in keys[len(keys) // 2 :]:
        table.get({KEY: key})
    return first, (storage.count - before) / (len(keys) - len(keys) // 2)
