"""Two drivers that write, a compactor, an expirer and a reader side by side, killed again and again, and their oracle.

1. A feeder gives the stream one file after the other; an observer notes which commit each snapshot is before it expires.
2. Now an executor is killed, now a driver with its JVM, now the expirer; what was killed is started again.
3. At the end the commits are replayed in their order by `plan`: each stands in the table once, in the order of its writer; every
   read of the reader, and the table at the end, has the rows of the replay; `verify` finds nothing; the orphan scan collects
   what the dead left.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from naive import unreferenced

import lsmlake
from cluster.events import ends
from cluster.machines import Cluster, end, temporaries
from cluster.plan import COLUMNS, STREAM, UPSERTS, Batch, digest, replayed
from cluster.roles import ROLES, rows_of

KILL_SECONDS, FEED_SECONDS, END_SECONDS = 10, 1, 600
AHEAD = 4
"""So many files may wait for the stream."""


class Report(NamedTuple):
    """`told`: lines for a person. `faults`: what must not be."""

    told: list[str]
    faults: list[str]


class Observer:
    """Notes each snapshot of a table, and feeds the stream, in the background."""

    def __init__(self, table: lsmlake.Table, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.seen: dict[int, tuple[str, str | None, int | None]] = {}
        self.fed = 0
        self._end = Event()
        self._threads = [Thread(target=self._observe), Thread(target=self._feed)]

    def __enter__(self) -> Observer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def note(self) -> None:
        found = self.table.snapshots().select(["snapshot_id", "commit_kind", "writer_id", "commit_id"])
        self.seen |= {row["snapshot_id"]: tuple(row.values())[1:] for row in found.to_pylist()}

    def _observe(self) -> None:
        while not self._end.wait(0.3):
            with suppress(lsmlake.errors.SnapshotNotFound):  # it expires while they are listed
                self.note()

    def _feed(self) -> None:
        while not self._end.wait(FEED_SECONDS):
            committed = sum(number is not None and writer != UPSERTS for _, writer, number in [*self.seen.values()])
            if self.fed - committed >= AHEAD:
                continue
            batch = Batch(STREAM, self.fed)
            ids = batch.ids()
            path = self.folder / "in" / f"{self.fed}.parquet"
            hidden = path.with_name(f".{path.name}")
            pq.write_table(pa.table({"id": ids, "v": [batch.base + i for i in ids]}), hidden)
            os.utime(hidden, (self.fed, self.fed))  # the order of the stream
            hidden.rename(path)
            self.fed += 1


class Programs:
    """The programs by their role, and how often which was killed."""

    def __init__(self, cluster: Cluster, folder: Path, python: str, seed: int) -> None:
        self.cluster, self.folder, self.python = cluster, folder, python
        self.killed: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._next: list[str] = []
        self._running: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Programs:
        for role in ROLES:
            self._start(role)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            end(process)

    def kill_one(self) -> None:
        """An executor half of the time, else the programs in turn, in random order."""
        executors = self.cluster.executors()
        if executors and self._random.random() < 0.5:
            with suppress(psutil.Error):
                self._random.choice(executors).kill()
                self.killed["executor"] += 1
            return
        self._next = self._next or self._random.sample(list(ROLES), len(ROLES))
        role = self._next.pop()
        end(self._running[role])
        self.killed[role] += 1
        self._start(role)

    def finish(self) -> list[str]:
        """Lets the programs end; what is wrong with those that do not."""
        (self.folder / "stop").touch()
        limit, wrong = time.monotonic() + END_SECONDS, []
        for role, process in self._running.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, limit - time.monotonic()))
            if process.poll() != 0:
                wrong.append(f"{role} ended with {process.poll()}: {self._output(role).read_text()[-3000:]}")
        return wrong

    def check(self) -> None:
        """Raises AssertionError if a program has ended by itself."""
        for role, process in self._running.items():
            assert process.poll() is None, f"{role} ended: {self._output(role).read_text()[-3000:]}"

    def _output(self, role: str) -> Path:
        return self.folder / "logs" / f"{role}.output"

    def _start(self, role: str) -> None:
        program = Path(__file__).with_name("roles.py")
        command = [sys.executable, str(program), role, str(self.folder), self.cluster.url, self.python]
        with self._output(role).open("a") as output:
            how = {"stdout": output, "stderr": output, "cwd": self.folder, "env": temporaries(self.folder)}
            self._running[role] = subprocess.Popen(command, start_new_session=True, **how)


def side_by_side(cluster: Cluster, folder: Path, python: str, seconds: float, seed: int) -> Report:
    for name in ("logs", "in", "events"):
        (folder / name).mkdir(parents=True)
    lake = lsmlake.connect(folder / "warehouse")
    lake.create_database("d")
    options = {"bucket": 2, "write.collect-rows": 0}  # by tasks, always
    table = lake.create_table("d.t", COLUMNS, primary_key=["id"], options=options)
    with Observer(table, folder) as observer, Programs(cluster, folder, python, seed) as programs:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            time.sleep(KILL_SECONDS)
            programs.check()
            programs.kill_one()
        faults = programs.finish()
        observer.note()
    logs = {role: list(_log(folder / "logs" / role)) for role in ROLES}
    faults += [f"{role}: {line['fault']}" for role, log in logs.items() for line in log if "fault" in line]
    reads = [line["read"] for line in logs["reader"] if "read" in line]
    batches = _batches(observer.seen, faults)
    if (taken := sum(batch is not None and batch.writer == STREAM for batch in batches)) != observer.fed:
        faults.append(f"the stream committed {taken} of {observer.fed} files")
    states = replayed(batches)
    faults += [f"snapshot {n} was read as {found}, not {digest(states[n])}" for n, found in reads if found != digest(states[n])]
    if (last := rows_of(table.scan().to_arrow())) != states[-1]:
        faults.append(f"the table has {digest(last)} at the end, not {digest(states[-1])}")
    faults += [f"verify: {finding}" for finding in table.verify()]
    left = len(unreferenced(table))
    table.remove_orphan_files(older_than=datetime.now(timezone.utc) + timedelta(minutes=1))
    faults += [f"not collected: {path}" for path in unreferenced(table)]
    commits = Counter(batch.writer if batch else "compactions" for batch in batches)
    lost = Counter(end.reason for end in ends(folder / "events"))
    told = [
        f"{seconds:.0f} s side by side, {len(batches)} snapshots: {dict(commits)}",
        f"killed: {dict(programs.killed)}; ends of tasks, as Spark reported them: {dict(lost)}",
        f"{len(reads)} snapshots read, {sum('late' in line for line in logs['reader'])} expired before they were read",
        f"compactions overtaken: {sum('overtaken' in line for line in logs['compactor'])}; "
        f"snapshots expired: {sum(line.get('expired', 0) for line in logs['expirer'])}; "
        f"orphans collected: {sum(line.get('orphans', 0) for line in logs['expirer'])} on the way, {left} at the end",
        f"rows at the end: {len(last)}",
    ]
    return Report(told, faults)


def _batches(seen: dict[int, tuple[str, str | None, int | None]], faults: list[str]) -> Sequence[Batch | None]:
    """What each snapshot, from the first, brought."""
    if sorted(seen) != list(range(1, len(seen) + 1)):
        faults.append(f"not all snapshots were observed: {sorted(seen)}")
    batches: list[Batch | None] = []
    for _, (kind, writer, number) in sorted(seen.items()):
        batches.append(None if number is None else Batch(UPSERTS if writer == UPSERTS else STREAM, number))
        if (number is None) != (kind == "COMPACT"):
            faults.append(f"a commit of kind {kind} by {writer} with the number {number}")
    for writer in (STREAM, UPSERTS):
        numbers = [batch.number for batch in batches if batch and batch.writer == writer]
        if numbers != list(range(len(numbers))):
            faults.append(f"{writer} committed {numbers}: each once, in order")
    return batches


def _log(path: Path) -> Iterator[dict]:
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):  # the program was killed as it wrote
            yield json.loads(line)
