"""The fixed cost of a read in Spark: from `df()` to its first row, compared with plain Parquet scans of the same files.

The tables are small, so nearly all of the time is planning: in Python, in Spark, and one task. Plain Parquet without a schema
reads a footer for it; with a schema, as `df()` has one, it does not. A half of the files has dead rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from bench import checksum, tables
from bench.result import Measure, Report
from bench.rows import orders
from bench.session import session
from bench.timing import Spent, compared, take_turns
from lsmlake.api.table import Table

_FEW = 16
_ROWS = 100  # of a file, on average
_MORE_FEW, _MORE_MANY = 0.04, 0.15  # seconds more than plain Parquet


def run(folder: Path, many: int = 1_000, rounds: int = 10) -> Report:
    """`many`: the files of the larger table."""
    sizes, measures, answers = {}, [], []
    with session(folder) as spark:
        for files, most in ((_FEW, _MORE_FEW), (many, _MORE_MANY)):
            place = folder / f"files-{files}"
            table = _build(place, files, spark)
            sizes[f"{files:,} files"] = f"{files * _ROWS:,} rows, {files * _ROWS // 10:,} dead"
            measures += _measures(f"{files:,} files", _measure(spark, place, table, rounds), most)
            answers.append(checksum.of_table(table.df(columns=["id"]).orderBy("id").toArrow()))
    method = f"{rounds} rounds in turns after three that do not count, best of them, from df() to its first row"
    return Report("first_row", method, sizes, "; ".join(answers), tuple(measures))


def _build(folder: Path, files: int, spark: SparkSession) -> Table:
    """Two files in each bucket. The newer one replaces rows of the older one."""
    rows = files * _ROWS
    table = tables.create(folder, {"bucket": files // 2, "compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100})
    table.upsert(orders(np.arange(rows - rows // 10)), compact=True)
    table.upsert(orders(np.arange(0, rows - rows // 10, 9), version=1), compact=True)
    found = len(table.files())
    assert found == files, found
    return tables.reopen(folder, spark)


def _measure(spark: SparkSession, folder: Path, table: Table, rounds: int) -> dict[str, Spent]:
    paths = tables.paths(folder, table)
    known = spark.read.parquet(*paths).schema
    sides = {
        "ours": partial(_first, table.df),
        "plain": partial(_first, lambda: spark.read.parquet(*paths)),
        "known": partial(_first, lambda: spark.read.schema(known).parquet(*paths)),
    }
    return take_turns({name: lambda _, work=work: work for name, work in sides.items()}, rounds, warm=3)


def _first(source: Callable[[], DataFrame]) -> None:
    assert len(source().limit(1).collect()) == 1


def _measures(what: str, spent: dict[str, Spent], most: float) -> list[Measure]:
    ours, plain, known = spent["ours"], spent["plain"], spent["known"]
    return [
        Measure(f"{what}: more than plain Parquet", max(ours.seconds - plain.seconds, 1e-4), None, target=most),
        *compared(f"{what} / plain Parquet", ours, plain, None),
        *compared(f"{what} / plain Parquet with a schema", ours, known, None),
    ]
