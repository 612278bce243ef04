"""Spark with the jar of Iceberg; the first argument names the jars."""

from __future__ import annotations

import os
import sys
import tempfile

import pyarrow as pa
from answering import Answer, answer_all
from pyspark.sql import SparkSession
from questions import COUNT, FILES, RANGES, REFS, ROW_IDS, ROWS, SNAPSHOTS, Question, ranges

_CONF = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.cache-enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
_METADATA = {
    SNAPSHOTS: "SELECT snapshot_id, operation FROM {}.snapshots",
    REFS: "SELECT name, type, snapshot_id FROM {}.refs",
    ROW_IDS: "SELECT count(*), count(_row_id), count(DISTINCT _row_id) FROM {}",
    FILES: "SELECT content, file_path, record_count FROM {}.files",
}


def session(warehouse: str, jars: list[str]) -> SparkSession:
    """A session whose catalog `lake` has the tables of a warehouse of lsmlake."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", ":".join(jars))
    scratch = tempfile.mkdtemp(prefix="lsmlake-readers-spark-")
    placed = {"spark.sql.catalog.lake.warehouse": warehouse, "spark.local.dir": scratch, "spark.sql.warehouse.dir": scratch}
    for name, value in {**_CONF, **placed}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def opened(spark: SparkSession) -> Answer:
    """The newest rows are read by path, those of older snapshots by the name in the catalog."""

    def answer(question: Question) -> pa.Table:
        name = "lake." + ".".join(f"`{part}`" for part in question.name.split("/"))
        if question.what in _METADATA:
            return spark.sql(_METADATA[question.what].format(name)).toArrow()
        version = question.snapshot if question.tag is None else f"'{question.tag}'"
        if version is None:
            frame = spark.read.format("iceberg").load(question.metadata.partition("/metadata/")[0])
        else:
            frame = spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}")
        for one in question.where:
            frame = frame.where(str(one))
        if question.what == COUNT:
            return pa.table({"count": [frame.count()]})
        if question.what == RANGES:  # of bounds in manifests, where no row is dead
            return frame.selectExpr(*ranges(question.columns, "`").split(", ")).toArrow()
        assert question.what == ROWS
        return frame.toArrow()

    return answer


if __name__ == "__main__":
    jars, arguments = sys.argv[1].split(":"), sys.argv[2:]
    answer_all(lambda warehouse: opened(session(warehouse, jars)), arguments)
