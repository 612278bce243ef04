"""The costs of the table: bytes written per byte of input, and the time of a raw read compared with plain Parquet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame

from lsmlake.api.table import Table
from lsmlake.cli.demo.queries import DELAYS

_ROUNDS = 5


class Written(NamedTuple):
    """Bytes of all files ever written for a table, including those of compactions."""

    data: int
    vectors: int
    metadata: int

    @property
    def total(self) -> int:
        return sum(self)


def written(table: Table) -> Written:
    """The bytes on disk; until snapshots expire, only the files of compactions that met a conflict are removed."""
    entries = list(table.meta.env.storage.list(table.path))
    vectors = sum(entry.size for entry in entries if entry.path.startswith(f"{table.path}/index/"))
    data = sum(entry.size for entry in entries if entry.path.endswith(".parquet"))
    return Written(data, vectors, sum(entry.size for entry in entries) - data - vectors)


class Reads(NamedTuple):
    """Seconds that one query takes on the table and on plain Parquet files of the same rows."""

    table: float
    plain: float

    @property
    def ratio(self) -> float:
        return self.table / self.plain


def write_plain(flights: DataFrame, directory: Path, files: int) -> DataFrame:
    """Write the same rows with Spark, to about `files` files."""
    rows = -(-flights.count() // files)
    flights.coalesce(1).write.option("maxRecordsPerFile", rows).parquet(str(directory))
    return flights.sparkSession.read.schema(flights.schema).parquet(str(directory))


def race(table: DataFrame, plain: DataFrame) -> Reads:
    """Time both in turns: the best of five rounds, after a warm-up."""
    rounds = [(_seconds(table), _seconds(plain)) for _ in range(_ROUNDS + 1)]
    return Reads(*map(min, zip(*rounds[1:], strict=True)))


def _seconds(flights: DataFrame) -> float:
    began = time.perf_counter()
    flights.sparkSession.sql(DELAYS, flights=flights).collect()
    return time.perf_counter() - began
