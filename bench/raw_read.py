"""Reading a table in Spark, compared with plain Parquet scans of the same data files.

The plain scan is the lower bound: no planning, no deletion vectors, and it returns dead rows, too. Two queries run on a table
with a tenth of its rows dead, and again after a full compaction; then both sides must give the answer of the table before. Three
queries that do little besides reading run on a table with a twentieth of its rows dead; their answers are checked in process.
Masked reads run again on tables whose files hold no row addresses (`file.row-addresses` = false).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import checksum, tables
from bench.result import Report
from bench.rows import orders
from bench.session import session
from bench.timing import Side, compared, take_turns
from lsmlake.api.table import Table

BUCKETS = 4
_PART_ROWS = 2_500_000  # made at once

Query = Callable[[DataFrame], DataFrame]


def grouped(rows: DataFrame) -> DataFrame:
    """A group-by with four aggregates over four columns."""
    return rows.groupBy("city").agg(F.sum("quantity"), F.round(F.avg("weight"), 6), F.max("at"), F.sum("amount"))


def selected(rows: DataFrame) -> DataFrame:
    """One row in a hundred, anywhere in the files, by a filter on a value column."""
    return rows.filter("price >= 9900").agg(F.count("*"), F.sum("customer"))


QUERIES = {"grouped aggregate": grouped, "value filter": selected}
_TARGETS = {"grouped aggregate": 1.05, "value filter": 1.2}
_TARGET_CLEAN = 1.1


def counted(rows: DataFrame) -> DataFrame:
    return rows.agg(F.count("*"))


def first_ten(rows: DataFrame) -> DataFrame:
    """Any ten rows: no more than one file has to be opened."""
    return rows.limit(10)


def summed(rows: DataFrame) -> DataFrame:
    """Two columns, both of integers."""
    return rows.agg(F.sum("customer"), F.sum("quantity"))


QUICK = {"count(*)": counted, "limit 10": first_ten, "two-column sum": summed}
_TARGETS_QUICK = {"count(*)": 1.6, "limit 10": 1.3, "two-column sum": 1.4}
UNADDRESSED = "no row addresses"


def run(folder: Path, rows: int = 10_000_000, rounds: int = 10) -> Report:
    """`rows`: in the files of each table at first, a tenth or a twentieth of them dead."""
    with session(folder) as spark:
        table = _build(folder / "table", rows, 10, spark)
        sizes = {"masked": _size(table)}
        masked, found, _ = _measure(spark, folder / "table", table, QUERIES, rounds)
        answers = {name: _checksum(values) for name, values in found.items()}
        tables.reopen(folder / "table").compact(full=True)
        sizes["compacted"] = _size(table)
        clean, *found = _measure(spark, folder / "table", table, QUERIES, rounds)
        ours, plain = ({name: _checksum(values) for name, values in side.items()} for side in found)
        table = _build(folder / "quick", rows, 20, spark)
        sizes["a twentieth dead"] = _size(table)
        quick, found, _ = _measure(spark, folder / "quick", table, QUICK, rounds)
        _check(found, table)
        table = _build(folder / "unaddressed", rows, 10, spark, addresses="false")
        sizes[f"masked, {UNADDRESSED}"] = _size(table)
        unaddressed, found, _ = _measure(spark, folder / "unaddressed", table, QUERIES, rounds)
        assert {name: _checksum(values) for name, values in found.items()} == answers
        table = _build(folder / "quick-unaddressed", rows, 20, spark, addresses="false")
        quick_unaddressed, found, _ = _measure(spark, folder / "quick-unaddressed", table, QUICK, rounds)
        _check(found, table)
    measures = chain.from_iterable(
        [
            *(compared(f"{name}, a tenth dead / plain", *masked[name], target) for name, target in _TARGETS.items()),
            *(compared(f"{name}, nothing dead / plain", *clean[name], _TARGET_CLEAN) for name in QUERIES),
            *(compared(f"{name}, a twentieth dead / plain", *quick[name], target) for name, target in _TARGETS_QUICK.items()),
            *(
                compared(f"{name}, {dead} dead, {UNADDRESSED} / plain", *spent[name], target)
                for dead, spent, targets in (
                    ("a tenth", unaddressed, _TARGETS),
                    ("a twentieth", quick_unaddressed, _TARGETS_QUICK),
                )
                for name, target in targets.items()
            ),
        ]
    )
    return Report(
        "raw_read",
        f"{rounds} rounds in turns after one that does not count, best of them, from df() to collect()",
        sizes,
        "; ".join(checksum.same(masked=answers[name], compacted=ours[name], plain=plain[name]) for name in QUERIES),
        tuple(measures),
    )


def _build(folder: Path, rows: int, part: int, spark: SparkSession, *, addresses: str = "auto") -> Table:
    """All rows but one in `part` compacted in full, these the updates of as many others."""
    table, live = tables.create(folder, {"bucket": BUCKETS, "file.row-addresses": addresses}), rows - rows // part
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


def _measure(
    spark: SparkSession, folder: Path, table: Table, queries: Mapping[str, Query], rounds: int
) -> tuple[dict, dict, dict]:
    """By query: (what the table spent, what plain Parquet), the table's answer, plain Parquet's."""
    sources = {"ours": partial(table.df, mode="raw"), "plain": partial(spark.read.parquet, *tables.paths(folder, table))}
    spent, answers = {}, {side: {} for side in sources}
    for name, query in queries.items():
        sides = {side: _side(answers[side], name, query, source) for side, source in sources.items()}
        best = take_turns(sides, rounds)
        spent[name] = best["ours"], best["plain"]
    return spent, answers["ours"], answers["plain"]


def _check(answers: dict[str, list], table: Table) -> None:
    """Raises AssertionError unless the quick queries answered what the table holds, as a process without Spark reads it."""
    rows = table.scan(columns=["customer", "quantity"]).to_arrow()
    assert answers["count(*)"] == [(rows.num_rows,)], answers["count(*)"]
    assert answers["two-column sum"] == [tuple(pc.sum(column).as_py() for column in rows.columns)], answers["two-column sum"]
    assert len(answers["limit 10"]) == min(10, rows.num_rows), answers["limit 10"]


def _side(answers: dict[str, list], name: str, query: Query, source: Callable[[], DataFrame]) -> Side:
    def work() -> None:
        answers[name] = query(source()).collect()

    return lambda _: work


def _checksum(rows: list) -> str:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return checksum.of_table(pa.table(columns, names=[f"c{n}" for n in range(len(columns))]))
