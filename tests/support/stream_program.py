"""A streaming upsert in a process that kills itself at a given moment: see test_spark_killed.py.

    stream_program.py FOLDER DOOR MOMENT BATCH

Streams all files of FOLDER/in, one per micro-batch, into the table d.t of FOLDER/warehouse, by the DOOR `write_stream` or
`format`. The process, or the one in which Spark commits for it, kills itself and its driver at MOMENT of micro-batch BATCH:
`written` (only the data files exist), `publishing` (everything but the snapshot exists) or `committed` (the snapshot exists, and
Spark's checkpoint does not have the micro-batch).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
from spark_support import classic_session

import lsmlake
from lsmlake.spark.datasource.portable import portable_source
from lsmlake.storage.local import LocalStorage


class DyingStorage(LocalStorage):
    """Ends its process at `moment` of the commit that makes the snapshot `last`."""

    moment, last, driver = "", 0, 0

    def write(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        before = path.partition("/manifest/")[0] + f"/snapshot/snapshot-{self.last - 1}"
        if self.moment == "written" and "/manifest/" in path and (self.last == 1 or self.size(before) is not None):
            die()
        return super().write(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        here = path.endswith(f"/snapshot-{self.last}")
        if here and self.moment == "publishing":
            die()
        added = super().put_if_absent(path, data)
        return die() if here and self.moment == "committed" else added


class DyingSource(portable_source(None)):
    """`format("lsmlake")`, whose writes end their process and the driver."""

    def streamWriter(self, schema, overwrite):
        writer = super().streamWriter(schema, overwrite)
        writer.table.meta.env.storage.__class__ = DyingStorage
        return writer


def die() -> NoReturn:
    for process in (DyingStorage.driver, os.getpid()):
        os.kill(process, signal.SIGKILL)
    raise AssertionError("the process outlived its death")


def stream(spark, table: lsmlake.Table, folder: Path, door: str):
    """The started query, which ends after the last file."""
    source = spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    checkpoint, trigger = str(folder / "checkpoint"), {"availableNow": True}
    if door == "write_stream":
        return table.write_stream(source, checkpoint=checkpoint, trigger=trigger)
    writer = source.writeStream.format("lsmlake").option("checkpointLocation", checkpoint).trigger(**trigger)
    return writer.start(table.meta.env.storage.place(table.path))


def main(folder: Path, door: str, moment: str, batch: int) -> None:
    spark = classic_session(folder / "spark")
    table = lsmlake.connect(folder / "warehouse", spark=spark).table("d.t")
    DyingStorage.moment, DyingStorage.last, DyingStorage.driver = moment, batch + 1, os.getpid()
    table.meta.env.storage.__class__ = DyingStorage
    spark.dataSource.register(DyingSource)
    stream(spark, table, folder, door).awaitTermination()
    raise AssertionError("the process outlived the moment of its death")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
