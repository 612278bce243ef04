"""lsmlake without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from bench.peers.arrow import ArrowPeer, rows_of
from bench.peers.base import Wanted
from bench.peers.lsmlake_options import LAYOUTS, definition
from bench.peers.read import Read


class LsmlakeArrow(ArrowPeer):
    package = "lsmlake"

    def __init__(self, folder: Path, jars: Sequence[Path] = (), layout: str = "key") -> None:
        super().__init__(folder, jars)
        self.layout, self.settings = layout, LAYOUTS[layout]

    def create(self, wanted: Wanted) -> None:
        self.wanted = wanted
        lake = lsmlake.connect(self.folder / "warehouse")
        lake.create_database("bench", if_not_exists=True)
        self.handle = lake.create_table("bench.t", wanted.schema, **definition(wanted, self.layout))

    def load(self, path: Path) -> None:
        if self.layout == "key":
            self.upsert(path)
        else:
            self.handle.append(rows_of(path))

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

    def update_where(self, column: str, where: str) -> None:
        self.handle.update({column: f"{column} + 1"}, where)

    def delete_where(self, where: str) -> None:
        self.handle.delete(where)

    def merge(self, path: Path) -> None:
        merge = self.handle.merge(rows_of(path), f"t.{self.wanted.key} = s.{self.wanted.key}")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self) -> None:
        self.handle.compact(full=True)

    def mark(self) -> int:
        return self.handle.snapshots()["snapshot_id"][-1].as_py()

    def count_changes(self, since: int) -> int:
        changes = self.handle.changes(since, mode="changelog").to_arrow()
        return changes.filter(pc.not_equal(changes["_row_kind"], "-U")).num_rows
