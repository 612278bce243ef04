"""A streaming upsert in a process that kills itself at a given moment: see test_spark_killed.py.

    stream_program.py FOLDER MOMENT BATCH

Streams all files of FOLDER/in, one per micro-batch, into the table d.t of FOLDER/warehouse. The process kills itself at MOMENT of
micro-batch BATCH: `written` (only the data files exist), `publishing` (everything but the snapshot exists) or `committed` (the
snapshot exists, and Spark's checkpoint does not have the micro-batch).
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
from lsmlake.store.local import LocalStorage


class DyingStorage(LocalStorage):
    """Ends its process at `moment` of the commit that makes the snapshot `last`."""

    moment, last = "", 0

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


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the process outlived its death")


def stream(spark, table: lsmlake.Table, folder: Path):
    """The started query, which ends after the last file."""
    source = spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return table.write_stream(source, checkpoint=str(folder / "checkpoint"), trigger={"availableNow": True})


def main(folder: Path, moment: str, batch: int) -> None:
    spark = classic_session(folder / "spark")
    table = lsmlake.connect(folder / "warehouse", spark=spark).table("d.t")
    DyingStorage.moment, DyingStorage.last = moment, batch + 1
    table.meta.env.storage.__class__ = DyingStorage
    stream(spark, table, folder).awaitTermination()
    raise AssertionError("the process outlived the moment of its death")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
