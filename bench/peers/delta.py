"""Delta Lake on Spark: deletion vectors, liquid clustering by key, MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.base import CORES, Unsupported, Wanted
from bench.peers.spark import SqlPeer, properties_sql


class Delta(SqlPeer):
    """Auto compaction and optimized writes are its inline maintenance. It wants to be Spark's own catalog. Its snapshots are
    read in fifty tasks unless a setting says that there are two cores."""

    database, name = "bench", "bench.t"
    conf: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(CORES),
    }
    properties: ClassVar = {"delta.enableDeletionVectors": "true"}
    inline: ClassVar = {"delta.autoOptimize.autoCompact": "true", "delta.autoOptimize.optimizeWrite": "true"}
    settings: ClassVar = {
        **conf,
        **properties,
        **inline,
        "clustered by": "key",
        "compact": "OPTIMIZE FULL; REORG TABLE ... APPLY (PURGE)",
    }

    def __init__(self, folder: Path, jars: Sequence[Path], vectors: bool = True) -> None:
        super().__init__(folder, jars)
        self.properties = {"delta.enableDeletionVectors": str(vectors).lower()}
        self.settings = {**self.settings, **self.properties}

    def place(self) -> dict[str, str]:
        return {"spark.sql.warehouse.dir": str(self.warehouse)}

    def create_sql(self, columns: str, wanted: Wanted) -> list[str]:
        if wanted.engine not in ("upsert", "partial"):
            raise Unsupported("no merge engines")
        properties = {
            **self.properties,
            **(self.inline if wanted.inline else {}),
            **({"delta.enableChangeDataFeed": "true"} if wanted.changes else {}),
        }
        clustered = f"CLUSTER BY ({wanted.key})"
        return [f"CREATE TABLE {self.name} ({columns}) USING delta {clustered} {properties_sql(properties)}"]

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.name} FULL").collect()
        self.spark.sql(f"REORG TABLE {self.name} APPLY (PURGE)").collect()

    def mark(self) -> int:
        return self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").collect()[0]["version"]

    def count_changes(self, since: int) -> int:
        feed = self.spark.read.option("readChangeFeed", "true").option("startingVersion", since + 1).table(self.name)
        return feed.filter("_change_type <> 'update_preimage'").count()
