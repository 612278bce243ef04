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
from pathlib import Path

from spark_support import classic_session

import lsmlake
from lsmlake.commit.commit import commit
from lsmlake.spark import write
from lsmlake.store.local import LocalStorage
from lsmlake.write import upsert


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingStorage(LocalStorage):
    """Ends the process instead of publishing a snapshot."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return die() if "/snapshot-" in path else super().put_if_absent(path, data)


def stream(spark, table: lsmlake.Table, folder: Path):
    """The started query, which ends after the last file."""
    source = spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return table.write_stream(source, checkpoint=str(folder / "checkpoint"), trigger={"availableNow": True})


def main(folder: Path, moment: str, batch: int) -> None:
    def dying(version, messages, identity):
        if identity.commit_id != batch:
            return commit(version, messages, identity)
        if moment == "written":
            die()
        if moment == "publishing":
            version.meta.env.storage.__class__ = DyingStorage
        outcome = commit(version, messages, identity)
        return die() if moment == "committed" else outcome

    write.commit = upsert.commit = dying  # tasks write the first batch, the driver those that follow
    spark = classic_session(folder / "spark")
    table = lsmlake.connect(folder / "warehouse", spark=spark).table("d.t")
    stream(spark, table, folder).awaitTermination()
    raise AssertionError("the process outlived the moment of its death")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
