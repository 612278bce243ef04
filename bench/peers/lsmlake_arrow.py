"""lsmlake without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from bench.peers.arrow import ArrowPeer, rows_of
from bench.peers.base import Wanted
from bench.peers.lsmlake_options import OPTIONS, options_for
from bench.peers.read import Read


class LsmlakeArrow(ArrowPeer):
    package = "lsmlake"
    settings = OPTIONS

    def create(self, wanted: Wanted) -> None:
        self.wanted = wanted
        lake = lsmlake.connect(self.folder / "warehouse")
        lake.create_database("bench", if_not_exists=True)
        self.handle = lake.create_table("bench.t", wanted.schema, primary_key=[wanted.key], options=options_for(wanted))

    def upsert(self, path: Path) -> None:
        self.handle.upsert(rows_of(path), compact=None if self.wanted.inline else False)

    def delete(self, path: Path) -> None:
        self.handle.delete_keys(rows_of(path))

    def update(self, path: Path) -> None:
        rows = rows_of(path)
        given = set(rows.column_names)
        columns = {
            field.name: rows[field.name] if field.name in given else pa.nulls(rows.num_rows, field.type)
            for field in self.handle.schema
        }
        self.handle.upsert(pa.table(columns))

    def scan(self, read: Read | None) -> pa.RecordBatchReader:
        if read is None:
            return self.handle.scan().to_batches()
        return self.handle.scan(where=read.condition or None, columns=list(read.columns)).to_batches()

    def compact(self) -> None:
        self.handle.compact(full=True)

    def mark(self) -> int:
        return self.handle.snapshots()["snapshot_id"][-1].as_py()

    def count_changes(self, since: int) -> int:
        changes = self.handle.changes(since, mode="changelog").to_arrow()
        return changes.filter(pc.not_equal(changes["_row_kind"], "-U")).num_rows
