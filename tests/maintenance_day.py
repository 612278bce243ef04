"""A day of a warehouse by a simulated clock: writers and streams on many tables, a maintainer that dies at noon in the middle
of its work, and a second one. Rows are compared with a dict per table.

    python -m tests.maintenance_day --tables 50 --minutes 1440 --seed 1

The first table has a commit every other minute, each further one a tenth fewer, so of 50 the last ones have some commits a day.
Both maintainers work in rounds of five minutes. The first one stops for good at a random call of the storage, so its leases stay;
the second one was there all the time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.beside import Signal
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.maintain.leases import FOLDER
from lsmlake.maintain.maintainer import Maintainer
from lsmlake.storage.env import Env
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

sys.path.insert(0, str(Path(__file__).parent / "support"))

from faults import Crash, FaultStorage
from naive import unreferenced
from strategies import Names

MINUTE_MS, HOUR = 60_000, 60
ROUND = 5
"""Minutes between two rounds of a maintainer."""
KEYS, ROWS = 300, 20
BUSIEST, FEWER = 0.5, 0.9
"""The chance of a commit in a minute in the first table, and how much smaller it is from one table to the next."""
OPTIONS = {
    "write-only": True,
    "snapshot.time-retained": "30 min",
    "snapshot.num-retained.min": 2,
    "consumer.expiration-time": "4 h",
    "maintain.orphan-interval": "6 h",
}


class Outcome(NamedTuple):
    """What a day showed.

    Attributes:
        commits: the commits of writers.
        backlog: in each hour, the most runs at level 0 of a table right before a round of the second maintainer.
        left_runs: the most right after one.
        died: whether the first maintainer did.
        works: what both did.
        unreferenced: the files that nothing names, at the end of the day after.
        snapshots: the retained snapshots of each table, at the end of the day after.
        leases: the files of leases, at the end of the day after.
        bytes: the size of all files, at the end of the day after.
    """

    commits: int
    backlog: list[int]
    left_runs: int
    died: bool
    works: int
    unreferenced: list[str]
    snapshots: list[int]
    leases: list[str]
    bytes: int


@dataclass
class Day:
    """The world of a simulation."""

    tables: int
    seed: int
    now_ms: int = 1_767_225_600_000
    storage: MemoryStorage = field(init=False)
    chance: random.Random = field(init=False)
    models: list[dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.storage, self.chance = MemoryStorage(lambda: self.now_ms), random.Random(self.seed)
        self.models = [{} for _ in range(self.tables)]
        lake = self.lake("w")
        lake.create_database("d")
        for number in range(self.tables):
            kind = {"bucket": 1 + number % 2, **OPTIONS}
            lake.create_table(f"d.t{number}", "k INT NOT NULL, v INT", primary_key=["k"], options=kind)

    def lake(self, prefix: str, storage: Storage | None = None) -> Lake:
        env = Env(
            storage or self.storage, lambda: self.now_ms, Names(prefix), self.chance.random, self.slept, followers=FOLLOWERS
        )
        return Lake(env, Runtime())

    def slept(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def maintainer(self, prefix: str, storage: Storage | None = None) -> Maintainer:
        lake = self.lake(prefix, storage)
        return MaintenanceOrder(workers=2).maintainer(lake.env, lake.runtime, Signal())

    def write(self, table: Table, model: dict[int, int]) -> None:
        keys = self.chance.sample(range(KEYS), ROWS)
        if self.chance.random() < 0.2:
            table.delete_keys({"k": pa.array(keys, pa.int32())})
            for key in keys:
                model.pop(key, None)
            return
        value = self.chance.randrange(1 << 30)
        table.upsert(pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([value] * ROWS, pa.int32())}))
        model |= dict.fromkeys(keys, value)


def day(tables: int, minutes: int, seed: int, progress: Callable[[str], object] = lambda line: None) -> Outcome:
    """Simulates so many minutes. Calls `progress` with a line per hour. Raises AssertionError if rows are lost."""
    world = Day(tables, seed)
    writers = world.lake("x")
    opened = [writers.table(f"d.t{number}") for number in range(tables)]
    failing = FaultStorage(world.storage)
    first, second = world.maintainer("a", failing), world.maintainer("b")
    commits = left = works = 0
    backlog = [0] * -(-minutes // HOUR)
    dead, counted = False, Runs()
    for minute in range(minutes):
        for number, (table, model) in enumerate(zip(opened, world.models, strict=True)):
            if world.chance.random() < BUSIEST * FEWER**number:
                world.write(table, model)
                commits += 1
        if world.chance.random() < 0.1:
            reader = world.chance.choice(opened)
            if reader.consumers().num_rows:
                reader.reset_consumer("stream", None)
            reader = world.chance.choice(opened)
            reader.reset_consumer("stream", reader.meta.snapshots.latest_id())
        if minute == minutes // 2:
            failing.fail_at(len(failing.calls) + 40 + world.chance.randrange(200))
        if minute % ROUND == 0 and not dead:
            try:
                works += sum(len(session.records) for session in first.once())
            except Crash:
                dead = True
        if minute % ROUND == ROUND // 2:
            backlog[minute // HOUR] = max(backlog[minute // HOUR], *map(counted.most, opened))
            works += sum(len(session.records) for session in second.once())
            left = max(left, *map(counted.most, opened))
        world.now_ms += MINUTE_MS
        if minute % HOUR == HOUR - 1:
            stored = sum(entry.size for entry in world.storage.list(""))
            done = f"{commits:,} commits, {works:,} works, {backlog[minute // HOUR]} runs at most at level 0"
            progress(f"hour {minute // HOUR}: {done}, {stored:,} bytes, {time.process_time():.0f} s of CPU")
    for table, model in zip(opened, world.models, strict=True):
        assert dict(zip(*table.to_arrow().to_pydict().values(), strict=True)) == model, table.name
    for _ in range(3):  # the day after: nobody writes
        world.now_ms += 25 * 60 * MINUTE_MS
        list(second.once())
    for table, model in zip(opened, world.models, strict=True):
        assert dict(zip(*table.to_arrow().to_pydict().values(), strict=True)) == model, table.name
        assert table.verify() == []
    return Outcome(
        commits,
        backlog,
        left,
        dead,
        works,
        [path for table in opened for path in unreferenced(table)],
        [table.snapshots().num_rows for table in opened],
        [entry.path for entry in world.storage.list(FOLDER)],
        sum(entry.size for entry in world.storage.list("")),
    )


def runs(table: Table) -> int:
    """The most runs at level 0 of a bucket."""
    return max((sum(file.level == 0 for file in state.files) for state in table.states().values()), default=0)


@dataclass
class Runs:
    """Counts runs, again only in tables with a new snapshot."""

    known: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def most(self, table: Table) -> int:
        """The most runs at level 0 of a bucket."""
        latest = table.meta.snapshots.latest_id()
        if self.known.get(table.name, (-1, 0))[0] != latest:
            self.known[table.name] = latest, runs(table)
        return self.known[table.name][1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance_day", description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--minutes", type=int, default=1440)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start = time.process_time()
    outcome = day(given.tables, given.minutes, given.seed, partial(print, flush=True))
    print(*(f"{name}: {value}" for name, value in outcome._asdict().items()), sep="\n")
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
