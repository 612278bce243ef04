"""Events of Debezium into a table that has rows already: one call here, beside unpacking by hand and what others write with.

Each batch has inserts, updates and deletes of keys of the whole table. Iceberg 1.12 and Delta 4.4 get `from_json` with typed
columns, the newest event of each key, and a MERGE; Hudi gets the same columns by its data source, which takes the newest itself.
`Hudi-older` is the newest Hudi that has a bundle for Spark 3.5: it gets the same files in a process of its own, not in turns.
The positions of the events, late ones and values that need more than a cast are handled here only.
Needs the extra `test` and then pyspark 4.1: pip install 'pyspark[connect]>=4.1,<4.2'. The first run fetches the jars by Maven.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import lsmlake
from bench import event_merges_older
from bench.checksum import of_table, same
from bench.debezium_events import by_hand, payload
from bench.event_merges_older import NAMES, HudiTable
from bench.peers.delta import Delta
from bench.peers.hudi import Hudi
from bench.peers.iceberg import Iceberg
from bench.peers.roster import ENVIRONMENTS, PEERS
from bench.peers.setup import HOME, jars_of, provide, python_of
from bench.peers.shared import shared_session
from bench.peers.spark import properties_sql
from bench.pipelines import COLUMNS, DEBEZIUM
from bench.result import Measure, Report
from bench.timing import Spent, compared, take_turns

_BUCKETS = 4
_PEERS = {"Iceberg": ("iceberg", Iceberg), "Delta": ("delta", Delta), "Hudi": ("hudi-bucket", Hudi)}
"""By side, the name in the roster and the class with the settings."""
_OLDER = "Hudi-older"
_TABLES = {"Iceberg": "lake.bench.t", "Delta": "bench.t"}
_NEWEST = "SELECT r.* FROM (SELECT max_by(struct(*), lsn) AS r FROM parsed GROUP BY id)"
_MERGE = f"""
MERGE INTO {{table}} t USING newest s ON t.id = s.id
WHEN MATCHED AND s.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = s.{name}" for name in NAMES[1:])}
WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({", ".join(NAMES)}) VALUES ({", ".join(f"s.{name}" for name in NAMES)})
"""


def run(folder: Path, rows: int = 1_000_000, batch: int = 200_000, rounds: int = 3, peers: str = ",".join(_PEERS)) -> Report:
    """`rows`: in the table before the first batch. `batch`: events of a batch. `peers`: which of them, or Hudi-older, separated
    by commas; one whose jars cannot be had must be left out."""
    names = peers.split(",")
    with shared_session("event_merges", folder, dict(_PEERS[name] for name in names if name != _OLDER)) as spark:
        spent, answers = _in_turns(spark, folder, [name for name in names if name != _OLDER], rows, batch, rounds)
    if _OLDER in names:
        spent[_OLDER], answers[_OLDER] = _older(folder, rounds)
    rate = Measure("debezium-json: events a second of CPU", batch / spent["lsmlake"].cpu, None, "/s")
    beside = [one for name in names for one in compared(f"lsmlake / {name}", spent["lsmlake"], spent[name], 1.0)]
    return Report(
        "event_merges",
        f"{rounds} batches by each side in turns after one that does not count, best of them",
        {"rows": f"{rows:,} x {len(NAMES)} columns in {_BUCKETS} buckets", "batch": f"{batch:,} events of random keys"},
        same(**answers),
        (rate, *beside),
    )


def _in_turns(
    spark: SparkSession, folder: Path, names: Sequence[str], rows: int, batch: int, rounds: int
) -> tuple[dict[str, Spent], dict[str, str]]:
    """What each side takes, and its answer."""
    for number in range(rounds + 1):
        pq.write_table(made_events(number, rows, batch), folder / f"events-{number}.parquet", row_group_size=max(1, batch // 4))
    pq.write_table(pa.table({"value": [json.dumps(payload(3 * key, key)) for key in range(rows)]}), folder / "first.parquet")
    loaded = by_hand(spark.read.parquet(str(folder / "first.parquet")))
    sides = {"lsmlake": _ours(folder, spark, loaded)}
    for name in names:
        sides[name] = _hudi(spark, folder / "hudi", loaded) if name == "Hudi" else _peer(spark, name, loaded)

    def applying(apply: Callable[[DataFrame], object], number: int) -> Callable[[], object]:
        return lambda: apply(spark.read.parquet(str(folder / f"events-{number}.parquet")))

    spent = take_turns({name: partial(applying, side.apply) for name, side in sides.items()}, rounds)
    return spent, {name: of_table(side.rows()) for name, side in sides.items()}


def made_events(number: int, rows: int, size: int) -> pa.Table:
    """Events of keys of the table, and of a tenth as many new ones. Numbers rise from batch to batch, and so do positions."""
    keys = np.random.default_rng(number).integers(0, rows + rows // 10, size).tolist()
    first = 3 * rows + number * size
    return pa.table({"value": [json.dumps(payload(first + place, key)) for place, key in enumerate(keys)]})


class _Side(NamedTuple):
    """A table. `apply`: events to it. `rows`: all of them."""

    apply: Callable[[DataFrame], object]
    rows: Callable[[], pa.Table]


def _ours(folder: Path, spark: SparkSession, loaded: DataFrame) -> _Side:
    lake = lsmlake.connect(folder / "lsmlake", spark=spark)
    lake.create_database("bench")
    table = lake.create_table("bench.t", COLUMNS, primary_key=["id"], options={"bucket": _BUCKETS})
    table.upsert(loaded.where("op <> 'd'").select(*NAMES))
    return _Side(lambda events: table.upsert(events, format=DEBEZIUM), lambda: table.to_arrow().select(NAMES))


def _peer(spark: SparkSession, name: str, loaded: DataFrame) -> _Side:
    table = _TABLES[name]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {table.rpartition('.')[0]}")
    layout = f"USING iceberg PARTITIONED BY (bucket({_BUCKETS}, id)) {properties_sql(Iceberg.properties)}"
    if name == "Delta":
        layout = f"USING delta CLUSTER BY (id) {properties_sql({**Delta.properties, **Delta.inline})}"
    loaded.createOrReplaceTempView("loaded")
    spark.sql(f"CREATE TABLE {table} {layout} AS SELECT {', '.join(NAMES)} FROM loaded WHERE op <> 'd'")

    def merge(events: DataFrame) -> None:
        by_hand(events).createOrReplaceTempView("parsed")
        spark.sql(_NEWEST).createOrReplaceTempView("newest")
        spark.sql(_MERGE.format(table=table)).collect()

    return _Side(merge, lambda: spark.table(table).select(*NAMES).toArrow())


def _hudi(spark: SparkSession, folder: Path, loaded: DataFrame) -> _Side:
    table = HudiTable(spark, folder, "hoodie.table.ordering.fields")
    table.load(loaded)
    return _Side(table.apply, lambda: table.rows().toArrow())


def _older(folder: Path, rounds: int) -> tuple[Spent, str]:
    """What Hudi takes on the older Spark for the same batches, the least of those after the first, and its answer."""
    peer = PEERS["hudi-bucket-older"]
    environments = [one for one in ENVIRONMENTS if one.name == peer.environment]
    if failed := provide(HOME, environments, [peer.jars]):
        raise SystemExit(f"event_merges needs what the older Hudi needs: {failed}")
    command = [python_of(HOME, peer.environment), "-m", event_merges_older.__name__, folder, rounds, *jars_of(HOME, peer.jars)]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    spent = [Spent(*one) for one in json.loads(done.stdout.splitlines()[-1])]
    found = pq.read_table(folder / event_merges_older.ROWS).select(NAMES)
    return Spent(*map(min, zip(*spent[1:], strict=True))), of_table(found)
