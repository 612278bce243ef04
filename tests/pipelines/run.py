"""Runs the bank beside the processes that are killed, and compares at quiet points."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import lsmlake
from lsmlake.errors import TableNotFound
from pipelines.bank import Bank
from pipelines.compare import differences
from pipelines.databases import Database, Server
from pipelines.processes import Process

_ARRIVES_S = 600
_KILLS_PER_S = 0.15


Way = Callable[[Path, Database], AbstractContextManager[list[Process]]]
"""Makes the processes by which the events of a database come to a lake, as long as the context lasts. Raises Missing."""


@dataclass(frozen=True)
class Settings:
    """`seconds`: how long the bank works in all; `points`: how many quiet points there are."""

    seconds: float = 60
    points: int = 3
    seed: int = 0


@dataclass
class Report:
    """What was done, and what was wrong."""

    faults: list[str] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)
    points: int = 0
    rejected: int = 0
    rows: int = 0

    def __str__(self) -> str:
        done = ", ".join(f"{count} x {name.lstrip('_')}" for name, count in sorted(self.work.items()))
        kills = ", ".join(f"{name} {count}" for name, count in self.kills.items())
        told = (
            f"{self.points} quiet points, {self.rows:,} rows compared at the last one; killed: {kills}; rejected: {self.rejected}"
        )
        return "\n".join([done, told, *self.faults, "FAILED" if self.faults else "all tables are equal"])


def run(server: Server, way: Way, settings: Settings, folder: Path) -> Report:
    """The whole form: a database, and the way of its events to the lake."""
    report, chance = Report(), random.Random(settings.seed)
    with server(folder) as database, way(folder, database) as processes:
        bank = Bank(database, chance)
        bank.open()
        try:
            for process in processes:
                process.start()
            # an engine that is killed in its first reading reads all rows anew, and tells no deletes of the time before
            there = _arrived(bank, processes, folder, report)
            for _ in range(settings.points if there else 0):
                _work(bank, processes, settings.seconds / settings.points, chance)
                if not _quiet(bank, processes, folder, database, report):
                    break
        finally:
            for process in processes:
                process.stop()
        report.work, report.kills = bank.done, {one.name: one.kills for one in processes}
        report.faults += [f"{one.name} has ended by itself: {one.ends}" for one in processes if one.ends]
    return report


def _work(bank: Bank, processes: list[Process], seconds: float, chance: random.Random) -> None:
    """The bank works, and processes are killed."""
    end, last = time.monotonic() + seconds, time.monotonic()
    bank.all()
    while (now := time.monotonic()) < end:
        bank.work()
        for process in processes:
            if chance.random() < _KILLS_PER_S * (now - last):
                process.kill()
                process.start()
            process.keep()
        last = now


def _quiet(bank: Bank, processes: list[Process], folder: Path, database: Database, report: Report) -> bool:
    """Waits until the last change has arrived, and compares. Returns False if there was a fault."""
    if not _arrived(bank, processes, folder, report):
        return False
    lake = lsmlake.connect(folder / "lake")
    report.faults += _settled(database, lake)
    report.faults += _repeated(lake)
    report.points += 1
    report.rows = sum(lake.table(f"bank.{name}").count() for name in lake.tables("bank") if "rejected" not in name)
    report.rejected = sum(lake.table(f"bank.{name}").count() for name in lake.tables("bank") if "rejected" in name)
    return not report.faults


def _settled(database: Database, lake: lsmlake.Lake) -> list[str]:
    """The differences that stay. After the mark come the other tables of its batch, and what other partitions of Kafka have."""
    end = time.monotonic() + _ARRIVES_S
    while (found := list(differences(database, lake))) and time.monotonic() < end:
        time.sleep(1)
    return found


def _repeated(lake: lsmlake.Lake) -> Iterator[str]:
    """The batches that a table has twice, in words. A sync commits under its own name, or that of the query, and the source's."""
    for name in lake.tables("bank"):
        snapshots = lake.table(f"bank.{name}").snapshots().select(["writer_id", "commit_id"]).to_pylist()
        made = [tuple(one.values()) for one in snapshots if "/" in one["writer_id"]]
        if not made:
            yield f"{name}: no batch was applied"
        if len(made) != len(set(made)):
            yield f"{name}: batches were applied twice: {sorted({one for one in made if made.count(one) > 1})}"


def _arrived(bank: Bank, processes: list[Process], folder: Path, report: Report) -> bool:
    """Waits until all that was done has arrived. Returns False if it does not."""
    mark, lake = bank.mark(), lsmlake.connect(folder / "lake")
    end = time.monotonic() + _ARRIVES_S
    while not _has(lake, mark):
        for process in processes:
            process.keep()
        if any(process.ends for process in processes):
            return False
        if time.monotonic() > end:
            report.faults.append(f"mark {mark} has not arrived after {_ARRIVES_S} s")
            return False
        time.sleep(0.5)
    return True


def _has(lake: lsmlake.Lake, mark: int) -> bool:
    try:
        return lake.table("bank.marks").get({"id": mark}) is not None
    except TableNotFound:
        return False
