"""Spark for the peers: the session, and queries. Peers differ only in their configuration and their SQL."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.peers.base import BUCKETS, CORES, Peer, Plain, Wanted
from bench.peers.read import Read

_CONF = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": str(BUCKETS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}
_TYPES = {"int64": "BIGINT", "int32": "INT", "double": "DOUBLE", "string": "STRING", "date32[day]": "DATE"}


def session(scratch: Path, jars: Sequence[Path], conf: Mapping[str, str]) -> SparkSession:
    """A local session of its own JVM; everything it writes beside tables lies below `scratch`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
    }
    if jars:
        local["spark.driver.extraClassPath"] = ":".join(map(str, jars))
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("peers")
    for name, value in {**_CONF, **local, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def ddl(schema: pa.Schema, key: str) -> str:
    """The columns as Spark's SQL declares them."""
    return ", ".join(f"{field.name} {_sql_type(field.type)}{' NOT NULL' if field.name == key else ''}" for field in schema)


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return "TIMESTAMP" if pa.types.is_timestamp(kind) else _TYPES[str(kind)]


def ask(rows: DataFrame, read: Read) -> list[tuple]:
    rows.createOrReplaceTempView("asked")
    return [tuple(row) for row in rows.sparkSession.sql(read.sql("asked")).collect()]


def hash_all(rows: DataFrame) -> int:
    """Of every value of every row, in any order. (A write to `noop` is refused by Delta: it plans no scan for it.)"""
    return rows.select(F.xxhash64(*rows.columns).alias("hash")).agg(F.bit_xor("hash")).collect()[0][0]


class SparkPlain(Plain):
    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.rows = lambda: spark.read.parquet(str(path))

    def query(self, read: Read) -> list[tuple]:
        return ask(self.rows(), read)

    def export(self) -> int:
        return hash_all(self.rows())


class SparkPeer(Peer):
    """A peer with a session of its own: batches come and rows go as DataFrames."""

    conf: Mapping[str, str] = MappingProxyType({})
    """Of the session, without the place of the warehouse."""

    def __init__(self, folder: Path, jars: Sequence[Path]) -> None:
        super().__init__(folder)
        self.warehouse = folder / "warehouse"
        self.spark = session(folder.parent, jars, {**self.conf, **self.place()})
        self.jars = jars

    def place(self) -> dict[str, str]:
        """The settings of the session that name the warehouse."""
        return {}

    @property
    def version(self) -> str:
        return " ".join([*(jar.stem for jar in self.jars[:1]), f"pyspark-{pyspark.__version__}"])

    def source(self, path: Path) -> DataFrame:
        rows = self.spark.read.parquet(str(path))
        rows.createOrReplaceTempView("source")
        return rows

    @abstractmethod
    def table(self) -> DataFrame:
        """As it is now."""

    def query(self, read: Read) -> list[tuple]:
        return ask(self.table(), read)

    def export(self) -> int:
        return hash_all(self.table())

    def plain(self, path: Path) -> SparkPlain:
        return SparkPlain(self.spark, path)

    def close(self) -> None:
        self.spark.stop()


class SqlPeer(SparkPeer):
    """A peer whose table is a table of Spark's catalog `lake`, written by SQL: MERGE INTO, unless it says otherwise."""

    database, name = "lake.bench", "lake.bench.t"

    def place(self) -> dict[str, str]:
        return {"spark.sql.catalog.lake.warehouse": str(self.warehouse)}

    def create(self, wanted: Wanted) -> None:
        self.key = wanted.key
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.database}")
        for statement in self.create_sql(ddl(wanted.schema, wanted.key), wanted):
            self.spark.sql(statement)

    @abstractmethod
    def create_sql(self, columns: str, wanted: Wanted) -> list[str]: ...

    def table(self) -> DataFrame:
        return self.spark.table(self.name)

    def load(self, path: Path) -> None:
        self.source(path)
        self.spark.sql(f"INSERT INTO {self.name} SELECT * FROM source")

    def upsert(self, path: Path) -> None:
        self._merge(path, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete(self, path: Path) -> None:
        self._merge(path, "WHEN MATCHED THEN DELETE")

    def update(self, path: Path) -> None:
        names = [name for name in self.source(path).columns if name != self.key]
        self._merge(path, "WHEN MATCHED THEN UPDATE SET " + ", ".join(f"t.{name} = s.{name}" for name in names))

    def update_where(self, column: str, where: str) -> None:
        self.spark.sql(f"UPDATE {self.name} SET {column} = {column} + 1 WHERE {where}")

    def delete_where(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")

    def _merge(self, path: Path, clauses: str) -> None:
        self.source(path)
        self.spark.sql(f"MERGE INTO {self.name} t USING source s ON t.{self.key} = s.{self.key} {clauses}")


def properties_sql(properties: Mapping[str, str]) -> str:
    return "TBLPROPERTIES (" + ", ".join(f"'{name}' = '{value}'" for name, value in properties.items()) + ")"
