"""lsmlake on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import lsmlake
from bench.peers.base import Wanted
from bench.peers.lsmlake_options import LAYOUTS, definition
from bench.peers.read import Read
from bench.peers.spark import SparkPeer, ask


class LsmlakeSpark(SparkPeer):
    def __init__(self, folder: Path, jars: Sequence[Path], layout: str = "key") -> None:
        super().__init__(folder, jars)
        self.layout, self.settings = layout, LAYOUTS[layout]
        self.lake = lsmlake.connect(self.warehouse, spark=self.spark)

    @property
    def version(self) -> str:
        return f"lsmlake-{version('lsmlake')} pyspark-{pyspark.__version__}"

    def create(self, wanted: Wanted) -> None:
        self.key, self.wanted = wanted.key, wanted
        self.lake.create_database("bench", if_not_exists=True)
        self.handle = self.lake.create_table("bench.t", wanted.schema, **definition(wanted, self.layout))

    def load(self, path: Path) -> None:
        if self.layout == "key":
            self.upsert(path)
        else:
            self.handle.append(self.source(path))

    def upsert(self, path: Path) -> None:
        self.handle.upsert(self.source(path), compact=None if self.wanted.inline else False)

    def delete(self, path: Path) -> None:
        self.handle.delete_keys(self.source(path))

    def update(self, path: Path) -> None:
        rows = self.source(path)
        given, kinds = set(rows.columns), self.table().schema
        nulls = {field.name: F.lit(None).cast(field.dataType) for field in kinds if field.name not in given}
        self.handle.upsert(rows.withColumns(nulls).select(kinds.names))

    def table(self) -> DataFrame:
        return self.handle.df()

    def query(self, read: Read) -> list[tuple]:
        return ask(self.handle.df(where=read.condition or None), read)

    def update_where(self, column: str, where: str) -> None:
        self.handle.update({column: f"{column} + 1"}, where)

    def delete_where(self, where: str) -> None:
        self.handle.delete(where)

    def merge(self, path: Path) -> None:
        merge = self.handle.merge(self.source(path), f"t.{self.wanted.key} = s.{self.wanted.key}")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self) -> None:
        self.handle.compact(full=True)

    def mark(self) -> int:
        return self.handle.snapshots()["snapshot_id"][-1].as_py()

    def count_changes(self, since: int) -> int:
        return self.handle.changes(since, mode="changelog").to_spark().filter("_row_kind <> '-U'").count()
