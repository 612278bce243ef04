"""Readers of Iceberg over the published metadata of a table, beside lsmlake's own way into the same engine.

PyIceberg and `to_arrow`, Polars' `scan_iceberg` and `to_polars`, DuckDB's `iceberg_scan` and `to_duckdb` read the same files, a
tenth of the rows dead, in turns. Each begins with the table: planning counts. `iceberg_scan` runs in a process of its own, as its
extension needs a certain DuckDB.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from bench import tables
from bench.result import Report
from bench.timing import compared, take_turns
from lsmlake.api.table import Table

Answer = Callable[[], tuple[int, int]]
"""Reads, and returns the number of rows and the sum of their ids."""

_PAIRS = ("to_arrow", "PyIceberg"), ("to_polars", "scan_iceberg"), ("to_duckdb", "iceberg_scan")
_CHILD = """
import json, sys, duckdb, duckdb_extensions
for name in ("avro", "iceberg"):
    duckdb_extensions.import_extension(name)
connection = duckdb.connect()
connection.execute("LOAD iceberg; SET enable_progress_bar = false")
for where in sys.stdin:
    rows = connection.sql(f"SELECT * FROM iceberg_scan('{sys.argv[1]}') WHERE {where}").to_arrow_table()
    print(json.dumps([rows.num_rows, int(rows["id"].to_numpy().sum())]), flush=True)
"""


def run(folder: Path, rows: int = 2_000_000, rounds: int = 5, duckdb_python: str = "") -> Report:
    """`rows` of 12 columns, a tenth of them replaced. `duckdb_python`: an interpreter with DuckDB and the packages
    `duckdb-extensions`, `duckdb-extension-iceberg` and `-avro` of its version; without it `iceberg_scan` is left out."""
    table = tables.with_dead_rows(folder, rows)
    metadata = table.publish_iceberg()
    queries = {"all rows": "id >= 0", "a range of keys": f"id >= {rows - rows // 20}", "one key": f"id = {rows // 2}"}
    measures, answers = [], []
    with _duckdb_child(duckdb_python, metadata) as child:
        for name, where in queries.items():
            sides = _sides(table, metadata, where, child)
            found = {side: answer() for side, answer in sides.items()}
            assert len(set(found.values())) == 1, f"the sides did different work: {found}"
            answers.append(f"{found['to_arrow'][0]:,} rows")
            spent = take_turns({side: lambda _, work=work: work for side, work in sides.items()}, rounds)
            for ours, theirs in _PAIRS:
                if theirs in spent:
                    measures += compared(f"{name}: {ours} / {theirs}", spent[ours], spent[theirs], None)
    return Report(
        "iceberg_readers",
        f"best of {rounds} in turns, after one that does not count; planning counts",
        {"rows": f"{rows:,} x 12 columns in {len(tables.paths(folder, table))} files", "dead": f"{rows // 10:,} rows"},
        ", ".join(answers),
        tuple(measures),
        () if duckdb_python else ("iceberg_scan was left out: no interpreter was given",),
    )


def _sides(table: Table, metadata: str, where: str, child: Callable[[str], tuple[int, int]] | None) -> dict[str, Answer]:
    connection = duckdb.connect()
    column, op, number = where.split()
    by_polars = pl.col(column) >= int(number) if op == ">=" else pl.col(column) == int(number)
    sides: dict[str, Answer] = {
        "to_arrow": lambda: _answer(table.scan(where=where).to_arrow()),
        "PyIceberg": lambda: _answer(_pyiceberg(metadata, where)),
        "to_polars": lambda: _answer(table.scan(where=where).to_polars().collect().to_arrow()),
        "scan_iceberg": lambda: _answer(pl.scan_iceberg(metadata).filter(by_polars).collect().to_arrow()),
        "to_duckdb": lambda: _answer(table.scan(where=where).to_duckdb(connection).to_arrow_table()),
    }
    return sides if child is None else {**sides, "iceberg_scan": partial(child, where)}


def _pyiceberg(metadata: str, where: str) -> pa.Table:
    return StaticTable.from_metadata(metadata).scan(row_filter=where).to_arrow()


def _answer(rows: pa.Table) -> tuple[int, int]:
    return rows.num_rows, pc.sum(rows["id"]).as_py()


@contextmanager
def _duckdb_child(python: str, metadata: str) -> Iterator[Callable[[str], tuple[int, int]] | None]:
    """Asks `iceberg_scan` in a process of another interpreter."""
    if not python:
        yield None
        return
    command = [python, "-c", _CHILD, metadata.removeprefix("file://")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(where: str) -> tuple[int, int]:
            process.stdin.write(f"{where}\n")
            process.stdin.flush()
            return tuple(json.loads(process.stdout.readline()))

        yield ask
        process.stdin.close()
