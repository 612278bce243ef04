"""Reading a table in Spark, against plain Parquet scans of the very same data files.

The plain scan is the limit: no planning, no deletion vectors, dead rows among its answer. Two queries, on the table with a tenth
of its rows dead and again when it has been compacted in full; then both sides give one answer, that of the table before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import checksum, tables
from bench.result import Report
from bench.rows import orders
from bench.session import session
from bench.timing import Side, compared, take_turns
from lsmlake.table import Table

BUCKETS = 4
_PART_ROWS = 2_500_000  # made at once


def grouped(rows: DataFrame) -> DataFrame:
    """A group-by with four aggregates over four columns."""
    return rows.groupBy("city").agg(F.sum("quantity"), F.round(F.avg("weight"), 6), F.max("at"), F.sum("amount"))


def selected(rows: DataFrame) -> DataFrame:
    """One row in a hundred, anywhere in the files, by a filter on a value column."""
    return rows.filter("price >= 9900").agg(F.count("*"), F.sum("customer"))


QUERIES = {"grouped aggregate": grouped, "value filter": selected}
_TARGETS = {"grouped aggregate": 1.6, "value filter": 1.4}
_TARGET_CLEAN = 1.1


def run(folder: Path, rows: int = 10_000_000, rounds: int = 10) -> Report:
    """`rows`: in the files at first, a tenth of them dead."""
    with session(folder) as spark:
        table = _build(folder / "table", rows, spark)
        sizes = {"masked": _size(table)}
        masked, answers, _ = _measure(spark, folder / "table", table, rounds)
        tables.reopen(folder / "table").compact(full=True)
        sizes["compacted"] = _size(table)
        clean, ours, plain = _measure(spark, folder / "table", table, rounds)
    measures = chain.from_iterable(
        [
            *(compared(f"{name}, a tenth dead / plain", *masked[name], target) for name, target in _TARGETS.items()),
            *(compared(f"{name}, nothing dead / plain", *clean[name], _TARGET_CLEAN) for name in QUERIES),
        ]
    )
    return Report(
        "raw_read",
        f"{rounds} rounds in turns after one that does not count, best of them, from df() to collect()",
        sizes,
        "; ".join(checksum.same(masked=answers[name], compacted=ours[name], plain=plain[name]) for name in QUERIES),
        tuple(measures),
    )


def _build(folder: Path, rows: int, spark: SparkSession) -> Table:
    """Nine tenths of the rows compacted in full, the last tenth updates of every ninth of them."""
    table, live = tables.create(folder, {"bucket": BUCKETS}), rows * 9 // 10
    for start in range(0, live, _PART_ROWS):
        table.upsert(orders(np.arange(start, min(start + _PART_ROWS, live))), compact=False)
    table.compact(full=True)
    table.upsert(orders(np.random.default_rng(1).choice(live, rows - live, replace=False), version=1), compact=True)
    return tables.reopen(folder, spark)


def _size(table: Table) -> str:
    files = table.files()
    stored, dead = (sum(files[name].to_pylist()) for name in ("record_count", "deleted_record_count"))
    size = sum(files["file_size_in_bytes"].to_pylist())
    return f"{stored:,} x 12 columns in {len(files)} files of {BUCKETS} buckets, {dead:,} dead, {size:,} bytes"


def _measure(spark: SparkSession, folder: Path, table: Table, rounds: int) -> tuple[dict, dict, dict]:
    """By query: (what the table spent, what plain Parquet), the table's answer, plain Parquet's."""
    sources = {"ours": partial(table.df, mode="raw"), "plain": partial(spark.read.parquet, *tables.paths(folder, table))}
    spent, answers = {}, {side: {} for side in sources}
    for name, query in QUERIES.items():
        sides = {side: _side(answers[side], name, query, source) for side, source in sources.items()}
        best = take_turns(sides, rounds)
        spent[name] = best["ours"], best["plain"]
    ours, plain = ({name: _checksum(rows) for name, rows in answers[side].items()} for side in ("ours", "plain"))
    return spent, ours, plain


def _side(answers: dict[str, list], name: str, query: Callable[[DataFrame], DataFrame], source: Callable[[], DataFrame]) -> Side:
    def work() -> None:
        answers[name] = query(source()).collect()

    return lambda _: work


def _checksum(rows: list) -> str:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return checksum.of_table(pa.table(columns, names=[f"c{n}" for n in range(len(columns))]))
