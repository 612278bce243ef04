"""Upsert and read of a batch that is spread over many small partitions and buckets, and upsert of wide rows.

What a bucket costs beside the encoding of its file is the CPU of the upsert less that of PyArrow's writer for the same pieces
with the same options, in memory. Reads are compared with those of plain Parquet files, one for each partition, as another table
would have; one for each bucket, as the table has; and these with the codec and the encodings of the table. By default a small
partition is one bucket, so a second table has a file for each partition. A wide upsert is compared with PyArrow's writer for the
sorted rows. Nothing is compacted.

Spark computes the bucket of each row in generated code: of a fixed number of buckets, of a cover with several totals, and of
partitions with covers of their own. What the last two take more is compared with the CPU of an upsert by tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
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
from lsmlake.lsm.cover import Cover, Covers, Share
from lsmlake.spark.bucket_numbers import with_buckets

BUCKETS = 2
_SPREAD = 50
_IN_PROCESS_S, _ON_SPARK_S, _PER_BUCKET_MS, _READ, _WIDE, _ROUTE = 2.0, 2.5, 1.0, 1.3, 1.3, 0.03
_PARTS, _TASKS = 100, 4
_WRITTEN = 20  # of so many rows that get the number of their bucket one is written
_CITIES = 50
_AS_OURS = {
    "compression": "zstd",
    "compression_level": 1,
    "store_schema": False,
    "write_page_index": True,
    "write_page_checksum": True,
    "data_page_size": 1 << 16,
}
_SMALL = _AS_OURS | {"compression": "snappy", "compression_level": None, "use_dictionary": False}
"""Of files of few rows."""
Sums = tuple[int, ...]


def run(
    folder: Path,
    rows: int = 200_000,
    partitions: int = 1_000,
    wide_rows: int = 100_000,
    columns: int = 200,
    routed: int = 20_000_000,
    rounds: int = 5,
) -> Report:
    """`rows` of 6 columns in `partitions` x 2 buckets, `wide_rows` of `columns` columns in one bucket; `routed` rows get the
    number of their bucket."""
    with session(folder) as spark:
        written, buckets = _written(folder / "written", spark, rows, partitions, rounds)
        read = tuple(_read(folder / "read", spark, rows, partitions, rounds))
        numbers = tuple(_routed(folder / "routed", spark, routed, rounds))
    return Report(
        "partitions",
        f"best of {rounds} in turns, after one that does not count",
        {
            "rows": f"{rows:,} x 6 columns in {partitions:,} partitions x {BUCKETS} buckets, {buckets:,} of which have rows",
            "wide": f"{wide_rows:,} x {columns} columns in one bucket",
        },
        "the same sums from the table and from the plain files",
        (*written, *read, *_wide(folder / "wide", wide_rows, columns, rounds), *numbers),
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


def _table(folder: Path, columns: pa.Schema, spark: SparkSession | None = None, **options: int | str):
    lake = lsmlake.connect(folder, spark=spark)
    lake.create_database("bench")
    keys = {"primary_key": ["part", "id"], "partition_by": ["part"]}
    return lake.create_table("bench.parts", columns, **keys, options={"bucket": BUCKETS, **options})


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
    columns = batches[0].schema
    here, there = _table(folder / "here", columns), _table(folder / "there", columns, spark)
    by_tasks = _table(folder / "tasks", columns, spark, **{"write.collect-rows": 0})
    frames = []
    for number, batch in enumerate(batches):
        pq.write_table(batch, folder / f"{number}.parquet")
        frames.append(spark.read.parquet(str(folder / f"{number}.parquet")))
    spent = take_turns(
        {
            "here": lambda number: partial(here.upsert, batches[number], compact=False),
            "Spark": lambda number: partial(there.upsert, frames[number], compact=False),
            "tasks": lambda number: partial(by_tasks.upsert, frames[number], compact=False),
            "encoding": lambda number: partial(_encode, _by_bucket(batches[number])),
        },
        rounds,
    )
    assert here.scan().count() == there.scan().count() == by_tasks.scan().count()
    buckets = len(set(zip(*(here.files()[name].to_pylist() for name in ("partition", "bucket")), strict=True)))
    beside_ms = (spent["here"].cpu - spent["encoding"].cpu) / buckets * 1_000
    measures = (
        Measure("upsert in process", spent["here"].seconds, None, target=_IN_PROCESS_S),
        Measure("upsert on Spark", spent["Spark"].seconds, None, target=_ON_SPARK_S),
        Measure("upsert on Spark by tasks", spent["tasks"].seconds, None, target=_ON_SPARK_S),
        Measure("upsert in process: CPU", spent["here"].cpu, None),
        Measure("upsert on Spark: CPU", spent["Spark"].cpu, None),
        Measure("upsert on Spark by tasks: CPU", spent["tasks"].cpu, None),
        Measure("upsert in process: CPU per bucket beside encoding", beside_ms, None, "ms", _PER_BUCKET_MS),
    )
    return measures, buckets


def _encode(pieces: list[pa.Table]) -> None:
    for piece in pieces:
        pq.write_table(piece, pa.BufferOutputStream(), **_SMALL)


# -- reads ------------------------------------------------------------------------------------------------------------


def _read(folder: Path, spark: SparkSession, rows: int, partitions: int, rounds: int) -> Iterator[Measure]:
    batch = _batch(0, rows, partitions)
    tables = {"table": _table(folder / "table", batch.schema), "default": _table(folder / "default", batch.schema, bucket="auto")}
    for table in tables.values():
        table.upsert(batch)
    lakes = {name: lsmlake.connect(folder / name) for name in tables}
    of_spark = {name: lsmlake.connect(folder / name, spark=spark).table("bench.parts") for name in tables}
    connection = duckdb.connect()
    by_bucket = _by_bucket(batch)
    plain = {
        "partition": (list(_pieces(batch, ["part"])), _AS_OURS),
        "bucket": (by_bucket, _AS_OURS),
        "same": (by_bucket, _SMALL),
    }
    for each, (pieces, options) in plain.items():
        (folder / each).mkdir()
        for number, piece in enumerate(pieces):
            pq.write_table(piece, folder / each / f"{number}.parquet", **options)
    engines: dict[str, tuple[Callable[[str], Sums], Callable[[str], Sums]]] = {
        "to_arrow": (lambda name: _in_arrow(tables[name].scan().to_arrow()), lambda each: _in_arrow(ds.dataset(each).to_table())),
        "to_duckdb": (
            lambda name: _in_duckdb(tables[name].scan().to_duckdb(connection)),
            lambda each: _in_duckdb(_files(connection, each)),
        ),
        "lake.sql": (lambda name: _in_sql(lakes[name]), lambda each: _in_duckdb(_files(connection, each))),
        "lake.sql, connected anew": (
            lambda name: _in_sql(lsmlake.connect(folder / name)),
            lambda each: _in_duckdb(_files(duckdb.connect(), each)),
        ),
        "Spark": (lambda name: _in_spark(of_spark[name].df()), lambda each: _in_spark(spark.read.parquet(each))),
        "Spark, connected anew": (
            lambda name: _in_spark(lsmlake.connect(folder / name, spark=spark).table("bench.parts").df()),
            lambda each: _in_spark(spark.read.parquet(each)),
        ),
    }
    expected = _in_arrow(batch)
    for engine, (ours, theirs) in engines.items():
        sides = {
            **{name: partial(ours, name) for name in tables},
            **{each: partial(theirs, str(folder / each)) for each in plain},
        }
        for side in sides.values():
            assert side() == expected, engine
        spent: dict[str, Spent] = take_turns({name: lambda _, side=side: side for name, side in sides.items()}, rounds)
        yield from compared(
            f"{engine}, buckets by default, plain file per partition", spent["default"], spent["partition"], _READ
        )
        yield from compared(f"{engine}, plain file per partition", spent["table"], spent["partition"], _READ)
        yield from compared(f"{engine}, plain file per bucket", spent["table"], spent["bucket"], None)
        yield from compared(f"{engine}, the same without dictionaries, by Snappy", spent["table"], spent["same"], None)


def _files(connection, folder: str):  # the types belong to an optional package
    return connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")


def _in_arrow(rows: pa.Table) -> Sums:
    return rows.num_rows, pc.sum(rows["id"]).as_py(), pc.sum(rows["quantity"]).as_py()


_SUMS = "count(*), sum(id), sum(quantity)"


def _in_duckdb(rows) -> Sums:  # the types belong to an optional package
    return tuple(map(int, rows.aggregate(_SUMS).fetchall()[0]))


def _in_sql(lake: lsmlake.Lake) -> Sums:
    (found,) = lake.sql(f"SELECT {_SUMS} FROM bench.parts").fetchall()
    return tuple(map(int, found))


def _in_spark(rows: DataFrame) -> Sums:
    return tuple(rows.agg(F.count("*"), F.sum("id"), F.sum("quantity")).first())


# -- buckets of rows --------------------------------------------------------------------------------------------------


def _routed(folder: Path, spark: SparkSession, rows: int, rounds: int) -> Iterator[Measure]:
    """CPU in nanoseconds a row: of the bucket numbers, and of an upsert by tasks of a part of the rows."""
    lake = lsmlake.connect(folder, spark=spark)
    lake.create_database("bench")
    columns = "part INT, id BIGINT, price DOUBLE, city STRING"
    plain = lake.create_table("bench.plain", columns, primary_key=["part", "id"])
    parted = lake.create_table("bench.parted", columns, primary_key=["part", "id"], partition_by=["part"])
    several = Cover.of([Share(1, 2), Share(2, 4), *Share(0, 4).parts(4)], "bench")
    own = Covers(16, {(0, (part,)): several for part in range(_PARTS)})
    ids = spark.range(0, rows, 1, _TASKS).selectExpr(f"cast(id % {_PARTS} as int) as part", "id")
    key, parts = "part, id", [F.col("part")]
    numbered = {
        "none": ids.selectExpr("id as bucket"),
        "fixed": with_buckets(ids, plain.version.schema, Covers(16), key, [], "bucket"),
        "several": with_buckets(ids, plain.version.schema, Covers(16, {(0, ()): several}), key, [], "bucket"),
        "fixed in partitions": with_buckets(ids, parted.version.schema, Covers(16), "id", parts, "bucket"),
        "own": with_buckets(ids, parted.version.schema, own, "id", parts, "bucket"),
    }
    for frame in numbered.values():
        steps = _explained(frame)
        assert "Python" not in steps and "InArrow" not in steps, steps
    data = ids.limit(rows // _WRITTEN).selectExpr("*", "rand(1) as price", "concat('city ', id % 50) as city").localCheckpoint()

    def write(number: int) -> Callable[[], object]:
        name, options = f"bench.written{number}", {"bucket": 16, "write.collect-rows": 0}
        return partial(lake.create_table(name, columns, primary_key=["part", "id"], options=options).upsert, data, compact=False)

    sums = {name: lambda _, frame=frame: partial(frame.agg(F.sum("bucket")).collect) for name, frame in numbered.items()}
    spent = take_turns({**sums, "write": write}, rounds)
    cpu = {name: one.cpu / rows * 1e9 for name, one in spent.items()}
    upsert = cpu["write"] * _WRITTEN
    yield Measure("upsert by tasks: CPU a row", upsert, None, "ns")
    yield Measure("a fixed number of buckets: CPU a row", cpu["fixed"] - cpu["none"], None, "ns")
    for what, name, fixed in (
        ("a cover with several totals", "several", "fixed"),
        (f"covers of {_PARTS} partitions", "own", "fixed in partitions"),
    ):
        more = cpu[name] - cpu[fixed]
        yield Measure(f"{what}, more than a fixed number: CPU a row", more, None, "ns")
        yield Measure(f"{what}, more than a fixed number: part of the upsert", more / upsert, None, "", _ROUTE)


def _explained(frame: DataFrame) -> str:
    with redirect_stdout(StringIO()) as text:
        frame.explain()
    return text.getvalue()


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
