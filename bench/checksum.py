"""Row count and order-independent hash of a table or of Parquet files: equal if two sides did the same work."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa


def of_table(rows: pa.Table) -> str:
    """The content of `rows`."""
    with duckdb.connect() as database:
        database.register("rows", rows)
        return _checksum(database, "rows", rows.column_names)


def of_files(paths: Sequence[str], columns: Sequence[str]) -> str:
    """The content of these columns of Parquet files."""
    with duckdb.connect() as database:
        return _checksum(database, f"read_parquet([{', '.join(map(repr, paths))}])", columns)


def _checksum(database: duckdb.DuckDBPyConnection, source: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    ((count, total),) = database.sql(f"select count(*), sum(hash({names})) from {source}").fetchall()
    return f"{count:,} rows, hash {(total or 0) % 2**64:016x}"


def same(**answers: str) -> str:
    """The answer of all sides. Raises AssertionError if they differ, since the times are then meaningless."""
    assert len(set(answers.values())) == 1, f"the sides did different work: {answers}"
    return next(iter(answers.values()))
