"""Whether a commit costs the same after many commits, and with many live files.

One table takes small upserts over the same keys, which compact inline: early commits are compared with late ones. Two other
tables take the same upserts in turns: one is new, the other has many live files in older partitions, each with a deletion vector.
These files exist in manifests only.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
import pyarrow as pa

import lsmlake
from bench.planning import file_of
from bench.result import Measure, Report
from bench.timing import Spent
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.format.data_files import Bucket, BucketEdit, CommitMessage, VectorRef

NAME = "bench.growing"
_ROWS, _KEYS = 100, 10_000
_DAY = datetime.date(2026, 1, 1)
_TODAY = datetime.date(2027, 1, 1)
_BUCKETS, _PARTITIONS = 10, 10
_SCHEMA = pa.schema(
    [pa.field("day", pa.date32(), False), pa.field("id", pa.int64(), False), *(pa.field(name, pa.float64()) for name in "abcde"),
     pa.field("text", pa.string())]
)  # fmt: skip


def run(folder: Path, commits: int = 10_000, window: int = 100, files: int = 100_000, turns: int = 300) -> Report:
    """`commits` of one table; `window` of them, around number `window` and at the end, are compared. `files`: a multiple of 100;
    `turns`: commits of each of the two other tables."""
    table = created(folder / "long", 1)
    spent = [upsert(table, number) for number in range(commits)]
    early, late = spent[window // 2 : window + window // 2], spent[-window:]
    measures = _compared(f"commit {commits:,} / commit {window}", late, early)
    few, many = created(folder / "few", _BUCKETS), created(folder / "many", _BUCKETS)
    fill(many, files // _PARTITIONS // _BUCKETS)
    pairs = [(upsert(many, number), upsert(few, number)) for number in range(turns)][turns // 10 :]
    measures += _compared(f"with {files:,} live files / without", *zip(*pairs, strict=True))
    live = many.files().num_rows
    return Report(
        "commit_growth",
        "p50, and the mean with all merges and expiries; CPU seconds beside the clock, because the machine may be shared",
        {
            "commits": f"{commits:,} upserts of {_ROWS} rows of {_KEYS:,} keys, 1 bucket; {turns} in turns, {_BUCKETS} buckets",
            "metadata": f"{table.manifests().num_rows} manifests after {commits:,} commits; "
            f"{many.manifests().num_rows} manifests of {live:,} files",
        },
        f"{table.scan().count():,} and {few.scan().count():,} rows",
        tuple(measures),
        (f"the late window's worst commit took {max(late).seconds:.2f} s, that with many files {max(pairs)[0].seconds:.2f} s",),
    )


def _compared(what: str, ours: Sequence[Spent], theirs: Sequence[Spent]) -> list[Measure]:
    return [
        Measure(f"{what}: {name} of {kind}", of(map(get, ours)) * 1e3, of(map(get, theirs)) * 1e3, "ms", target)
        for name, of, target in (("p50", lambda values: median(list(values)), 1.5), ("mean", mean, None))
        for kind, get in (("time", lambda one: one.seconds), ("CPU", lambda one: one.cpu))
    ]


def created(folder: Path, buckets: int) -> Table:
    """A new table with so many buckets in each partition."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    return lake.create_table(NAME, _SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": buckets})


def upsert(table: Table, number: int) -> Spent:
    """What upsert `number` takes."""
    chance = np.random.default_rng(number)
    ids = chance.choice(_KEYS, _ROWS, replace=False)
    values = {name: chance.random(_ROWS) for name in "abcde"}
    rows = pa.table({"day": [_TODAY] * _ROWS, "id": ids, **values, "text": [f"{number}"] * _ROWS}, schema=_SCHEMA)
    start, cpu = time.perf_counter(), time.process_time()
    table.upsert(rows)
    return Spent(time.perf_counter() - start, time.process_time() - cpu)


def fill(table: Table, each: int, buckets: int = _BUCKETS, *, vectors: bool = True) -> None:
    """A commit per partition, `each` files in each of its buckets, each file with a vector."""
    for day in (_DAY + datetime.timedelta(days=number) for number in range(_PARTITIONS)):
        messages, version = [], table.version
        for number in range(buckets):
            bucket = Bucket((day,), number)
            added = tuple(file_of(version, bucket, place) for place in range(each))
            puffin = f"dv-{table.meta.env.ids()}.puffin"
            refs = {file.name: VectorRef(puffin, 4 + 50 * place, 50, 10) for place, file in enumerate(added) if vectors}
            messages.append(CommitMessage(bucket, BucketEdit(bucket, buckets, added, vectors=refs)))
        commit(version, Request(Identity(f"day-{day}"), messages))
