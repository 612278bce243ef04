"""A table that grows from nothing with `bucket = auto`, beside one that was created with the number of buckets that the other one
ends with: bytes written, files, and what an upsert takes at the end.

Both take the same upserts: new rows, and updates of random rows. A compaction runs after every few of them. Sizes are those of a
table of 50 GB with the default target of 1 GB, scaled down: it ends with about fifty times `bucket.target-size`. Then both grow
to the full size without data, with the default options (`bench.simulated_growth`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import lsmlake
from bench import checksum
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.simulated_growth import grown as simulated
from bench.timing import Spent, clock
from lsmlake.api.table import Table
from lsmlake.format.manifest import ADD

_ROW_BYTES = 61  # stored
_TIMES = 50
_UPDATED = 5  # of so many rows of a batch one is an update
_EVERY = 5  # upserts between compactions


def run(folder: Path, rows: int = 3_000_000, commits: int = 150, gigabytes: int = 50, upserts: int = 500) -> Report:
    """`rows`: that are written in all. `gigabytes`: that are written in all, in the simulation, by so many `upserts`."""
    target = max(1, rows * _ROW_BYTES // _TIMES)
    grown = _grown(folder / "auto", "auto", target, rows, commits)
    buckets = grown.buckets
    fixed = _grown(folder / "fixed", buckets, target, rows, commits)
    late = commits // 5
    measures = (
        Measure("bytes written, splits included", grown.written, fixed.written, "B", 1.25),
        Measure("p50 of the last fifth of upserts, CPU", *(_p50(one.spent[-late:]) for one in (grown, fixed)), "ms", 1.1),
        Measure("p50 of the first fifth of upserts, CPU", *(_p50(one.spent[:late]) for one in (grown, fixed)), "ms"),
        Measure("compactions and splits, CPU", grown.compaction, fixed.compaction, "s"),
        Measure("files at the end", grown.files, fixed.files, ""),
        Measure("bytes written per byte of input", grown.written / (rows * _ROW_BYTES), None, ""),
    )
    size = gigabytes << 30
    auto = simulated(None, size, upserts, 1 / _UPDATED, _EVERY)
    other = simulated(auto.buckets, size, upserts, 1 / _UPDATED, _EVERY)
    measures += (
        Measure("simulated: bytes written, splits included", auto.written, other.written, "B", 1.25),
        Measure("simulated: p50 of the last fifth of upserts, bytes written", auto.p50, other.p50, "B", 1.1),
        Measure("simulated: files at the end", auto.files, other.files, ""),
        Measure("simulated: bytes written per byte of input", auto.written / size, None, ""),
    )
    return Report(
        "growth",
        "the table that grows first, then the other",
        {
            "table": f"{rows:,} rows in {commits} upserts, one of {_UPDATED} rows an update; bucket.target-size {target:,} bytes",
            "buckets": f"{buckets} at the end; a compaction after every {_EVERY} upserts",
        },
        f"{grown.answer}; {fixed.answer}",
        measures,
        (
            f"buckets after each fifth of the upserts: {', '.join(map(str, grown.steps))}",
            f"simulated, {gigabytes} GB in {upserts:,} upserts: {', '.join(f'{n} at {size}' for size, n in auto.steps.items())}",
        ),
    )


class _Grown:
    """What became of a table."""

    def __init__(self, table: Table) -> None:
        self.table, self.spent, self.compaction, self.steps = table, [], 0.0, []

    def end(self) -> _Grown:
        self.answer = checksum.of_table(self.table.scan().to_arrow())
        self.buckets, self.files = self.table.buckets().num_rows, self.table.files().num_rows
        self.written = _written(self.table)
        return self


def _grown(folder: Path, buckets: int | str, target: int, rows: int, commits: int) -> _Grown:
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    options = {"bucket": buckets, "snapshot.num-retained.min": 100_000}
    if buckets == "auto":
        options["bucket.target-size"] = target
    found = _Grown(lake.create_table("bench.growing", SCHEMA, primary_key=[KEY], options=options))
    first, each = 0, rows // commits
    for number in range(commits):
        new = each - (each // _UPDATED if number else 0)
        data = _batch(number, first, new, each)
        first += new
        found.spent.append(clock(partial(found.table.upsert, data)))
        if number % _EVERY == _EVERY - 1:
            found.compaction += clock(found.table.compact).cpu
        if number % (commits // 5) == commits // 5 - 1:
            found.steps.append(found.table.buckets().num_rows)
    return found.end()


def _batch(number: int, first: int, new: int, rows: int) -> pa.Table:
    chance = np.random.default_rng(number)
    updated = chance.choice(first, min(first, rows - new), replace=False) if first else np.zeros(0, np.int64)
    return orders(chance.permutation(np.concatenate([np.arange(first, first + new), updated])), number)


def _p50(spent: Sequence[Spent]) -> float:
    return 1e3 * median(one.cpu for one in spent)


def _written(table: Table) -> int:
    """The bytes of all data files that were ever written."""
    found: dict[str, int] = {}
    for number in table.snapshots()["snapshot_id"].to_pylist():
        entries = table.meta.manifests.delta(table.meta.snapshots.get(number), table.version.schema)
        kinds, names, sizes = (entries[name].to_pylist() for name in ("kind", "name", "bytes"))
        found |= {name: size for kind, name, size in zip(kinds, names, sizes, strict=True) if kind == ADD}
    return sum(found.values())
