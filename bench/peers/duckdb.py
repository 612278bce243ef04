"""DuckDB's own table: no lake, no open files; the reference for what one process can do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa

from bench.peers.arrow import ArrowPeer, ArrowPlain, count
from bench.peers.base import CORES, Plain, Unsupported, Wanted
from bench.peers.read import Read

_TYPES = {"int64": "BIGINT", "int32": "INTEGER", "double": "DOUBLE", "string": "VARCHAR", "date32[day]": "DATE"}


class DuckDb(ArrowPeer):
    """A primary key, INSERT OR REPLACE, a checkpoint after every batch so that it is on disk like the others' commits."""

    package = "duckdb"
    settings: ClassVar = {
        "threads": str(CORES),
        "upsert": "INSERT OR REPLACE with a PRIMARY KEY",
        "checkpoint": "after every batch",
    }

    def __init__(self, folder: Path, jars: Sequence[Path] = ()) -> None:
        super().__init__(folder, jars)
        self.connection = duckdb.connect(str(folder / "t.duckdb"), config={"threads": CORES})
        self.connection.sql("SET TimeZone = 'UTC'")

    def create(self, wanted: Wanted) -> None:
        if wanted.engine not in ("upsert", "partial") or wanted.changes:
            raise Unsupported("no merge engines, no change feed")
        self.key = wanted.key
        columns = ", ".join(f'"{field.name}" {_sql_type(field.type)}' for field in wanted.schema)
        self.connection.sql(f"CREATE TABLE t ({columns}, PRIMARY KEY ({wanted.key}))")

    def upsert(self, path: Path) -> None:
        self._change(f"INSERT OR REPLACE INTO t SELECT * FROM {_source(path)}")

    def delete(self, path: Path) -> None:
        self._change(f"DELETE FROM t WHERE {self.key} IN (SELECT {self.key} FROM {_source(path)})")

    def update(self, path: Path) -> None:
        names = [row[0] for row in self.connection.sql(f"DESCRIBE SELECT * FROM {_source(path)}").fetchall()]
        values = ", ".join(f"{name} = s.{name}" for name in names if name != self.key)
        self._change(f"UPDATE t SET {values} FROM {_source(path)} s WHERE t.{self.key} = s.{self.key}")

    def update_where(self, column: str, where: str) -> None:
        self._change(f"UPDATE t SET {column} = {column} + 1 WHERE {where}")

    def delete_where(self, where: str) -> None:
        self._change(f"DELETE FROM t WHERE {where}")

    def _change(self, sql: str) -> None:
        self.connection.sql(sql)
        self.connection.sql("CHECKPOINT")

    def scan(self, read: Read | None) -> pa.RecordBatchReader:
        return self.connection.sql("SELECT * FROM t").to_arrow_reader()

    def export(self) -> int:
        return count(self.scan(None))

    def query(self, read: Read) -> list[tuple]:
        return self.connection.sql(read.sql("t")).fetchall()

    def plain(self, path: Path) -> Plain:
        return ArrowPlain(path)

    def compact(self) -> None:
        self._change("VACUUM")

    def close(self) -> None:
        self.connection.close()


def _source(path: Path) -> str:
    return f"read_parquet('{path}/*.parquet')"


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return "TIMESTAMPTZ" if pa.types.is_timestamp(kind) else _TYPES[str(kind)]
