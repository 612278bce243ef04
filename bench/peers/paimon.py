"""Apache Paimon on Spark: a primary-key table with deletion vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.base import BUCKETS, Unsupported, Wanted
from bench.peers.spark import SqlPeer, properties_sql

_ENGINES = {"upsert": "deduplicate", "partial": "partial-update"}


class Paimon(SqlPeer):
    """Compaction runs inside its writers."""

    conf: ClassVar = {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
    }
    properties: ClassVar = {
        "bucket": str(BUCKETS),
        "deletion-vectors.enabled": "true",
        "file.format": "parquet",
        "file.compression": "zstd",
        "file.compression.zstd-level": "1",
    }
    settings: ClassVar = {**conf, **properties, "compact": "sys.compact, full"}

    def __init__(self, folder: Path, jars: Sequence[Path], *, has_strategy: bool = True) -> None:
        """Without `has_strategy` compaction is always full, and knows no argument that says so."""
        self.arguments = ", compact_strategy => 'full'" if has_strategy else ""
        super().__init__(folder, jars)

    def create_sql(self, columns: str, wanted: Wanted) -> list[str]:
        if not wanted.inline:
            raise Unsupported("of a table with deletion vectors rows at level 0 are not seen before they are compacted")
        properties = {
            **self.properties,
            "primary-key": wanted.key,
            "merge-engine": _ENGINES.get(wanted.engine, wanted.engine),
            **({"changelog-producer": "lookup"} if wanted.changes else {}),
        }
        if wanted.engine == "aggregation":
            properties |= {f"fields.{name}.aggregate-function": "sum" for name in wanted.summed}
        return [f"CREATE TABLE {self.name} ({columns}) {properties_sql(properties)}"]

    def upsert(self, path: Path) -> None:
        self.load(path)

    def delete(self, path: Path) -> None:
        self.source(path)
        self.spark.sql(f"DELETE FROM {self.name} WHERE {self.key} IN (SELECT {self.key} FROM source)")

    def update(self, path: Path) -> None:
        names = ", ".join(self.source(path).columns)
        self.spark.sql(f"INSERT INTO {self.name} ({names}) SELECT {names} FROM source")

    def compact(self) -> None:
        self.spark.sql(f"CALL lake.sys.compact(table => 'bench.t'{self.arguments})").collect()

    def mark(self) -> int:
        return self.spark.sql("SELECT MAX(snapshot_id) FROM lake.bench.`t$snapshots`").collect()[0][0]

    def count_changes(self, since: int) -> int:
        between = {"incremental-between": f"{since},{self.mark()}", "incremental-between-scan-mode": "changelog"}
        return self.spark.read.options(**between).table("lake.bench.`t$audit_log`").filter("rowkind <> '-U'").count()
