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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

KILL_SECONDS, FEED_SECONDS, OBSERVE_SECONDS, END_SECONDS = 10, 1, 0.3, 600
AHEAD = 4
"""So many files may wait for the stream."""


class Report(NamedTuple):
    """`told`: lines for a person. `faults`: what must not be."""

    told: list[str]
    faults: list[str]


class Observer:
    """Feeds the stream, and notes what each snapshot of the table is."""

    def __init__(self, table: lsmlake.Table, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.seen: dict[int, tuple[str, str | None, int | None]] = {}
        self.fed = 0

    def note(self) -> None:
        with suppress(lsmlake.errors.SnapshotNotFound):  # it expires while they are listed
            found = self.table.snapshots().select(["snapshot_id", "commit_kind", "writer_id", "commit_id"])
            self.seen |= {row["snapshot_id"]: tuple(row.values())[1:] for row in found.to_pylist()}

    def feed(self) -> None:
        if self.fed - max(taken(self.folder).values(), default=0) >= AHEAD:
            return
        batch = Batch(STREAM, self.fed)
        ids = batch.ids()
        path = self.folder / "in" / f"{self.fed}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.table({"id": ids, "v": [batch.base + i for i in ids]}), hidden)
        os.utime(hidden, (self.fed, self.fed))  # the order of the stream
        hidden.rename(path)
        self.fed += 1


def taken(folder: Path) -> dict[int, int]:
    """How many files the stream has taken with each micro-batch and all before it, as its checkpoint tells. A driver that dies
    after it has looked for a file takes one more into the same micro-batch."""
    found = {}
    for path in (folder / "checkpoint" / "offsets").glob("[0-9]*"):
        with suppress(json.JSONDecodeError, KeyError):  # it is being written
            found[int(path.name)] = json.loads(path.read_text().splitlines()[-1])["logOffset"] + 1
    return found


@contextmanager
def again_and_again(step: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Does the step in the background while the block runs."""
    over = Event()

    def work() -> None:
        while not over.wait(pause_s):
            step()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


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
    observer = Observer(table, folder)
    with again_and_again(observer.note, OBSERVE_SECONDS), Programs(cluster, folder, python, seed) as programs:
        limit = time.monotonic() + seconds
        with again_and_again(observer.feed, FEED_SECONDS):
            while time.monotonic() < limit:
                time.sleep(KILL_SECONDS)
                programs.check()
                programs.kill_one()
        faults = programs.finish()
    observer.note()
    logs = {role: list(_log(folder / "logs" / role)) for role in ROLES}
    faults += [f"{role}: {line['fault']}" for role, log in logs.items() for line in log if "fault" in line]
    reads = [line["read"] for line in logs["reader"] if "read" in line]
    commits = _commits(observer.seen, taken(folder), faults)
    if (files := sum(batch.writer == STREAM for batches in commits for batch in batches)) != observer.fed:
        faults.append(f"the stream committed {files} of {observer.fed} files")
    states = replayed(commits)
    faults += [f"snapshot {n} was read as {found}, not {digest(states[n])}" for n, found in reads if found != digest(states[n])]
    if (last := rows_of(table.scan().to_arrow())) != states[-1]:
        faults.append(f"the table has {digest(last)} at the end, not {digest(states[-1])}")
    faults += [f"verify: {finding}" for finding in table.verify()]
    left = len(unreferenced(table))
    table.remove_orphan_files(older_than=datetime.now(timezone.utc) + timedelta(minutes=1))
    faults += [f"not collected: {path}" for path in unreferenced(table)]
    kinds = Counter(batches[0].writer if batches else "compactions" for batches in commits)
    lost = Counter(end.reason for end in ends(folder / "events"))
    told = [
        f"{seconds:.0f} s side by side, {len(commits)} snapshots: {dict(kinds)}",
        f"killed: {dict(programs.killed)}; ends of tasks, as Spark reported them: {dict(lost)}",
        f"{len(reads)} snapshots read, {sum('late' in line for line in logs['reader'])} expired before they were read",
        f"compactions overtaken: {sum('overtaken' in line for line in logs['compactor'])}; "
        f"snapshots expired: {sum(line.get('expired', 0) for line in logs['expirer'])}; "
        f"orphans collected: {sum(line.get('orphans', 0) for line in logs['expirer'])} on the way, {left} at the end",
        f"rows at the end: {len(last)}",
    ]
    return Report(told, faults)


def _commits(
    seen: dict[int, tuple[str, str | None, int | None]], files: dict[int, int], faults: list[str]
) -> Sequence[Sequence[Batch]]:
    """What each snapshot, from the first, brought. `files`: see `taken`."""
    if sorted(seen) != list(range(1, len(seen) + 1)):
        faults.append(f"not all snapshots were observed: {sorted(seen)}")
    commits: list[list[Batch]] = []
    numbers: dict[str, list[int]] = {STREAM: [], UPSERTS: []}
    for _, (kind, writer, number) in sorted(seen.items()):
        if (number is None) != (kind == "COMPACT"):
            faults.append(f"a commit of kind {kind} by {writer} with the number {number}")
        if number is None:
            commits.append([])
        elif writer == UPSERTS:
            commits.append([Batch(UPSERTS, number)])
            numbers[UPSERTS].append(number)
        else:
            commits.append([Batch(STREAM, n) for n in range(files.get(number - 1, 0), files[number])])
            numbers[STREAM].append(number)
    faults += [f"{name} committed {n}: each once, in order" for name, n in numbers.items() if n != list(range(len(n)))]
    return commits


def _log(path: Path) -> Iterator[dict]:
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):  # the program was killed as it wrote
            yield json.loads(line)
