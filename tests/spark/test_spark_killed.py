"""Batches are applied exactly once if the driver is killed at any moment of a micro-batch, or a task is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import SCALE
from naive import unreferenced
from pyspark import TaskContext, cloudpickle
from spark_support import same
from stream_program import stream

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.spark.spark_runtime import SparkRuntime
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

PROGRAM = Path(__file__).parents[1] / "support" / "stream_program.py"
BATCHES, STEP, WIDTH = 4, 50, 100
LAST = BATCHES - 1
DEATHS = (
    {
        "write_stream": (("written", 0), ("publishing", 2), ("committed", LAST)),
        "format": (("publishing", 1), ("committed", LAST)),
    }
    if SCALE >= 1
    else {"write_stream": (("publishing", 2),), "format": (("committed", LAST),)}
)
"""On a short run each moment by one way into the table, since a JVM starts for each death; test_cluster.py kills a driver when
files are `written`."""


# --- the driver ---


def run_program(folder: Path, door: str, moment: str, batch: int) -> int:
    """The exit status of the program; afterwards no process of it is left."""
    with (folder / "log").open("a") as log:
        command = [sys.executable, str(PROGRAM), str(folder), door, moment, str(batch)]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        try:
            status = process.wait(timeout=600)
            assert gone(process.pid), "the JVM outlives its driver"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return status


def gone(group: int, seconds: float = 30) -> bool:
    """Whether every process of the group ends in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(in_group(process, group) for process in psutil.process_iter()):
            return True
        time.sleep(0.05)
    return False


def in_group(process: psutil.Process, group: int) -> bool:
    with suppress(psutil.Error, ProcessLookupError):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("door", DEATHS)
def test_a_killed_driver_neither_loses_nor_repeats_a_batch(spark, spark_lake, tmp_path, door):
    """Processes are killed one after the other; then the stream runs to its end in this one."""
    lsmlake.register(spark)
    table = spark_lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})
    (tmp_path / "in").mkdir()
    (tmp_path / "spark").mkdir()
    for number in range(BATCHES):
        ids = range(number * STEP, number * STEP + WIDTH)
        pq.write_table(pa.table({"id": ids, "v": [number] * WIDTH}), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (number, number))
    files_left = 0
    for moment, batch in DEATHS[door]:
        status = run_program(tmp_path, door, moment, batch)
        where = f"{moment} {batch}: {(tmp_path / 'log').read_text()[-3000:]}"
        assert status == -signal.SIGKILL, where
        check(table, batch + (moment == "committed"), where)
        if moment != "committed":  # the killed process had written data files
            assert len(unreferenced(table)) > files_left, where
            files_left = len(unreferenced(table))
    assert stream(spark, table, tmp_path, door).awaitTermination(120)
    check(table, BATCHES)
    same(table.scan().to_arrow(), sorted(((i, min(i // STEP, LAST)) for i in range(LAST * STEP + WIDTH)), key=repr))


def check(table: lsmlake.Table, batches: int, where: str = "") -> None:
    """The first `batches` micro-batches are committed once each, by one writer."""
    assert committed(table) == [(number, WIDTH) for number in range(batches)], where
    assert len(set(table.snapshots()["writer_id"].to_pylist())) <= 1, where
    assert table.verify() == [], where


def committed(table: lsmlake.Table) -> list[tuple[int, int]]:
    """(batch, its rows) of every snapshot."""
    found = table.snapshots()
    return list(zip(found["commit_id"].to_pylist(), found["delta_record_count"].to_pylist(), strict=True))


# --- a task ---


class FailingOnce(LocalStorage):
    """The first attempt of every task dies after it has written a data file; not with an error of ours."""

    def write(self, path: str):
        task = TaskContext.get()
        return self._failing(path) if task and task.attemptNumber() == 0 else super().write(path)

    def _failing(self, path: str):
        with super().write(path) as sink:
            sink.write(b"as far as it came")
        raise RuntimeError("the executor is lost")


@pytest.fixture
def failing_lake(spark, lake, tmp_path: Path):
    """`lake`, its tasks failing at first."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # workers cannot import the tests
    yield Lake(Env(FailingOnce(tmp_path / "warehouse"), followers=FOLLOWERS), SparkRuntime(spark))
    cloudpickle.unregister_pickle_by_value(here)


def test_a_task_that_is_tried_again_writes_its_rows_once(spark, lake, failing_lake):
    alone = lake.create_table("d.t", "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], options={"bucket": 2})
    table = failing_lake.table("d.t")
    snapshot = table.upsert(spark.range(1_000).selectExpr("id", "id AS v"))
    assert (snapshot.delta_rows, snapshot.total_rows) == (1_000, 1_000)
    left_over = unreferenced(alone)
    assert len(left_over) >= 2 and all("/data-" in path for path in left_over)
    table.upsert(spark.range(500).selectExpr("id", "-id AS v"), compact=False)
    table.compact(full=True)
    same(table.df(), sorted(((i, -i if i < 500 else i) for i in range(1_000)), key=repr))
    assert alone.verify() == []
    assert committed(alone) == [(None, 1_000), (None, 500), (None, 0)]
