"""Apache Hudi on Spark: merge on read, by bucket or by record index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame

from bench.peers.base import BUCKETS, Unsupported, Wanted
from bench.peers.data import KEY
from bench.peers.spark import SparkPeer

_INDEXES = {
    "BUCKET": {"hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.num.buckets": str(BUCKETS)},
    "GLOBAL_RECORD_LEVEL_INDEX": {"hoodie.metadata.global.record.level.index.enable": "true"},
}


def write_options(key: str, index: str) -> dict[str, str]:
    """Of a merge-on-read table without partitions. `index`: one of `_INDEXES`."""
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.metadata.enable": "true",
        "hoodie.index.type": index,
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.upsert.shuffle.parallelism": str(BUCKETS),
        "hoodie.bulkinsert.shuffle.parallelism": str(BUCKETS),
        "hoodie.delete.shuffle.parallelism": str(BUCKETS),
        **_INDEXES[index],
    }


class Hudi(SparkPeer):
    """Written by its data source, into a path. Compaction runs inline after every fifth commit."""

    conf: ClassVar = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    inline: ClassVar = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "5"}

    def __init__(self, folder: Path, jars: Sequence[Path], index: str) -> None:
        self.options = write_options(KEY, index)
        self.settings = {**self.conf, **self.options, **self.inline, "load": "bulk_insert", "compact": "CALL run_compaction"}
        self.path = str(folder / "warehouse" / "t")
        super().__init__(folder, jars)

    def create(self, wanted: Wanted) -> None:
        """The first write makes it."""
        if wanted.engine not in ("upsert", "partial") or wanted.changes:
            raise Unsupported("no merge engines and no change feed of this kind are measured")
        self.key = wanted.key
        self.options |= self.inline if wanted.inline else {"hoodie.compact.inline": "false"}

    def load(self, path: Path) -> None:
        self._write(path, "bulk_insert")

    def upsert(self, path: Path) -> None:
        self._write(path, "upsert")

    def delete(self, path: Path) -> None:
        self._write(path, "delete")

    def update(self, path: Path) -> None:
        names = [name for name in self.source(path).columns if name != self.key]
        for name in (name for name in self.options if name.startswith(("hoodie.index.", "hoodie.bucket.", "hoodie.metadata."))):
            self.spark.conf.set(name, self.options[name])
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS t USING hudi LOCATION '{self.path}'")
        values = ", ".join(f"t.{name} = s.{name}" for name in names)
        self.spark.sql(f"MERGE INTO t USING source s ON t.{self.key} = s.{self.key} WHEN MATCHED THEN UPDATE SET {values}")

    def _write(self, path: Path, operation: str) -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation}
        self.source(path).write.format("hudi").options(**options).mode("append").save(self.path)

    def table(self) -> DataFrame:
        rows = self.spark.read.format("hudi").load(self.path)
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie_")))

    def compact(self) -> None:
        self.spark.sql(f"CALL run_compaction(op => 'scheduleAndExecute', path => '{self.path}')").collect()
