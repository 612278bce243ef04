"""A storage at whose gate tasks and drivers stop, so that a test can kill them there.

Tasks get the class by value: their machines have none of the tests.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from lsmlake.storage.local import LocalStorage

SECONDS = 150


class Gate(NamedTuple):
    """Stops, once each, the tasks of these `partitions`, or the driver if there are none.

    `moment`: a task stops with a data file that is "begun" or "written"; a driver "written" (only data files exist), "publishing"
    (everything but the snapshot exists) or "committed". `fails`: with an error, else until the gate is opened.
    """

    folder: Path
    moment: str
    partitions: tuple[int, ...] = ()
    fails: bool = False

    def open(self) -> None:
        (self.folder / "open").touch()

    def stopped(self) -> dict[int, int]:
        """The process that stopped, by the partition of its task; -1 for a driver."""
        found = self.folder.glob("stopped_*")
        return {int(path.name.partition("_")[2]): int(path.read_text()) for path in found}

    def written(self) -> list[tuple[int, int, str]]:
        """Partition, attempt (a number of all attempts of the driver) and name of every data file that a task has written."""
        texts = [path.read_text().split() for path in self.folder.glob("written_*")]
        return sorted((int(partition), int(attempt), name) for partition, attempt, name in texts)

    def reach(self, moment: str) -> None:
        task = TaskContext.get()
        number = task.partitionId() if task else -1
        if moment == self.moment and (number in self.partitions if task else not self.partitions) and self._first(number):
            if self.fails:
                raise RuntimeError("this attempt fails")
            self._wait()

    def note(self, name: str) -> None:
        if task := TaskContext.get():
            (self.folder / f"written_{uuid.uuid4().hex}").write_text(f"{task.partitionId()} {task.taskAttemptId()} {name}")

    def _first(self, number: int) -> bool:
        """Whether this process is the first; leaves its number."""
        mine = self.folder / uuid.uuid4().hex
        mine.write_text(str(os.getpid()))
        with suppress(FileExistsError):
            os.link(mine, self.folder / f"stopped_{number}")
            return True
        return False

    def _wait(self) -> None:
        end = time.monotonic() + SECONDS
        while not (self.folder / "open").exists():
            if time.monotonic() > end:
                raise TimeoutError(f"nobody opened the gate in {self.folder}")
            time.sleep(0.05)


class GatedStorage(LocalStorage):
    def __init__(self, root: str | os.PathLike, gate: Gate) -> None:
        super().__init__(root)
        self.gate = gate
        gate.folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        data = path.rpartition("/")[2].startswith("data-")
        if "/manifest/" in path:
            self.gate.reach("written")
        with super().write(path) as sink:
            yield sink
            if data and TaskContext.get():
                self.gate.reach("begun")
        if data and TaskContext.get():
            self.gate.note(path.rpartition("/")[2])
            self.gate.reach("written")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        snapshot = path.rpartition("/")[2].startswith("snapshot-")
        if snapshot:
            self.gate.reach("publishing")
        added = super().put_if_absent(path, data)
        if snapshot:
            self.gate.reach("committed")
        return added
