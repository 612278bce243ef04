"""delta-rs: Delta tables in process, MERGE that writes copies of the files it touches."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

from bench.peers.arrow import ArrowPeer, count, rows_of
from bench.peers.base import Unsupported, Wanted
from bench.peers.read import Read


class DeltaRs(ArrowPeer):
    """It has deletion vectors for reading only. Queries by its own DataFusion."""

    package = "deltalake"
    settings: ClassVar = {
        "merge": "streamed_exec False, so that statistics of the batch prune files of the table",
        "compression": "ZSTD, level 1",
        "maintain": "optimize.compact",
        "compact": "optimize.z_order by key",
    }

    def create(self, wanted: Wanted) -> None:
        if wanted.engine not in ("upsert", "partial"):
            raise Unsupported("no merge engines")
        self.key = wanted.key
        self.properties = WriterProperties(compression="ZSTD", compression_level=1)
        configuration = {"delta.enableChangeDataFeed": "true"} if wanted.changes else {}
        self.handle = DeltaTable.create(self.folder / "t", wanted.schema, configuration=configuration)

    def load(self, path: Path) -> None:
        write_deltalake(self.handle, rows_of(path), mode="append", writer_properties=self.properties)

    def upsert(self, path: Path) -> None:
        self._merge(path).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, path: Path) -> None:
        self._merge(path).when_matched_delete().execute()

    def update(self, path: Path) -> None:
        rows = rows_of(path)
        self._merge(path).when_matched_update({name: f"s.{name}" for name in rows.column_names if name != self.key}).execute()

    def update_where(self, column: str, where: str) -> None:
        self.handle.update(updates={column: f"{column} + 1"}, predicate=where, writer_properties=self.properties)

    def delete_where(self, where: str) -> None:
        self.handle.delete(where, writer_properties=self.properties)

    def _merge(self, path: Path):
        return self.handle.merge(
            rows_of(path),
            f"t.{self.key} = s.{self.key}",
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            writer_properties=self.properties,
        )

    def _ask(self, sql: str):
        return QueryBuilder().register("t", self.handle).execute(sql)

    def scan(self, read: Read | None) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(self._ask("SELECT * FROM t"))

    def query(self, read: Read) -> list[tuple]:
        rows = pa.RecordBatchReader.from_stream(self._ask(read.sql("t"))).read_all()
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def maintain(self) -> None:
        self.handle.optimize.compact(writer_properties=self.properties)

    def compact(self) -> None:
        self.handle.optimize.z_order([self.key], writer_properties=self.properties)

    def mark(self) -> int:
        return self.handle.version()

    def count_changes(self, since: int) -> int:
        feed = self.handle.load_cdf(starting_version=since + 1, predicate="_change_type <> 'update_preimage'")
        return count(pa.RecordBatchReader.from_stream(feed))
