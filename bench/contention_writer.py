"""A writer of `bench.contention`: commits batches to a shared table for some seconds; a program.

    python -m bench.contention_writer ARGUMENTS   (a `Task` as JSON)

Prints a line when it is ready, waits for a line, writes, and prints a `Done` as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.rows import orders
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import CommitConflict
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.storage.env import Env
from lsmlake.storage.location import storage_at
from lsmlake.storage.storage import Storage

WRITER = "writer"
"""The column that names the writer; the partition of the tables."""


_WARM = 3
"""Commits before the time begins: the first ones load modules."""


class Task(NamedTuple):
    """`partition`: of the rows; `append`: else upsert keys up to `keys`."""

    url: str
    options: Mapping[str, object]
    table: str
    number: int
    partition: int
    append: bool
    keys: int
    rows: int
    seconds: float


class Done(NamedTuple):
    """`failed`: commits given up after all retries. `races`: snapshots that another writer had created before. `metadata_bytes`,
    `metadata_files`: written after a lost race, until the next try; `data_files`: the data files and vectors among these."""

    commits: int
    failed: int
    races: int
    metadata_bytes: int
    metadata_files: int
    data_files: int
    cpu_s: float


class Recorded:
    """A storage that notes what is written between a lost race and the next create of a snapshot. Everything else is that of
    `inner`."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.races = self.bytes = self.files = self.data = 0
        self._lost = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        with self._inner.write(path) as sink:
            yield sink
            if self._lost:
                self.bytes, self.files = self.bytes + sink.tell(), self.files + 1
                self.data += "/manifest/" not in path

    def write_all(self, files: Mapping[str, bytes]) -> None:
        self._inner.write_all(files)
        if self._lost:
            self.bytes, self.files = self.bytes + sum(map(len, files.values())), self.files + len(files)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        created = self._inner.put_if_absent(path, data)
        if "/snapshot-" in path:
            self._lost, self.races = not created, self.races + (not created)
        return created


def with_writer(rows: pa.Table, number: int) -> pa.Table:
    return rows.append_column(WRITER, pa.array([number] * rows.num_rows, pa.int32()))


def run(task: Task) -> Done:
    storage = Recorded(storage_at(task.url, task.options))
    table = Lake(Env(storage, followers=FOLLOWERS), Runtime()).table(task.table)
    table.scan().plan()
    write = table.append if task.append else table.upsert
    chance = np.random.default_rng(task.number)

    def batch(rows: int, version: int) -> pa.Table:
        return with_writer(orders(chance.choice(task.keys, rows, replace=False), version=version), task.partition)

    for _ in range(_WARM):
        write(batch(task.rows - 1, 0))  # other counts of rows than those of the commits that count
    storage.races = storage.bytes = storage.files = storage.data = 0
    print("ready", flush=True)
    sys.stdin.readline()
    commits, failed, begun, cpu = 0, 0, time.monotonic(), time.process_time()
    while time.monotonic() < begun + task.seconds:
        try:
            write(batch(task.rows, commits + 1))
            commits += 1
        except CommitConflict:
            failed += 1
    spent = time.process_time() - cpu
    return Done(commits, failed, storage.races, storage.bytes, storage.files, storage.data, spent)


if __name__ == "__main__":
    print(json.dumps(run(Task(**json.loads(sys.argv[1])))._asdict()), flush=True)
