"""Change events into rows without history (SCD type 1) and with it (type 2), beside Spark's AUTO CDC into Iceberg and Delta.

AUTO CDC exists from Spark 4.3 on. Iceberg 1.12 and Delta 4.4 have no jars for it, so its statements are run by hand on Spark 4.1.
They are those that `Scd1BatchProcessor` of Spark 4.3.0 builds for a micro-batch:
1. Take the newest event of each key.
2. Drop events that are older than a delete of their key in the auxiliary table.
3. MERGE the deletes into the auxiliary table.
4. MERGE into the target.
The query by which AUTO CDC first looks for null keys and sequences is left out. All tables of all sides are bucketed (Delta:
clustered) by the key. lsmlake does the same by `upsert` with `apply_as_deletes`, `sequence.field` and retained deletes.

SCD type 2 is built by AUTO CDC from many DataFrame operations. The peers run the shortest statement here that does the same work:
the versions of the keys of a batch get the next event as their end, and a MERGE writes those that are new or changed. A delete
stays as a version without duration. lsmlake runs `upsert` with `changelog-producer = input`, then `history_of`: two tables.
Needs the extra `test` and then pyspark 4.1: pip install 'pyspark[connect]>=4.1,<4.2'. The first run fetches the jars by Maven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import lsmlake
from bench.checksum import of_files, of_table, same
from bench.peers.delta import Delta
from bench.peers.iceberg import Iceberg
from bench.peers.shared import shared_session
from bench.peers.spark import properties_sql
from bench.result import Report
from bench.rows import KEY, orders
from bench.timing import Spent, compared, take_turns

_SEQUENCE, _OPERATION, _META = "seq", "op", "cdc"
_LATE, _DELETED = 0.2, 0.1
_TARGET = 1 / 3
_BUCKETS = 4
_NEWEST = f"SELECT max_by(struct(*), {_SEQUENCE}) AS r FROM events GROUP BY {KEY}"
_MARKED = f"""
SELECT r.* EXCEPT ({_OPERATION}), named_struct('deleted', CASE WHEN r.{_OPERATION} = 'd' THEN r.{_SEQUENCE} END,
    'upserted', CASE WHEN r.{_OPERATION} <> 'd' THEN r.{_SEQUENCE} END) AS {_META} FROM newest
"""
_TIMELY = f"""
SELECT m.* FROM marked m LEFT ANTI JOIN {{auxiliary}} a
    ON m.{KEY} = a.{KEY} AND greatest(m.{_META}.deleted, m.{_META}.upserted) < a.{_META}.deleted
"""
_INTO_AUXILIARY = f"""
MERGE INTO {{auxiliary}} a USING (SELECT {KEY}, {_META} FROM timely) m ON a.{KEY} = m.{KEY}
WHEN MATCHED AND m.{_META}.deleted > a.{_META}.deleted THEN UPDATE SET *
WHEN MATCHED AND m.{_META}.deleted IS NULL AND m.{_META}.upserted >= a.{_META}.deleted THEN DELETE
WHEN NOT MATCHED AND m.{_META}.deleted IS NOT NULL THEN INSERT *
"""
_INTO_TARGET = f"""
MERGE INTO {{target}} t USING timely m ON t.{KEY} = m.{KEY}
WHEN MATCHED AND m.{_META}.deleted >= t.{_META}.upserted THEN DELETE
WHEN MATCHED AND m.{_META}.upserted > t.{_META}.upserted THEN UPDATE SET *
WHEN NOT MATCHED AND m.{_META}.deleted IS NULL THEN INSERT *
"""
_FROM, _TO, _GONE = "valid_from", "valid_to", "gone"
_VERSIONS = f"""
WITH known AS (SELECT t.* FROM {{target}} t LEFT SEMI JOIN events e ON t.{KEY} = e.{KEY}),
    added AS (SELECT * EXCEPT ({_OPERATION}), {_SEQUENCE} AS {_FROM}, CAST(NULL AS BIGINT) AS {_TO},
        {_OPERATION} = 'd' AS {_GONE}, TRUE AS new FROM events),
    placed AS (SELECT *, lead({_FROM}) OVER (PARTITION BY {KEY} ORDER BY {_FROM}) AS next
        FROM (SELECT *, FALSE AS new FROM known UNION ALL SELECT * FROM added))
SELECT * EXCEPT ({_TO}, new, next), CASE WHEN {_GONE} THEN {_FROM} ELSE next END AS {_TO} FROM placed
    WHERE new OR (NOT {_GONE} AND {_TO} IS DISTINCT FROM next)
"""
_INTO_VERSIONS = f"""
MERGE INTO {{target}} t USING versions s ON t.{KEY} = s.{KEY} AND t.{_FROM} = s.{_FROM}
WHEN MATCHED THEN UPDATE SET {_TO} = s.{_TO}
WHEN NOT MATCHED THEN INSERT *
"""
_LASTING = f"{_FROM} IS DISTINCT FROM {_TO}"
_META_TYPE = "STRUCT<deleted: BIGINT, upserted: BIGINT>"
_OPTIONS = {"bench.t": {}, "bench.v": {"changelog-producer": "input"}}
"""Our tables: of rows, and of rows whose versions are kept."""
_PEERS = {"iceberg": Iceberg, "delta": Delta}
_SIDES = ("Iceberg", "Delta")


def run(folder: Path, rows: int = 1_000_000, batch: int = 100_000, rounds: int = 3) -> Report:
    """`rows`: keys in the table before the first batch. `batch`: events of a micro-batch."""
    with shared_session("auto_cdc", folder, _PEERS) as spark:
        return _run(spark, folder, rows, batch, rounds)


def _run(spark: SparkSession, folder: Path, rows: int, batch: int, rounds: int) -> Report:
    path = folder / "load.parquet"
    pq.write_table(orders(np.arange(rows)).append_column(_SEQUENCE, pa.array(np.zeros(rows, np.int64))), path)
    for number in range(rounds + 1):
        pq.write_table(made_events(number, rows, batch), folder / f"events-{number}.parquet")
    columns = pq.read_schema(path).names
    lake = lsmlake.connect(folder / "lsmlake", spark=spark)
    lake.create_database("bench")
    rows_only, versioned = (_ours(lake, spark.read.parquet(str(path)), name, options) for name, options in _OPTIONS.items())
    lake.history_of(versioned, "bench.versions").rescale(buckets=_BUCKETS)
    for name in _SIDES:
        _create_peer(spark, name, path, columns)

    def turns(sides: Mapping[str, Callable[[DataFrame], object]]) -> Mapping[str, Spent]:
        def applying(apply: Callable[[DataFrame], object], number: int) -> Callable[[], object]:
            return lambda: apply(spark.read.parquet(str(folder / f"events-{number}.parquet")))

        return take_turns({name: partial(applying, apply) for name, apply in sides.items()}, rounds)

    first = turns({"lsmlake": partial(_upsert, rows_only), **{name: partial(_merge, spark, name) for name in _SIDES}})
    second = turns(
        {"lsmlake": partial(_version, lake, versioned), **{name: partial(_merge_versions, spark, name) for name in _SIDES}}
    )
    answers = {"lsmlake": of_table(rows_only.scan().to_arrow().select(columns))}
    answers |= {name: _content(spark.table(f"{_database(name)}.t").select(*columns), folder / f"{name}-t") for name in _SIDES}
    histories = {
        "lsmlake": of_table(lake.table("bench.versions").scan(columns=[*columns, _FROM, _TO], where=_LASTING).to_arrow())
    }
    for name in _SIDES:
        lasting = spark.table(f"{_database(name)}.v").where(_LASTING).select(*columns, _FROM, _TO)
        histories[name] = _content(lasting, folder / f"{name}-v")
    return Report(
        "auto_cdc",
        f"{rounds} micro-batches by each side in turns after one that does not count, best of them",
        {
            "rows": f"{rows:,} x 13 columns in {_BUCKETS} buckets",
            "batch": f"{batch:,} events of random keys, {_LATE:.0%} of them two batches late, {_DELETED:.0%} deletes",
            "versions": same(**histories),
        },
        same(**answers),
        tuple(
            one
            for kind, spent in (("SCD 1", first), ("SCD 2", second))
            for name in _SIDES
            for one in compared(f"{kind}: lsmlake / {name}", spent["lsmlake"], spent[name], _TARGET)
        ),
    )


def _content(rows: DataFrame, folder: Path) -> str:
    """The content of rows, which may be more than the driver holds."""
    rows.write.parquet(str(folder))
    return of_files([str(path) for path in folder.glob("*.parquet")], rows.columns)


def made_events(number: int, rows: int, size: int) -> pa.Table:
    """Events of any keys in any order. No two events of a run have the same sequence; late ones lie two batches back."""
    random = np.random.default_rng(number)
    late, places = random.random(size) < _LATE, np.arange(size)
    sequence = 2 * ((number + 3) * size + places) - np.where(late, 4 * size - 1, 0)
    made = orders(random.integers(0, rows, size), number + 1).append_column(_SEQUENCE, pa.array(sequence))
    operation = np.where(random.random(size) < _DELETED, "d", "u")
    return made.append_column(_OPERATION, pa.array(operation)).take(pa.array(random.permutation(size)))


def _ours(lake: lsmlake.Lake, rows: DataFrame, name: str, options: Mapping[str, object]) -> lsmlake.Table:
    options = {"bucket": _BUCKETS, "sequence.field": _SEQUENCE, **options}
    table = lake.create_table(name, rows.schema, primary_key=[KEY], options=options)
    table.upsert(rows)
    return table


def _upsert(table: lsmlake.Table, events: DataFrame) -> None:
    table.upsert(events, apply_as_deletes=f"{_OPERATION} = 'd'", except_columns=[_OPERATION], order_by=_SEQUENCE)


def _version(lake: lsmlake.Lake, table: lsmlake.Table, events: DataFrame) -> None:
    _upsert(table, events)
    lake.history_of(table, "bench.versions")


def _database(name: str) -> str:
    return "lake.bench" if name == "Iceberg" else "bench"


def _create_peer(spark: SparkSession, name: str, path: Path, columns: Sequence[str]) -> None:
    """Create both targets with the rows at `path`, and the empty auxiliary table."""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_database(name)}")
    first = f"{', '.join(columns)}, named_struct('deleted', CAST(NULL AS BIGINT), 'upserted', {_SEQUENCE}) AS {_META}"
    versions = f"{', '.join(columns)}, {_SEQUENCE} AS {_FROM}, CAST(NULL AS BIGINT) AS {_TO}, FALSE AS {_GONE}"
    marks = f"{KEY}, CAST(NULL AS {_META_TYPE}) AS {_META}"
    for table, chosen, where in (("t", first, "TRUE"), ("aux", marks, "FALSE"), ("v", versions, "TRUE")):
        layout = f"USING iceberg PARTITIONED BY (bucket({_BUCKETS}, {KEY})) {properties_sql(Iceberg.properties)}"
        if name == "Delta":
            layout = f"USING delta CLUSTER BY ({KEY}) {properties_sql({**Delta.properties, **Delta.inline})}"
        spark.sql(f"CREATE TABLE {_database(name)}.{table} {layout} AS SELECT {chosen} FROM parquet.`{path}` WHERE {where}")


def _merge(spark: SparkSession, name: str, events: DataFrame) -> None:
    """The statements of AUTO CDC for a micro-batch."""
    target, auxiliary = f"{_database(name)}.t", f"{_database(name)}.aux"
    events.createOrReplaceTempView("events")
    for view, query in (("newest", _NEWEST), ("marked", _MARKED), ("timely", _TIMELY)):
        spark.sql(query.format(auxiliary=auxiliary)).createOrReplaceTempView(view)
    for statement in (_INTO_AUXILIARY, _INTO_TARGET):
        spark.sql(statement.format(auxiliary=auxiliary, target=target)).collect()


def _merge_versions(spark: SparkSession, name: str, events: DataFrame) -> None:
    target = f"{_database(name)}.v"
    events.createOrReplaceTempView("events")
    spark.sql(_VERSIONS.format(target=target)).createOrReplaceTempView("versions")
    spark.sql(_INTO_VERSIONS.format(target=target)).collect()
