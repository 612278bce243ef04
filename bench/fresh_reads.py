"""Reads of rows that wait at level 0, compared with reads of the same table compacted: 1, 5 and 20 rows in a hundred waiting.

Both sides are tables of their own over the same base files, and both begin with a new handle: the first query finds what level 0
supersedes, the second of the same version has it. The other side is the table before the rows that wait. The answers are checked
against the rows of the waiting table once it is compacted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import lsmlake
from bench import tables
from bench.result import Measure, Report
from bench.rows import orders
from bench.timing import Spent, compared, take_turns
from lsmlake.api.lake import Lake

_BATCH = 1_000_000
_TARGETS = {1: 1.2, 5: 1.4, 20: 2.0}
_TARGET_AGAIN = 1.15
_PRICE = 9900
_GROUPED = "SELECT city, sum(quantity) AS q, sum(amount) AS s FROM {} GROUP BY city"
_FILTERED = f"SELECT count(*) AS n, sum(customer) AS c FROM {{}} WHERE price >= {_PRICE}"

Way = Callable[[Lake], pa.Table]


def _in_arrow(lake: Lake) -> pa.Table:
    rows = lake.table(tables.NAME).scan(columns=["city", "quantity", "amount"]).to_arrow()
    return rows.group_by("city").aggregate([("quantity", "sum"), ("amount", "sum")])


def _filtered_in_arrow(lake: Lake) -> pa.Table:
    return lake.table(tables.NAME).scan(where=f"price >= {_PRICE}", columns=["customer"]).to_arrow()


def _in_duckdb(query: str, lake: Lake) -> pa.Table:
    with duckdb.connect() as connection:
        rows = lake.table(tables.NAME).scan().to_duckdb(connection)
        if query == _FILTERED:
            return rows.filter(f"price >= {_PRICE}").aggregate("count(*) AS n, sum(customer) AS c").to_arrow_table()
        return rows.aggregate("city, sum(quantity) AS q, sum(amount) AS s", "city").to_arrow_table()


def _in_polars(query: str, lake: Lake) -> pa.Table:
    rows = lake.table(tables.NAME).scan().to_polars()
    if query == _FILTERED:
        return rows.filter(pl.col("price") >= _PRICE).select(pl.len().alias("n"), pl.col("customer").sum()).collect().to_arrow()
    return rows.group_by("city").agg(pl.col("quantity").sum(), pl.col("amount").sum()).collect().to_arrow()


WAYS: dict[str, Way] = {
    "to_arrow, aggregate": _in_arrow,
    "to_arrow, filter": _filtered_in_arrow,
    "to_duckdb, aggregate": partial(_in_duckdb, _GROUPED),
    "to_duckdb, filter": partial(_in_duckdb, _FILTERED),
    "to_polars, aggregate": partial(_in_polars, _GROUPED),
    "to_polars, filter": partial(_in_polars, _FILTERED),
    "lake.sql, aggregate": lambda lake: lake.sql(_GROUPED.format(tables.NAME)).to_arrow(),
    "lake.sql, filter": lambda lake: lake.sql(_FILTERED.format(tables.NAME)).to_arrow(),
}


def run(folder: Path, rows: int = 4_000_000, rounds: int = 5) -> Report:
    """`rows` of 12 columns in 4 buckets, compacted; in the tables beside it some of them replaced, and waiting at level 0."""
    base = tables.create(folder / "0", {"bucket": 4})
    for start in range(0, rows, _BATCH):
        base.upsert(orders(np.arange(start, min(rows, start + _BATCH))))
    base.compact(full=True)
    chance = np.random.default_rng(3)
    for part in _TARGETS:
        waiting = tables.clone(folder / "0", folder / f"{part}")
        waiting.upsert(orders(np.sort(chance.choice(rows, rows * part // 100, replace=False)), version=1), compact=False)
    measures: list[Measure] = []
    for name, way in WAYS.items():
        first = take_turns({side: partial(_first, way, folder / side) for side in ("0", *map(str, _TARGETS))}, rounds)
        again = take_turns({side: partial(_again, way, folder / side) for side in ("0", *map(str, _TARGETS))}, rounds)
        for part, target in _TARGETS.items():
            what = f"{name}, {part} % at level 0"
            measures += [*_against(what, first, part, target), *_against(f"{what}, second query", again, part, _TARGET_AGAIN)]
    _check(folder)
    return Report(
        "fresh_reads",
        f"best of {rounds} in turns, after one that does not count",
        {"rows": f"{rows:,} x 12 columns in 4 buckets"},
        f"{rows:,} rows",
        tuple(measures),
        ("The other side is the compacted table without the rows that wait.",),
    )


def _against(what: str, spent: dict[str, Spent], part: int, target: float) -> tuple[Measure, Measure]:
    return compared(what, spent[f"{part}"], spent["0"], target)


def _first(way: Way, folder: Path, _: int) -> Callable[[], object]:
    lake = lsmlake.connect(folder)
    return lambda: way(lake)


def _again(way: Way, folder: Path, _: int) -> Callable[[], object]:
    lake = lsmlake.connect(folder)
    way(lake)
    return lambda: way(lake)


def _check(folder: Path) -> None:
    """Raises AssertionError unless every way gives the same rows before a compaction as `to_arrow` after it."""
    path = folder / f"{max(_TARGETS)}"
    lake = lsmlake.connect(path)
    found = {name: _sorted(way(lake)) for name, way in WAYS.items()}
    lake.table(tables.NAME).compact(full=True)
    grouped, filtered = _sorted(_in_arrow(lake)), _filtered_in_arrow(lake)["customer"].to_pylist()
    for name, rows in found.items():
        if name.endswith("aggregate"):
            assert rows == grouped, name
        elif not name.startswith("to_arrow"):
            assert rows == [(len(filtered), sum(filtered))], name


def _sorted(rows: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))
