"""Reading changes on Spark, beside Delta's change data feed and Iceberg's changelog view; and how soon a follower has them.

Every side gets the same upserts: one of a hundredth of the rows, then a hundred small ones into a table of its own. Each is then
asked for the changes, with the old row of an update: of the one commit, and of the hundred together. The answer is the number of
changes and a sum by kind. Iceberg makes changelog views only of tables whose statements copy files (it refuses delete files).
lsmlake reads the changelog of `changelog-producer = lookup`, and once more the difference of the two snapshots, for which a table
needs no changelog. Needs the extra `test` and then pyspark 4.1: pip install 'pyspark[connect]>=4.1,<4.2'.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lsmlake
from bench.peers.delta import Delta
from bench.peers.iceberg import Iceberg
from bench.peers.shared import shared_session
from bench.peers.spark import properties_sql
from bench.result import Measure, Report
from bench.rows import KEY, orders
from bench.timing import Spent, compared, take_turns

_BUCKETS = 4
_PEERS = {"iceberg": Iceberg, "delta": Delta}
_KINDS = {
    "Delta": {"update_preimage": "-U", "update_postimage": "+U", "insert": "+I", "delete": "-D"},
    "Iceberg": {"UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "INSERT": "+I", "DELETE": "-D"},
}
_SMALL = 1_000
"""Rows of a small upsert."""
_BETWEEN = 0.1
"""Seconds between two commits that a follower waits for."""


def run(folder: Path, rows: int = 10_000_000, share: float = 0.01, commits: int = 100, rounds: int = 5) -> Report:
    """`rows`: in the large table. `share`: of them, changed by one commit. `commits`: of 1,000 rows, to a table of a
    twentieth."""
    works = {
        "one commit": _Work(rows, (int(rows * share),)),
        f"{commits:,} commits": _Work(rows // 20, (_SMALL,) * commits),
    }
    with shared_session("change_feeds", folder, _PEERS) as spark:
        lake = lsmlake.connect(folder / "lsmlake", spark=spark)
        lake.create_database("bench")
        asked = {name: _asked(lake, spark, folder, work, rounds) for name, work in works.items()}
    measures = []
    for name, (spent, _) in asked.items():
        for ours in spent.keys() - {*_KINDS}:
            measures += [one for side in _KINDS for one in compared(f"{name}: {ours} / {side}", spent[ours], spent[side], 1.0)]
    return Report(
        "change_feeds",
        f"best of {rounds} rounds in turns after one that does not count, from the call to the collected sums",
        {
            "one commit": f"{int(rows * share):,} updates of random keys, of {rows:,} rows x 12 columns in {_BUCKETS} buckets",
            "many commits": f"{commits:,} of {_SMALL:,} updates each, of {rows // 20:,} rows",
            "follower": f"{commits:,} commits of {_SMALL:,} rows, {_BETWEEN:g} s between two",
        },
        "; ".join(f"{name}: {changes:,} changes" for name, (_, changes) in asked.items()),
        (*measures, *followed(folder / "followed", commits)),
        ("Of a follower: from the return of `upsert` in one process to the rows in another one.",),
    )


class _Work(NamedTuple):
    """`rows` of the table at first, and of each of the upserts then."""

    rows: int
    updates: tuple[int, ...]


def _asked(lake: lsmlake.Lake, spark: SparkSession, folder: Path, work: _Work, rounds: int) -> tuple[Mapping[str, Spent], int]:
    """What each side takes for the changes of all upserts together, and how many there are."""
    path, random = folder / f"load-{work.rows}.parquet", np.random.default_rng(1)
    pq.write_table(orders(np.arange(work.rows)), path)
    batches = [folder / f"batch-{work.rows}-{number}.parquet" for number in range(len(work.updates))]
    for number, (batch, size) in enumerate(zip(batches, work.updates, strict=True)):
        pq.write_table(orders(random.choice(work.rows, size, replace=False), number + 1), batch)
    feeds = {
        "changelog": _ours(lake, spark, path, batches, "changelog"),
        "Delta": _delta(spark, path, batches),
        "Iceberg": _iceberg(spark, path, batches),
    }
    if len(batches) == 1:  # of several commits, a difference has the last change of a key only
        feeds["difference"] = _ours(lake, spark, path, batches, "diff")
    found: dict[str, dict[str, tuple[int, int]]] = {}

    def ask(side: str) -> None:
        found[side] = {row["kind"]: (row["changes"], row["quantity"]) for row in _sums(feeds[side]()).collect()}

    spent = take_turns({side: lambda _, side=side: partial(ask, side) for side in feeds}, rounds)
    assert all(one == found["changelog"] for one in found.values()), found
    return spent, sum(changes for changes, _ in found["changelog"].values())


def _sums(changes: DataFrame) -> DataFrame:
    return changes.groupBy("kind").agg(F.count("*").alias("changes"), F.sum("quantity").alias("quantity"))


def _ours(lake: lsmlake.Lake, spark: SparkSession, path: Path, batches: list[Path], mode: str) -> Callable[[], DataFrame]:
    name = f"bench.t_{path.stem.replace('-', '_')}_{mode}"
    options = {"bucket": _BUCKETS, "changelog-producer": "lookup" if mode == "changelog" else "none"}
    options |= {"snapshot.num-retained.min": 1_000, "snapshot.num-retained.max": 1_000}
    rows = spark.read.parquet(str(path))
    table = lake.create_table(name, rows.schema, primary_key=[KEY], options=options)
    table.upsert(rows)
    before = table.snapshots()["snapshot_id"][-1].as_py()
    for batch in batches:
        table.upsert(spark.read.parquet(str(batch)))
    return lambda: lake.table(name).changes(before, mode=mode).to_spark().withColumnRenamed("_row_kind", "kind")


def _delta(spark: SparkSession, path: Path, batches: list[Path]) -> Callable[[], DataFrame]:
    name = f"bench.d_{path.stem.replace('-', '_')}"
    properties = {**Delta.properties, **Delta.inline, "delta.enableChangeDataFeed": "true"}
    spark.sql("CREATE DATABASE IF NOT EXISTS bench")
    spark.sql(
        f"CREATE TABLE {name} USING delta CLUSTER BY ({KEY}) {properties_sql(properties)} AS SELECT * FROM parquet.`{path}`"
    )
    before = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"]
    _merge(spark, name, batches)
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", before + 1)
    return lambda: feed.table(name).withColumn("kind", _kind("Delta", "_change_type"))


def _iceberg(spark: SparkSession, path: Path, batches: list[Path]) -> Callable[[], DataFrame]:
    name = f"lake.bench.i_{path.stem.replace('-', '_')}"
    properties = {**Iceberg.properties, "write.merge.mode": "copy-on-write"}
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.bench")
    spark.sql(
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY (bucket({_BUCKETS}, {KEY})) {properties_sql(properties)}"
        f" AS SELECT * FROM parquet.`{path}`"
    )
    before = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()[0][0]
    _merge(spark, name, batches)

    def feed() -> DataFrame:
        view = spark.sql(
            f"CALL lake.system.create_changelog_view(table => '{name.removeprefix('lake.')}', changelog_view => 'changes',"
            f" identifier_columns => array('{KEY}'), options => map('start-snapshot-id', '{before}'), compute_updates => true)"
        ).collect()[0][0]
        return spark.table(view).withColumn("kind", _kind("Iceberg", "_change_type"))

    return feed


def _merge(spark: SparkSession, name: str, batches: list[Path]) -> None:
    for batch in batches:
        spark.sql(
            f"MERGE INTO {name} t USING parquet.`{batch}` s ON t.{KEY} = s.{KEY}"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()


def _kind(side: str, column: str):
    return F.create_map(*(F.lit(text) for pair in _KINDS[side].items() for text in pair))[F.col(column)]


# -- a follower -------------------------------------------------------------------------------------------------------

_FOLLOWER = """
import sys, time, lsmlake
batches = lsmlake.connect(sys.argv[1]).table("bench.t").follow(wait=30.0, snapshot=int(sys.argv[2]))
print("ready", flush=True)
for batch in batches:
    print(batch.snapshot, batch.to_arrow().num_rows, time.time(), flush=True)
"""


def followed(folder: Path, commits: int, idle: float = 5.0) -> list[Measure]:
    """How soon another process has each of `commits`, and what it takes while it waits for `idle` seconds."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    options = {"bucket": 1, "changelog-producer": "input"}
    table = lake.create_table("bench.t", orders(np.arange(1)).schema, primary_key=[KEY], options=options)
    first = table.upsert(orders(np.arange(20 * _SMALL))).id + 1
    command = [sys.executable, "-c", _FOLLOWER, str(folder), str(first)]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert follower.stdout.readline() == "ready\n"
        late = []
        for number in range(commits + 1):
            time.sleep(_BETWEEN)
            table.upsert(orders(np.arange(_SMALL), number))
            done = time.time()
            _, rows, seen = follower.stdout.readline().split()
            assert int(rows) == _SMALL, "no change is lost"
            late.append(max(0.0, float(seen) - done) * 1000)
        before = psutil.Process(follower.pid).cpu_times()
        time.sleep(idle)
        after = psutil.Process(follower.pid).cpu_times()
    finally:
        follower.kill()
        follower.wait()
    cpu = (sum(after[:2]) - sum(before[:2])) / idle
    ordered = sorted(late[1:])  # the first loads modules
    return [
        Measure("a follower has a commit: p50", ordered[len(ordered) // 2], None, "ms", 100),
        Measure("a follower has a commit: p99", ordered[int(0.99 * (len(ordered) - 1))], None, "ms", 100),
        Measure("a follower that waits: CPU of a second", 1000 * cpu, None, "ms"),
    ]
