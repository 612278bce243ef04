"""Apache Iceberg on Spark: format 3, merge on read with deletion vectors, MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.base import BUCKETS, Unsupported, Wanted
from bench.peers.spark import SqlPeer, properties_sql

_CALL = "CALL lake.system."
_NAME = "table => 'bench.t'"


class Iceberg(SqlPeer):
    """Buckets of the key, so that a MERGE joins bucket by bucket without a shuffle of the table (storage-partitioned join), and
    rows sorted by key in a file. Nothing is maintained by itself: `maintain` is what the maintenance page recommends."""

    conf: ClassVar = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.sources.v2.bucketing.shuffle.enabled": "true",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    }
    properties: ClassVar = {
        "format-version": "3",
        "write.merge.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        "write.parquet.compression-codec": "zstd",
        "write.parquet.compression-level": "1",
    }
    settings: ClassVar = {
        **conf,
        **properties,
        "partitioned by": f"bucket({BUCKETS}, key)",
        "sort order": "key",
        "maintain": "rewrite_data_files, delete-file-threshold 1; rewrite_manifests",
    }

    def __init__(self, folder: Path, jars: Sequence[Path], buckets: bool = True, mode: str = "merge-on-read") -> None:
        """`buckets`: of the key; otherwise files in the order of the key. `mode`: of UPDATE, DELETE and MERGE."""
        super().__init__(folder, jars)
        self.buckets = buckets
        self.properties = {**self.properties, **{f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}}
        self.settings = {**self.settings, **self.properties}
        if not buckets:
            self.settings = {name: value for name, value in self.settings.items() if name != "partitioned by"}

    def create_sql(self, columns: str, wanted: Wanted) -> list[str]:
        if wanted.engine not in ("upsert", "partial"):
            raise Unsupported("no merge engines")
        partitions = f"PARTITIONED BY (bucket({BUCKETS}, {wanted.key}))" if self.buckets else ""
        order = "DISTRIBUTED BY PARTITION LOCALLY ORDERED BY" if self.buckets else "ORDERED BY"
        return [
            f"CREATE TABLE {self.name} ({columns}) USING iceberg {partitions} {properties_sql(self.properties)}",
            f"ALTER TABLE {self.name} WRITE {order} {wanted.key}",
        ]

    def maintain(self) -> None:
        self._rewrite("'delete-file-threshold', '1'")
        self.spark.sql(f"{_CALL}rewrite_manifests({_NAME})").collect()

    def compact(self) -> None:
        self._rewrite("'rewrite-all', 'true'")

    def _rewrite(self, options: str) -> None:
        self.spark.sql(f"{_CALL}rewrite_data_files({_NAME}, options => map({options}))").collect()
