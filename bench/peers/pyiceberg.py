"""PyIceberg: Iceberg tables in process, `upsert` that writes copies of the files it touches."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from bench.peers.arrow import ArrowPeer, rows_of
from bench.peers.base import Unsupported, Wanted
from bench.peers.read import Read


class PyIceberg(ArrowPeer):
    package = "pyiceberg"
    settings: ClassVar = {
        "catalog": "SQL, SQLite",
        "write.parquet.compression-codec": "zstd",
        "write.parquet.compression-level": "1",
    }

    def create(self, wanted: Wanted) -> None:
        if wanted.engine != "upsert" or wanted.changes:
            raise Unsupported("no merge engines, no update of some columns, no change feed")
        self.key = wanted.key
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/warehouse")
        catalog.create_namespace("bench")
        properties = {name: value for name, value in self.settings.items() if name.startswith("write.")}
        self.handle = catalog.create_table("bench.t", wanted.schema, properties=properties)

    def load(self, path: Path) -> None:
        self.handle.append(rows_of(path))

    def upsert(self, path: Path) -> None:
        self.handle.upsert(rows_of(path), join_cols=[self.key])

    def delete(self, path: Path) -> None:
        self.handle.delete(In(self.key, rows_of(path)[self.key].to_pylist()))

    def scan(self, read: Read | None) -> pa.RecordBatchReader:
        if read is None:
            return self.handle.scan().to_arrow_batch_reader()
        filters = {"row_filter": read.condition} if read.where else {}
        return self.handle.scan(selected_fields=read.columns, **filters).to_arrow_batch_reader()

    def compact(self) -> None:
        raise Unsupported("no compaction")
