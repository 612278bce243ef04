"""A driver program on a cluster: see test_cluster.py.

    driver.py FOLDER MASTER PYTHON JOB...

Works on the table d.t of FOLDER/warehouse, one job after the other, and writes a file FOLDER/outcomes/JOB for each: its error, or
nothing. The machines of the tasks run PYTHON, which does not have lsmlake: it is shipped to them.

After each job the table has the rows that plain Spark computes from all data that was given, `verify` finds nothing, and the
orphan scan collects what the lost attempts left. A driver that a job `death_...` stops waits to be killed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from naive import unreferenced
from pyspark import cloudpickle
from spark_support import same

import lsmlake
from cluster import gates
from cluster.events import End, ends
from cluster.gates import Gate, GatedStorage
from cluster.machines import driver_session, executor_of, wait
from lsmlake.api.lake import Lake
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.spark.spark_runtime import SparkRuntime
from lsmlake.storage.env import Env

_LATE_ATTEMPTS = 20
"""How often orphans are removed, until no attempt of a lost stage writes any more."""

BUCKETS, WIDTH = 4, 400
COLUMNS = "id BIGINT NOT NULL, v BIGINT"
SLOW = "5s"
"""An attempt that runs longer has a second one beside it. Tests that stop an attempt to kill it do so sooner."""


class Given(NamedTuple):
    """Rows with the ids first to last - 1: v = 100 id + number, or their deletion."""

    number: int
    first: int
    last: int
    deletes: bool = False


class Program:
    """The table of a driver, and the plain computation of its rows."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.lake = lsmlake.connect(folder / "warehouse", spark=spark)
        self.lake.create_database("d", if_not_exists=True)
        options = {"bucket": BUCKETS, "write.collect-rows": 0}  # by tasks, always
        self.table = self.lake.create_table("d.t", COLUMNS, primary_key=["id"], options=options, if_not_exists=True)
        self._log = folder / "given.json"
        self.given = [Given(*item) for item in json.loads(self._log.read_text())] if self._log.exists() else []

    def give(self, first: int, *, deletes: bool = False, width: int = WIDTH) -> Given:
        self.given.append(Given(len(self.given), first, first + width, deletes))
        self._log.write_text(json.dumps(self.given))
        return self.given[-1]

    def frame(self, given: Given):
        """In four partitions: the rows of each bucket come from all of them."""
        return self.spark.range(given.first, given.last, 1, 4).selectExpr("id", f"100 * id + {given.number} AS v")

    def upsert(self, first: int, gate: Gate | None = None, **how: object) -> None:
        (self.gated(gate) if gate else self.table).upsert(self.frame(self.give(first)), **how)

    def gated(self, gate: Gate) -> lsmlake.Table:
        """The same table, whose tasks and driver stop at the gate."""
        env = Env(GatedStorage(self.folder / "warehouse", gate), followers=FOLLOWERS)
        return Lake(env, SparkRuntime(self.spark)).table("d.t")

    def gate(self, name: str, *how: object, **more: object) -> Gate:
        return Gate(gate_folder(self.folder, name), *how, **more)

    def feed(self, first: int) -> None:
        """One more file for the stream, a micro-batch of its own."""
        given = self.give(first)
        ids = range(given.first, given.last)
        path = self.folder / "in" / f"{given.number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": ids, "v": [100 * i + given.number for i in ids]}), path)
        os.utime(path, (given.number, given.number))

    def stream(self, table: lsmlake.Table) -> None:
        """Takes what is in the folder of the stream, to the end."""
        source = self.spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1)
        query = table.write_stream(
            source.parquet(str(self.folder / "in")), checkpoint=str(self.folder / "checkpoint"), trigger={"availableNow": True}
        )
        assert query.awaitTermination(120), "the stream does not end"

    def expected(self):
        """Plain Spark: of every id, what was given last. The same plan for all data, so that Spark compiles it once."""
        table = pa.Table.from_pylist([given._asdict() for given in self.given])
        self.spark.createDataFrame(table).createOrReplaceTempView("given")
        rows = "SELECT explode(sequence(first, last - 1)) AS id, number, deletes FROM given"
        newest = "max_by(100 * id + number, number) AS v"
        return self.spark.sql(f"SELECT id, {newest} FROM ({rows}) GROUP BY id HAVING NOT max_by(deletes, number)")

    def check(self) -> None:
        same(self.table.df(), self.expected())
        assert self.table.verify() == []

    def collect_orphans(self) -> None:
        """Removes what lost attempts left."""
        soon = datetime.now(timezone.utc) + timedelta(minutes=1)  # by the clock of the storage; nobody writes now
        for _ in range(_LATE_ATTEMPTS):  # attempts of a stage that was lost may still write
            self.table.remove_orphan_files(older_than=soon)
            if not unreferenced(self.table):
                break
            time.sleep(1)
        assert unreferenced(self.table) == []
        left = [path for path in (self.folder / "warehouse").rglob(".*") if path.is_file()]
        assert left == [], "temporary files of dead writers"

    def one_committed(self, gate: Gate, partition: int) -> None:
        """Several attempts of this task have written their files; those of one of them are committed."""
        live = {Path(path).name for path in self.table.files()["file_path"].to_pylist()}
        written = [(attempt, name) for number, attempt, name in gate.written() if number == partition]
        assert len({attempt for attempt, _ in written}) > 1, written
        assert len({attempt for attempt, name in written if name in live}) == 1, (written, live)

    def ends(self) -> list[End]:
        return list(ends(self.folder / "events"))

    @contextmanager
    def meeting(self, gate: Gate, act: Callable[[list[int]], object], what: str) -> Iterator[None]:
        """While the block runs: when all partitions of the gate have stopped, does `act` with their processes and opens the gate.
        At the end, waits until Spark has reported an attempt that ended by the reason `what`."""

        def watch() -> None:
            try:
                wait(lambda: len(gate.stopped()) == len(gate.partitions), f"{gate.partitions} reach the gate")
                act(list(gate.stopped().values()))
            finally:
                gate.open()

        before = sum(end.reason == what for end in self.ends())
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            yield
            watching.result()
        wait(lambda: sum(end.reason == what for end in self.ends()) > before, f"Spark reports {what}")


def kill_executor(tasks: list[int]) -> None:
    """Kills the executor of a task that has stopped; then its Python process ends, too."""
    executor, python = executor_of(tasks[0]), psutil.Process(tasks[0])
    executor.kill()
    psutil.wait_procs([executor, python], timeout=30)
    assert not python.is_running()


# --- jobs ---


def everyday(program: Program) -> None:
    """Upsert, deletion, reads, changes and SQL by tasks that have lsmlake only because it was shipped to them."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import lsmlake

        yield pa.record_batch([[lsmlake.__file__]], ["path"])

    (path,) = program.spark.range(1).mapInArrow(found, "path string").first()
    assert ".zip/lsmlake" in path and "userFiles" not in os.path.dirname(lsmlake.__file__), path
    program.upsert(0)
    program.upsert(200)
    gone = program.give(500, deletes=True, width=50)
    program.table.delete_keys(program.frame(gone).select("id"))
    changed = program.give(0, width=10)
    program.lake.sql(f"UPDATE d.t SET v = 100 * id + {changed.number} WHERE id < 10")
    program.check()
    same(program.table.scan().to_spark("arrow"), program.expected())
    same(program.lake.sql("SELECT * FROM d.t WHERE id < 20"), program.expected().where("id < 20"))
    changes = program.table.changes(1).to_spark().groupBy("_row_kind").count().collect()
    assert dict(map(tuple, changes)) == {"+I": 150, "-U": 210, "+U": 210}


def killed_in_a_write(program: Program) -> None:
    """One attempt dies with its executor after it has written its file."""
    gate = program.gate("write", "written", (0,))
    with program.meeting(gate, kill_executor, "ExecutorLostFailure"):
        program.upsert(100, gate)
    program.one_committed(gate, 0)
    assert unreferenced(program.table)


def killed_in_a_compaction(program: Program) -> None:
    """The executor dies in the middle of a file, which stays as a temporary file."""
    program.upsert(300, compact=False)
    gate = program.gate("compaction", "begun", (1,))
    with program.meeting(gate, kill_executor, "ExecutorLostFailure"):
        assert program.gated(gate).compact(full=True).snapshot_id
    assert 0 not in program.table.files()["level"].to_pylist()


def killed_in_a_micro_batch(program: Program) -> None:
    """An executor dies in the first micro-batch of two."""
    program.feed(50)
    program.feed(150)
    gate = program.gate("micro-batch", "written", (2,))
    with program.meeting(gate, kill_executor, "ExecutorLostFailure"):
        program.stream(program.gated(gate))
    assert program.table.snapshots()["commit_id"].to_pylist()[-2:] == [0, 1]


def errors_of_tasks(program: Program) -> None:
    """The first attempt of every task fails, not with an error of ours."""
    gate = program.gate("errors", "written", tuple(range(BUCKETS)), fails=True)
    with program.meeting(gate, lambda tasks: None, "ExceptionFailure"):
        program.upsert(250, gate)
    for partition in range(BUCKETS):
        program.one_committed(gate, partition)


def speculation(program: Program) -> None:
    """A slow attempt has written its file; so does a second one, which Spark starts beside it. One of the files is committed."""
    gate = program.gate("speculation", "written", (3,))
    program.upsert(350, gate)
    wait(lambda: any(end.speculative and end.reason == "Success" for end in program.ends()), "Spark reports the second attempt")
    program.one_committed(gate, 3)
    assert unreferenced(program.table)
    (slow,) = gate.stopped().values()
    wait(lambda: not psutil.pid_exists(slow), "the slow attempt is killed")


def lost_shuffle_files(program: Program) -> None:
    """The shuffle files vanish while two of the four tasks that read them have begun."""
    gate = program.gate("shuffle", "begun", (0, 1))

    def lose(tasks: list[int]) -> None:
        lost = list((program.folder / "machines").rglob("shuffle_*"))
        assert lost
        for path in lost:
            path.unlink()

    with program.meeting(gate, lose, "FetchFailed"):
        program.upsert(450, gate)


def death(program: Program, name: str) -> None:
    """Stops in the next micro-batch."""
    program.feed(50 * len(program.given))
    program.stream(program.gated(gate_of(program.folder, name)))
    raise AssertionError("the driver was not killed")


def resumed(program: Program) -> None:
    """The stream goes on after all deaths; every micro-batch is one commit."""
    program.feed(0)
    program.stream(program.table)
    batches = [number for number in program.table.snapshots()["commit_id"].to_pylist() if number is not None]
    assert batches == list(range(len(list((program.folder / "in").iterdir()))))


JOBS: dict[str, Callable[[Program], None]] = {
    job.__name__: job
    for job in (
        everyday,
        killed_in_a_write,
        killed_in_a_compaction,
        killed_in_a_micro_batch,
        errors_of_tasks,
        speculation,
        lost_shuffle_files,
    )
}
DEATHS = {
    "task begun": ("begun", (0,)),
    "task written": ("written", (0,)),
    "driver written": ("written", ()),
    "driver publishing": ("publishing", ()),
    "driver committed": ("committed", ()),
}


def gate_of(folder: Path, death: str) -> Gate:
    """Where a driver stops to be killed."""
    return Gate(gate_folder(folder, death), *DEATHS[death])


def gate_folder(folder: Path, name: str) -> Path:
    return folder / "gates" / name


def run(program: Program, name: str, job: Callable[[Program], None]) -> str:
    try:
        job(program)
        program.collect_orphans()
        program.check()
    except Exception:
        return traceback.format_exc()
    return ""


def main(folder: Path, master: str, python: str, *names: str) -> None:
    jobs = JOBS | {"resumed": resumed} | {name: partial(death, name=name) for name in DEATHS}
    cloudpickle.register_pickle_by_value(gates)  # the machines of tasks do not have the tests
    speculation = {"spark__speculation": "true", "spark__speculation__minTaskRuntime": SLOW}
    speculation |= {"spark__speculation__quantile": "0.5", "spark__speculation__multiplier": "1.1"}
    cores = 1 if names == ("resumed",) else 2
    with driver_session(master, folder, python, cores, **speculation) as spark:
        lsmlake.ship(spark)
        program = Program(spark, folder)
        (folder / "outcomes").mkdir(exist_ok=True)
        for name in names:
            path = folder / "outcomes" / name
            path.with_suffix(".part").write_text(run(program, name, jobs[name]))
            shutil.move(path.with_suffix(".part"), path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
