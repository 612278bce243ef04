"""Planning a read of many files: from the name of a table to the files that a query must read, without a cache.

The files exist only in manifests, committed as by a writer: ten commits, one partition each, ten buckets of a hundred files.
A new `Lake` makes every plan. Then one handle plans a read after each of many commits, as in a driver that runs for weeks; its
memory must not grow.
"""

from __future__ import annotations

import datetime
import resource
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import psutil
import pyarrow as pa

import lsmlake
from bench.result import Measure, Report
from bench.timing import clock
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.format.data_files import COMPACT, Bucket, BucketEdit, ColumnStats, CommitMessage, DataFile
from lsmlake.format.paths import bucket_directory
from lsmlake.read.plan import Plan
from lsmlake.tables.version import Version

PARTITIONS = BUCKETS = 10
NAME = "bench.many"
_HANDLE_MB = 200  # with 100,000 files
DAY = datetime.date(2026, 1, 1)
_VALUES = ("a", "b", "c", "d", "e")
_ROWS = 1_000_000  # of a file
SCHEMA = pa.schema(
    [pa.field("day", pa.date32(), False), pa.field("id", pa.int64(), False), *(pa.field(name, pa.float64()) for name in _VALUES),
     pa.field("text", pa.string())]
)  # fmt: skip


def run(folder: Path, files: int = 10_000, rounds: int = 5, commits: int = 200) -> Report:
    """`files`: a multiple of a hundred. `commits`: those that the long-lived handle sees, half of them by others."""
    each = files // PARTITIONS // BUCKETS
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    table = build(lake, each)
    queries = {
        "every file": (None, files),
        "one partition": ("day = '2026-01-03'", files // PARTITIONS),
        "one key": (f"day = '2026-01-03' and id = {_ROWS // 2}", 1),
        "a value in a file of every bucket": ("a = 0.5", PARTITIONS * BUCKETS),
    }
    measures = []
    for what, (where, expected) in queries.items():
        found = _plan(folder, where)
        assert found.files == expected, (what, found.pruned)
        seconds = min(clock(partial(_plan, folder, where)).seconds for _ in range(rounds))
        measures.append(Measure(f"plan of {what}: {expected:,} files", seconds, None, target=1.0))
    with get_context("spawn").Pool(1) as alone:
        peak = alone.apply(_peak_mb, (folder, None))
        measures.append(Measure("peak memory of a process that plans every file", peak, None, "MB"))
    kept = lsmlake.connect(folder).table(NAME)
    kept.scan().plan()
    seconds = min(clock(kept.scan().plan).seconds for _ in range(rounds))
    measures.append(Measure(f"plan of every file by a handle that is kept: {files:,} files", seconds, None, target=1.0))
    measures += _long_lived(folder, files, commits)
    return Report(
        "planning",
        f"best of {rounds}, nothing cached",
        {
            "files": f"{files:,} in {PARTITIONS} partitions x {BUCKETS} buckets, bounds of {len(SCHEMA)} columns",
            "metadata": f"{sum(table.manifests()['file_size'].to_pylist()):,} bytes in {PARTITIONS} manifests",
        },
        ", ".join(f"{expected:,}" for _, expected in queries.values()) + " files",
        tuple(measures),
    )


def _plan(folder: Path, where: str | None) -> Plan:
    return lsmlake.connect(folder).table(NAME).scan(where=where).plan()


def _peak_mb(folder: Path, where: str | None) -> float:
    _plan(folder, where)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _long_lived(folder: Path, files: int, commits: int) -> list[Measure]:
    """Memory of a handle that sees `commits` commits of ten files each, half of them by another handle."""
    table, other = (lsmlake.connect(folder).table(NAME) for _ in range(2))
    process = psutil.Process()
    resident, kept, seconds = [], [], []
    for number in range(commits):
        add((table, other)[number % 2], number)
        seconds.append(clock(partial(table.scan(where=f"day = '2026-01-03' and id = {_ROWS // 2}").plan)).seconds)
        resident.append(process.memory_info().rss)
        kept.append(table.meta.files.cache.bytes)
    settled = commits // 4
    return [
        Measure(f"plan of one key by a handle that is kept, {files:,} files, after a commit", min(seconds[settled:]), None),
        Measure(f"memory of that handle after {commits} commits", kept[-1] / 1e6, None, "MB", _HANDLE_MB),
        Measure(
            f"growth of the process from commit {settled} to {commits}", (resident[-1] - resident[settled]) / 1e6, None, "MB", 100
        ),
    ]


def add(table: Table, number: int) -> None:
    """Commit ten more files."""
    version = table.version
    messages = [
        CommitMessage(bucket, BucketEdit(bucket, BUCKETS, (file_of(version, bucket, number),))) for bucket in _buckets(DAY)
    ]
    commit(version, Request(Identity(f"later-{number}"), messages))


def build(lake: Lake, each: int, buckets: int = BUCKETS) -> Table:
    """A table whose files exist only in manifests; `each`: files of a bucket, of which each partition has `buckets`."""
    table = lake.create_table(NAME, SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": buckets})
    for number in range(PARTITIONS):
        day, version = DAY + datetime.timedelta(days=number), table.version
        messages = [
            CommitMessage(bucket, BucketEdit(bucket, buckets, _files(version, bucket, each))) for bucket in _buckets(day, buckets)
        ]
        commit(version, Request(Identity(f"day-{number}"), messages))
    return table


def _buckets(day: datetime.date, count: int = BUCKETS) -> list[Bucket]:
    return [Bucket((day,), number) for number in range(count)]


def _files(version: Version, bucket: Bucket, each: int) -> tuple[DataFile, ...]:
    """A run of `each` files; file n holds ids from n million on and values from n to n + 1."""
    return tuple(file_of(version, bucket, number) for number in range(each))


def file_of(version: Version, bucket: Bucket, number: int) -> DataFile:
    day, first, last, chance = bucket.partition[0], number * _ROWS, (number + 1) * _ROWS - 1, version.meta.env.random
    bounds = {name: (number + chance() / 4, number + 1 - chance() / 4) for name in _VALUES}
    bounds |= {"day": (day, day), "id": (first, last), "text": (f"{chance():.14f}", f"{1 + chance():.14f}")}
    stats = {id: ColumnStats(int(chance() * _ROWS), *bounds[name]) for name, id in version.schema.field_ids().items()}
    size, name = int(chance() * (128 << 20)), f"data-{version.meta.env.ids()}.parquet"
    directory = bucket_directory(bucket, version.schema.partition_columns, version.schema.parsed_options.layout.default_partition)
    return DataFile(name, directory, size, _ROWS, 0, (first,), (last,), 1, 0, COMPACT, version.meta.env.clock(), stats=stats)
