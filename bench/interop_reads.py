"""Queries of Polars and DuckDB over `to_polars()` and `to_duckdb()`, compared with their own reads of the same data files.

A tenth of the rows is dead. The engines alone return dead rows, too; they are the limit. Both sides read the files in one
process, in turns, and begin with the table: planning counts. The answers are checked against the rows of `to_arrow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from bench import tables
from bench.result import Measure, Report
from bench.timing import compared, take_turns
from lsmlake.api.table import Table

_TARGET = 1.3
_PRICE = 9900
_LIMIT = 1000
_COLUMNS = ["customer", "at", "product"]

Query = Callable[[object], pa.Table]
"""Of a LazyFrame, or of a relation."""

POLARS: dict[str, Query] = {
    "aggregate": lambda frame: (
        frame.group_by("city").agg(pl.col("quantity").sum(), pl.col("weight").mean(), pl.col("at").max()).collect().to_arrow()
    ),
    "filter": lambda frame: (
        frame.filter(pl.col("price") >= _PRICE).select(pl.len().alias("n"), pl.col("customer").sum()).collect().to_arrow()
    ),
    "three columns": lambda frame: frame.select(_COLUMNS).collect().to_arrow(),
    "limit": lambda frame: frame.head(_LIMIT).collect().to_arrow(),
}
DUCKDB: dict[str, Query] = {
    "aggregate": lambda rows: rows.aggregate('city, sum(quantity), avg(weight), max("at")', "city").to_arrow_table(),
    "filter": lambda rows: rows.filter(f"price >= {_PRICE}").aggregate("count(*) AS n, sum(customer)").to_arrow_table(),
    "three columns": lambda rows: rows.select('customer, "at", product').to_arrow_table(),
    "limit": lambda rows: rows.limit(_LIMIT).to_arrow_table(),
}


def run(folder: Path, rows: int = 4_000_000, rounds: int = 5) -> Report:
    """`rows` of 12 columns, a tenth of them replaced: see `tables.with_dead_rows`."""
    table = tables.with_dead_rows(folder, rows)
    files = tables.paths(folder, table)
    measures: list[Measure] = []
    for engine, queries, ours, theirs in (
        ("Polars", POLARS, lambda: table.scan().to_polars(), lambda: pl.scan_parquet(files)),
        ("DuckDB", DUCKDB, lambda: table.scan().to_duckdb(), lambda: duckdb.read_parquet(files)),
    ):
        for name, query in queries.items():
            sides = {side: partial(_asked, query, rows_of) for side, rows_of in (("ours", ours), ("theirs", theirs))}
            spent = take_turns({side: lambda _, work=work: work for side, work in sides.items()}, rounds)
            measures += compared(f"{engine}, {name}", spent["ours"], spent["theirs"], _TARGET)
            _check(name, sides["ours"](), table, rows)
        given = {
            "Polars": lambda: table.scan(limit=_LIMIT).to_polars().collect(),
            "DuckDB": lambda: table.scan(limit=_LIMIT).to_duckdb().to_arrow_table(),
        }
        limited = {"ours": given[engine], "theirs": partial(_asked, queries["limit"], theirs)}
        spent = take_turns({side: lambda _, work=work: work for side, work in limited.items()}, rounds)
        measures += compared(f"{engine}, limit given to the scan", spent["ours"], spent["theirs"], _TARGET)
    return Report(
        "interop_reads",
        f"best of {rounds} in turns, after one that does not count",
        {"rows": f"{rows:,} x 12 columns in {len(files)} files", "dead": f"{rows // 10:,} rows"},
        f"{rows:,} rows",
        tuple(measures),
        ("The other side is the engine over the same files, dead rows included.",),
    )


def _asked(query: Query, rows_of: Callable[[], object]) -> pa.Table:
    return query(rows_of())


def _check(name: str, found: pa.Table, table: Table, rows: int) -> None:
    """Compares an answer with the rows of `to_arrow`."""
    if name == "three columns":
        assert found.num_rows == rows
    elif name == "limit":
        assert found.num_rows == min(_LIMIT, rows)
    elif name == "filter":
        scan = table.scan(where=f"price >= {_PRICE}", columns=["customer"]).to_arrow()
        assert list(_numbers(found)) == [scan.num_rows, pc.sum(scan["customer"]).as_py()]
    else:
        scan = table.scan(columns=["city", "quantity"]).to_arrow()
        expected = scan.group_by("city").aggregate([("quantity", "sum")])
        assert dict(zip(*(found.column(number).to_pylist() for number in (0, 1)), strict=True)) == dict(
            zip(expected["city"].to_pylist(), expected["quantity_sum"].to_pylist(), strict=True)
        )


def _numbers(found: pa.Table) -> Iterator[int]:
    return (int(column[0].as_py()) for column in found.columns)
