"""The demo on a local Spark: Structured Streaming writes one file per micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.demo.events import DemoSource
from lsmlake.cli.session import local_session
from lsmlake.errors import LakeError
from lsmlake.warehouse import connect

_LOOK_SECONDS = 0.2
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # a minute is too short for the second compiler to pay, and two cores are too few for a parallel collector
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class OnSpark:
    """The `DemoEngine` on Spark. `scratch`: a directory for checkpoints."""

    intake, reader, writer = "Spark streams them, one file per micro-batch,", "Spark", "Spark"

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark, self._scratch = spark, scratch
        self.title = f"The stream, on Spark {spark.version}"

    @staticmethod
    @contextmanager
    def started(scratch: Path) -> Iterator[OnSpark]:
        with local_session("lsmlake demo", _SETTINGS) as spark:
            yield OnSpark(spark, scratch)

    def lake(self, warehouse: Path) -> Lake:
        return connect(warehouse, spark=self._spark)

    def stream(self, table: Table, source: DemoSource) -> Iterator[int]:
        files = str(source.directory)
        schema = self._spark.read.parquet(files).schema
        stream = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(files)
        query = table.write_stream(stream, checkpoint=str(self._scratch / "checkpoint"), trigger={"availableNow": True})
        reported, ended = 0, False
        try:
            while not ended:
                ended = query.awaitTermination(_LOOK_SECONDS)
                last = query.lastProgress
                done = last["batchId"] + 1 if last else 0
                if done > reported:
                    reported = done
                    yield done
        except StreamingQueryException as failed:
            raise LakeError("the stream failed", found=_reason(failed), cure="--debug shows more") from failed
        finally:
            if query.isActive:
                query.stop()

    def ask(self, table: Table, query: str) -> list[dict]:
        return [row.asDict() for row in self._spark.sql(query, flights=table.df()).collect()]

    def rows(self, table: Table) -> pa.Table:
        return table.df().toArrow()

    def plain(self, table: Table, query: str, directory: Path, files: int) -> Callable[[], object]:
        flights = table.df()
        rows = -(-flights.count() // files)
        flights.coalesce(1).write.option("maxRecordsPerFile", rows).parquet(str(directory))
        copy = self._spark.read.schema(flights.schema).parquet(str(directory))
        return lambda: self._spark.sql(query, flights=copy).collect()


def _reason(failed: StreamingQueryException) -> str:
    """The line of lsmlake's own error in Spark's report, else the first line."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("lsmlake.errors.")), lines[0] if lines else type(failed).__name__)
