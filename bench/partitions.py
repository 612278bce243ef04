"""Upsert and read of a batch that is spread over many small partitions and buckets, and upsert of wide rows.

What a bucket costs beside the encoding of its file is the CPU of the upsert less that of PyArrow's writer for the same pieces
with the same options, in memory. Reads are compared with those of plain Parquet files, one for each partition, and one for each
bucket, as the table has. A wide upsert is compared with PyArrow's writer for the sorted rows. Nothing is compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lsmlake
from bench.result import Measure, Report
from bench.session import session
from bench.timing import Spent, compared, take_turns

BUCKETS = 2
_SPREAD = 50
_IN_PROCESS_S, _ON_SPARK_S, _PER_BUCKET_MS, _READ, _WIDE = 2.0, 2.5, 1.0, 1.3, 1.3
_CITIES = 50
_AS_OURS = {
    "compression": "zstd",
    "compression_level": 1,
    "store_schema": False,
    "write_page_index": True,
    "write_page_checksum": True,
    "data_page_size": 1 << 16,
}
Sums = tuple[int, ...]


def run(
    folder: Path, rows: int = 200_000, partitions: int = 1_000, wide_rows: int = 100_000, columns: int = 200, rounds: int = 5
) -> Report:
    """`rows` of 6 columns in `partitions` x 2 buckets, `wide_rows` of `columns` columns in one bucket."""
    with session(folder) as spark:
        written, buckets = _written(folder / "written", spark, rows, partitions, rounds)
        read = tuple(_read(folder / "read", spark, rows, partitions, rounds))
    return Report(
        "partitions",
        f"best of {rounds} in turns, after one that does not count",
        {
            "rows": f"{rows:,} x 6 columns in {partitions:,} partitions x {BUCKETS} buckets, {buckets:,} of which have rows",
            "wide": f"{wide_rows:,} x {columns} columns in one bucket",
        },
        "the same sums from the table and from the plain files",
        (*written, *read, *_wide(folder / "wide", wide_rows, columns, rounds)),
    )


def _batch(number: int, rows: int, partitions: int) -> pa.Table:
    """Distinct keys, in any order."""
    chance = np.random.default_rng(number)
    ids = chance.permutation(chance.integers(0, _SPREAD, rows) * rows + np.arange(rows))
    return pa.table(
        {
            "part": pa.array(ids % partitions, pa.int32()),
            "id": ids,
            "price": chance.random(rows),
            "quantity": pa.array(chance.integers(0, 9, rows), pa.int32()),
            "city": pc.binary_join_element_wise("city", pa.array(ids % _CITIES).cast(pa.string()), " "),
            "weight": chance.random(rows),
        }
    )


def _table(folder: Path, columns: pa.Schema, spark: SparkSession | None = None):
    lake = lsmlake.connect(folder, spark=spark)
    lake.create_database("bench")
    return lake.create_table(
        "bench.parts", columns, primary_key=["part", "id"], partition_by=["part"], options={"bucket": BUCKETS}
    )


def _pieces(rows: pa.Table, by: list[str]) -> Iterator[pa.Table]:
    """The rows with each value of these columns, ascending by id, without these of `by` that are no columns of users."""
    ordered = rows.sort_by([(name, "ascending") for name in (*by, "id")])
    changes = np.zeros(ordered.num_rows - 1, bool)
    for name in by:
        values = ordered[name].to_numpy()
        changes |= values[1:] != values[:-1]
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), ordered.num_rows]
    shown = ordered.drop_columns(["bucket"]) if "bucket" in by else ordered
    for first, last in pairwise(edges):
        yield shown.slice(first, last - first)


def _by_bucket(rows: pa.Table) -> list[pa.Table]:
    """The rows in as many pieces as the table has buckets."""
    halves = pa.array(rows["id"].to_numpy() // (rows.num_rows // 97) % BUCKETS)  # the number of partitions must not decide
    return list(_pieces(rows.append_column("bucket", halves), ["part", "bucket"]))


# -- writes -----------------------------------------------------------------------------------------------------------


def _written(folder: Path, spark: SparkSession, rows: int, partitions: int, rounds: int) -> tuple[tuple[Measure, ...], int]:
    """The measures of the upserts, and the number of buckets."""
    batches = [_batch(number, rows, partitions) for number in range(rounds + 1)]
    here, there = (_table(folder / name, batches[0].schema, with_) for name, with_ in (("here", None), ("there", spark)))
    frames = []
    for number, batch in enumerate(batches):
        pq.write_table(batch, folder / f"{number}.parquet")
        frames.append(spark.read.parquet(str(folder / f"{number}.parquet")))
    spent = take_turns(
        {
            "here": lambda number: partial(here.upsert, batches[number], compact=False),
            "Spark": lambda number: partial(there.upsert, frames[number], compact=False),
            "encoding": lambda number: partial(_encode, _by_bucket(batches[number])),
        },
        rounds,
    )
    assert here.scan().count() == there.scan().count()
    buckets = len(set(zip(*(here.files()[name].to_pylist() for name in ("partition", "bucket")), strict=True)))
    beside_ms = (spent["here"].cpu - spent["encoding"].cpu) / buckets * 1_000
    measures = (
        Measure("upsert in process", spent["here"].seconds, None, target=_IN_PROCESS_S),
        Measure("upsert on Spark", spent["Spark"].seconds, None, target=_ON_SPARK_S),
        Measure("upsert in process: CPU", spent["here"].cpu, None),
        Measure("upsert on Spark: CPU", spent["Spark"].cpu, None),
        Measure("upsert in process: CPU per bucket beside encoding", beside_ms, None, "ms", _PER_BUCKET_MS),
    )
    return measures, buckets


def _encode(pieces: list[pa.Table]) -> None:
    for piece in pieces:
        pq.write_table(piece, pa.BufferOutputStream(), **_AS_OURS)


# -- reads ------------------------------------------------------------------------------------------------------------


def _read(folder: Path, spark: SparkSession, rows: int, partitions: int, rounds: int) -> Iterator[Measure]:
    batch = _batch(0, rows, partitions)
    table = _table(folder / "table", batch.schema)
    table.upsert(batch)
    of_spark = lsmlake.connect(folder / "table", spark=spark).table("bench.parts")
    connection = duckdb.connect()
    plain = {"partition": list(_pieces(batch, ["part"])), "bucket": _by_bucket(batch)}
    for each, pieces in plain.items():
        (folder / each).mkdir()
        for number, piece in enumerate(pieces):
            pq.write_table(piece, folder / each / f"{number}.parquet", **_AS_OURS)
    engines: dict[str, tuple[Callable[[], Sums], Callable[[str], Sums]]] = {
        "to_arrow": (lambda: _in_arrow(table.scan().to_arrow()), lambda each: _in_arrow(ds.dataset(each).to_table())),
        "to_duckdb": (lambda: _in_duckdb(table.scan().to_duckdb(connection)), lambda each: _in_duckdb(_files(connection, each))),
        "lake.sql": (partial(_in_sql, folder / "table"), lambda each: _in_duckdb(_files(connection, each))),
        "Spark": (lambda: _in_spark(of_spark.df()), lambda each: _in_spark(spark.read.parquet(each))),
    }
    expected = _in_arrow(batch)
    for engine, (ours, theirs) in engines.items():
        sides = {"table": ours, **{each: partial(theirs, str(folder / each)) for each in plain}}
        for side in sides.values():
            assert side() == expected, engine
        spent: dict[str, Spent] = take_turns({name: lambda _, side=side: side for name, side in sides.items()}, rounds)
        yield from compared(f"{engine}, plain file per partition", spent["table"], spent["partition"], _READ)
        yield from compared(f"{engine}, plain file per bucket", spent["table"], spent["bucket"], None)


def _files(connection, folder: str):  # the types belong to an optional package
    return connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")


def _in_arrow(rows: pa.Table) -> Sums:
    return rows.num_rows, pc.sum(rows["id"]).as_py(), pc.sum(rows["quantity"]).as_py()


_SUMS = "count(*), sum(id), sum(quantity)"


def _in_duckdb(rows) -> Sums:  # the types belong to an optional package
    return tuple(map(int, rows.aggregate(_SUMS).fetchall()[0]))


def _in_sql(folder: Path) -> Sums:
    (found,) = lsmlake.connect(folder).sql(f"SELECT {_SUMS} FROM bench.parts").fetchall()
    return tuple(map(int, found))


def _in_spark(rows: DataFrame) -> Sums:
    return tuple(rows.agg(F.count("*"), F.sum("id"), F.sum("quantity")).first())


# -- wide rows --------------------------------------------------------------------------------------------------------


def _wide(folder: Path, rows: int, columns: int, rounds: int) -> tuple[Measure, ...]:
    """Half of the columns are integers, a quarter floating-point numbers and a quarter text."""
    chance = np.random.default_rng(1)
    values: dict[str, pa.Array] = {"id": pa.array(chance.permutation(rows))}
    for number in range(columns - 1):
        drawn = chance.integers(0, 100_000, rows)
        kind = number % 4
        values[f"c{number}"] = pa.array(drawn if kind < 2 else drawn / 100)
        if kind == 3:
            values[f"c{number}"] = pa.array(drawn % 1_000).cast(pa.string())
    batch = pa.table(values)
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("bench")

    def ours(number: int) -> Callable[[], object]:
        table = lake.create_table(f"bench.wide{number}", batch.schema, primary_key=["id"], options={"bucket": 1})
        return partial(table.upsert, batch, compact=False)

    def theirs(number: int) -> Callable[[], object]:
        ordered = batch.sort_by("id")
        return partial(pq.write_table, ordered, folder / f"{number}.parquet", **_AS_OURS)

    spent = take_turns({"ours": ours, "Arrow": theirs}, rounds)
    return compared("wide upsert, PyArrow's writer for sorted rows", spent["ours"], spent["Arrow"], _WIDE)
