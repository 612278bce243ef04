"""What one machine cannot show: a million files, thousands of buckets, a hundred executors. Partly a model, and told as such.

1. Plans of a table of very many files that exist only in manifests, by Spark tasks and in one process.
2. A small upsert into a table with few and with many live files.
3. A model of a micro-batch on a cluster. Measured here: what the driver does for each bucket of a commit, what Spark takes for a
   task that does nothing, and how fast one core upserts into one bucket. The model adds them up: the driver works alone, tasks
   share the cores. It leaves out the network, the store and skew, so its figures are limits and not predictions.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import lsmlake
from bench import commit_growth, planning
from bench.result import Measure, Report
from bench.session import session
from bench.timing import clock
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.format.data_files import APPEND, Bucket, BucketEdit, CommitMessage
from lsmlake.spark import tasks
from lsmlake.tables.version import Version

CORES = 4
"""Of an executor."""
EXECUTORS = (1, 10, 100)
_SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), False), *(pa.field(f"v{number}", pa.float64()) for number in range(6)), ("text", pa.string())]
)
_UPSERTS = 8
_FEW = 100  # buckets of a small commit


class Costs(NamedTuple):
    """Seconds, measured on one machine: of the driver for a commit and for each bucket of it, of Spark for each task, of a task
    that writes a bucket, and the rows that one core upserts in a second."""

    commit: float
    bucket: float
    task: float
    fixed: float
    rows: float


class Batch(NamedTuple):
    """A modelled micro-batch: seconds by who works."""

    driver: float
    scheduling: float
    tasks: float

    @property
    def seconds(self) -> float:
        return self.driver + max(self.scheduling, self.tasks)

    @property
    def bottleneck(self) -> str:
        """Who works longest: while the driver commits, or hands out tasks, added executors do not help."""
        return max(("the commit", self.driver), ("scheduling", self.scheduling), ("tasks", self.tasks), key=lambda one: one[1])[0]


def modelled(costs: Costs, executors: int, buckets: int, rows: int) -> Batch:
    """A micro-batch of so many rows that touches so many buckets, a task each. Tasks take whole waves of the cores."""
    waves = -(-buckets // (executors * CORES))
    task = costs.fixed + rows / buckets / costs.rows
    return Batch(costs.commit + buckets * costs.bucket, buckets * costs.task, waves * task)


def run(
    folder: Path,
    files: int = 1_000_000,
    most: int = 100_000,
    turns: int = 60,
    buckets: int = 4_000,
    rows: int = 200_000,
    empty: int = 1_000,
) -> Report:
    """`files`: of the table that is planned, a multiple of a thousand. `most`: the greatest number of live files in part 2.
    `turns`: upserts into each of its tables. `buckets`: of the large commit. `rows`: of a batch that one core upserts. `empty`:
    tasks that do nothing."""
    with session(folder) as spark:
        measures = [*_plans(spark, folder / "planned", files), *_commits(folder / "commits", most, turns)]
        costs, found = _costs(spark, folder / "costs", buckets, rows, empty)
    measures += found
    notes = []
    for touched, batch_rows in ((400, 10_000_000), (4_000, 100_000_000), (4_000, 4_000_000)):
        for executors in EXECUTORS:
            batch = modelled(costs, executors, touched, batch_rows)
            notes.append(
                f"modelled: {batch_rows:,} rows into {touched:,} buckets by {executors} executors of {CORES} cores: "
                f"{batch.seconds:.1f} s, {batch_rows / batch.seconds / 1e6:.2f} M rows/s; "
                f"driver {batch.driver:.2f} s, scheduling {batch.scheduling:.2f} s, tasks {batch.tasks:.2f} s; "
                f"bottleneck: {batch.bottleneck}"
            )
    return Report(
        "scale",
        "plans: the second of a session; upserts: p50 in turns; costs of the model: p50",
        {"files": f"{files:,} in {planning.PARTITIONS} partitions x 100 buckets", "model": str(costs)},
        f"{files:,} files planned",
        tuple(measures),
        tuple(notes),
    )


def _plans(spark, folder: Path, files: int) -> Iterator[Measure]:
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    buckets = 100
    planning.build(lake, files // planning.PARTITIONS // buckets, buckets)
    for what, where in (
        ("every file", None),
        ("a value in a file of every bucket", "a = 0.5"),
        ("one key", "day = '2026-01-03' and id = 500000"),
    ):
        by_tasks, alone = (partial(_planned, folder, side, where) for side in (spark, None))
        assert by_tasks() == alone(), where
        ours, theirs = clock(by_tasks).seconds, clock(alone).seconds
        yield Measure(f"plan of {what}, {files:,} files: by Spark tasks / in one process", ours, theirs)


def _planned(folder: Path, spark, where: str | None) -> int:
    """The number of files of a plan by a new handle."""
    return lsmlake.connect(folder, spark=spark).table(planning.NAME).scan(where=where).plan().files


def _commits(folder: Path, most: int, turns: int) -> Iterator[Measure]:
    tables = {}
    for files in (most // 100, most // 10, most):
        tables[files] = commit_growth.created(folder / str(files), 10)
        commit_growth.fill(tables[files], files // 100)
    spent = {files: [] for files in tables}
    for number in range(turns):
        for files, table in tables.items():
            spent[files].append(commit_growth.upsert(table, number))
    few = spent[most // 100][turns // 10 :]
    for files in tables:
        ours = spent[files][turns // 10 :]
        for kind in ("seconds", "cpu"):
            values = (median(getattr(one, kind) for one in side) * 1e3 for side in (ours, few))
            target = 1.5 if kind == "seconds" else None
            yield Measure(f"upsert of 100 rows, {kind}: with {files:,} live files / with {most // 100:,}", *values, "ms", target)


def _costs(spark, folder: Path, buckets: int, rows: int, empty: int) -> tuple[Costs, list[Measure]]:
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    few, many = (_commit_seconds(lake, buckets) for buckets in (_FEW, buckets))
    bucket = (many - few) / (buckets - _FEW)
    cores = spark.sparkContext.defaultParallelism
    one, all_ = (min(clock(partial(_empty_tasks, spark, count)).seconds for _ in range(3)) for count in (cores, empty))
    task = (all_ - one) / (empty - cores)
    python = min(clock(partial(_python_tasks, spark, empty // 20 * cores)).seconds for _ in range(3)) / (empty // 20)
    tiny, rate = _one_core(lake, rows)
    costs = Costs(max(0.0, few - _FEW * bucket), bucket, task, python + tiny, rate)
    return costs, [
        Measure(f"driver: commit of {buckets:,} buckets, decoded from what tasks return", many, None),
        Measure(f"driver: the same of {_FEW} buckets", few, None),
        Measure(f"Spark: one of {empty:,} empty tasks, {cores} at a time", task * 1e3, None, "ms"),
        Measure("Spark: a core for a task in Python that does nothing", python * 1e3, None, "ms"),
        Measure("task: upsert of 100 rows into a bucket", tiny * 1e3, None, "ms"),
        Measure(f"task: upserts of {rows:,} rows x 8 columns with compaction, one core", rate / 1e6, None, "M rows/s"),
    ]


def _commit_seconds(lake, buckets: int) -> float:
    """The driver's work for one run in each of so many buckets: p50 of five commits."""
    table = lake.create_table(
        f"bench.b{buckets}", planning.SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": buckets}
    )
    spent = []
    for number in range(5):
        version = table.version
        spent.append(clock(partial(_commit, version, _returned(version, buckets, number), number)).seconds)
    return median(spent)


def _returned(version: Version, buckets: int, number: int) -> list[bytes]:
    """What the tasks of a micro-batch return: a level-0 file of each bucket."""
    found = []
    for bucket in (Bucket((planning.DAY,), place) for place in range(buckets)):
        file = planning.file_of(version, bucket, number)._replace(level=0, source=APPEND)
        found.append(pickle.dumps(CommitMessage(bucket, BucketEdit(bucket, buckets, (file,)))))
    return found


def _commit(version: Version, returned: list[bytes], number: int) -> None:
    commit(version, Request(Identity(f"w{number}"), list(map(pickle.loads, returned))))


def _empty_tasks(spark, count: int) -> None:
    spark.range(0, count, 1, count).write.format("noop").mode("overwrite").save()


def _python_tasks(spark, count: int) -> None:
    tasks.spread(spark, _nothing, [None] * count)


def _nothing(value: object) -> object:
    return value


def _one_core(lake, rows: int) -> tuple[float, float]:
    """Seconds of a tiny upsert into one bucket, and rows per second of large ones, by the CPU: a core does nothing else."""
    chance = np.random.default_rng(7)
    table = lake.create_table("bench.one", _SCHEMA, primary_key=["id"], options={"bucket": 1})

    def batch(count: int) -> pa.Table:
        ids = chance.choice(4 * rows, count, replace=False)
        values = {f"v{number}": chance.random(count) for number in range(6)}
        return pa.table({"id": ids, **values, "text": pa.array(ids).cast(pa.string())}, schema=_SCHEMA)

    table.upsert(batch(rows))
    tiny = [clock(partial(table.upsert, batch(100))).cpu for _ in range(_UPSERTS)]
    large = [clock(partial(table.upsert, batch(rows))).cpu for _ in range(_UPSERTS)]
    return median(tiny), rows / (sum(large) / len(large))
