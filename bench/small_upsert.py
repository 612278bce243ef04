"""Upserts of 100 to 1,000,000 rows in this process, beside SQLite, a file of DuckDB, delta-rs and PyIceberg.

All sides hold the same table and get the same batches of keys at random as Arrow tables; each call is one durable transaction.
SQLite has a write-ahead log with `synchronous = FULL`, and gets its rows as tuples that were made before. lsmlake compacts as it
does by default; the others rewrite files within the call or not at all. A side that takes too long for a size is left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from bench import tables
from bench.checksum import of_table, same
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import compared, take_turns

SIZES = 100, 1_000, 10_000, 1_000_000
_ICEBERG_ROWS_MAX = 1_000  # its upsert compares each row with an expression that names all keys
_PLAIN = pa.types.is_integer, pa.types.is_floating, pa.types.is_string
_TARGETS = {"delta-rs": 0.2, "PyIceberg": 0.2}


class Store(NamedTuple):
    """A table of orders. `prepared`: the form of a batch that `upsert` takes, made before the clock starts."""

    upsert: Callable[[object], object]
    read: Callable[[], pa.Table]
    prepared: Callable[[pa.Table], object] = lambda rows: rows


def run(folder: Path, rows: int = 1_000_000, rounds: int = 5, least: int = 100, most: int = 1_000_000) -> Report:
    """`rows` of 12 columns. `least`, `most`: the smallest and the largest batch."""
    measures: list[Measure] = []
    answers = {}
    for size in (size for size in SIZES if least <= size <= most):
        base = orders(np.arange(rows))
        batches = [orders(np.sort(_drawn(number, rows, size)), number + 1) for number in range(rounds + 1)]
        (own := folder / f"{size}").mkdir()
        stores = {name: made(own, base) for name, made in _STORES.items() if name != "PyIceberg" or size <= _ICEBERG_ROWS_MAX}
        spent = take_turns({name: partial(_writing, store, batches) for name, store in stores.items()}, rounds)
        for name in list(stores)[1:]:
            measures += compared(f"{size:,} rows / {name}", spent["lsmlake"], spent[name], _TARGETS.get(name))
        answers[size] = same(**{name: of_table(store.read()) for name, store in stores.items()})
    return Report(
        "small_upsert",
        f"best of {rounds} rounds in turns after one that does not count",
        {"rows": f"{rows:,} x 12 columns", "batches": "keys at random"},
        "; ".join(f"{size:,}: {answer}" for size, answer in answers.items()),
        tuple(measures),
    )


def _drawn(number: int, rows: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).choice(rows, min(rows, size), replace=False)


def _writing(store: Store, batches: list[pa.Table], number: int) -> Callable[[], object]:
    batch = store.prepared(batches[number])
    return lambda: store.upsert(batch)


# -- the others --------------------------------------------------------------------------------------------------------


def _tuples(rows: pa.Table) -> list[tuple]:
    """Rows for SQLite, which has no dates and decimals: as numbers and texts."""
    columns = [column if any(check(column.type) for check in _PLAIN) else column.cast(pa.string()) for column in rows.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _lsmlake(folder: Path, base: pa.Table) -> Store:
    table = tables.create(folder / "lsmlake", {})
    table.upsert(base)
    return Store(table.upsert, table.to_arrow)


def _sqlite(folder: Path, base: pa.Table) -> Store:
    connection = sqlite3.connect(folder / "sqlite.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    names = ", ".join(f'"{name}"' for name in SCHEMA.names)
    connection.execute(f"CREATE TABLE orders ({names}, PRIMARY KEY ({KEY})) WITHOUT ROWID")
    places = ", ".join("?" * len(SCHEMA))
    text = f"INSERT OR REPLACE INTO orders ({names}) VALUES ({places})"

    def upsert(rows: list[tuple]) -> None:
        connection.execute("BEGIN")
        connection.executemany(text, rows)
        connection.execute("COMMIT")

    def read() -> pa.Table:
        with closing(connection.execute(f"SELECT {names} FROM orders")) as found:
            columns = zip(*found.fetchall(), strict=True)
        arrays = [pa.array(list(values)).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)]
        return pa.table(arrays, schema=SCHEMA)

    upsert(_tuples(base))
    return Store(upsert, read, _tuples)


def _duckdb(folder: Path, base: pa.Table) -> Store:
    connection = duckdb.connect(str(folder / "duck.db"))
    connection.register("base", base)
    connection.execute("CREATE TABLE orders AS SELECT * FROM base LIMIT 0")
    connection.execute(f"ALTER TABLE orders ADD PRIMARY KEY ({KEY})")

    def upsert(rows: pa.Table) -> None:
        connection.register("rows", rows)
        connection.execute("INSERT OR REPLACE INTO orders SELECT * FROM rows")

    upsert(base)
    return Store(upsert, lambda: connection.sql("FROM orders").to_arrow_table().cast(SCHEMA))


def _delta(folder: Path, base: pa.Table) -> Store:
    path = str(folder / "delta")
    write_deltalake(path, base)

    def upsert(rows: pa.Table) -> None:
        merging = DeltaTable(path).merge(rows, f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    return Store(upsert, lambda: DeltaTable(path).to_pyarrow_table().cast(SCHEMA))


def _iceberg(folder: Path, base: pa.Table) -> Store:
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.orders", base.schema)
    table.append(base)
    return Store(lambda rows: table.upsert(rows, join_cols=[KEY]), lambda: table.scan().to_arrow().cast(SCHEMA))


_STORES: dict[str, Callable[[Path, pa.Table], Store]] = {
    "lsmlake": _lsmlake,
    "SQLite": _sqlite,
    "DuckDB": _duckdb,
    "delta-rs": _delta,
    "PyIceberg": _iceberg,
}
