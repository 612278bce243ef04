"""A maintainer of many tables: its CPU per commit, beside writers that compact inline; a look at quiet tables; reads during it.

Two warehouses take the same commits. In one the tables are write-only and a maintainer works after every part of the commits; in
the other, which has the first tables only, writers compact. A table that gets no rows is read while a maintainer works on the
others, in a process of its own, and in turns while none does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import lsmlake
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import Spent
from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.api.table import Table
from lsmlake.beside import Signal
from lsmlake.maintain.maintainer import Maintainer, MaintenanceSession

_NICE = ("nice", "-n", "10")
"""As the page of documentation about maintenance advises beside readers of the same machine."""
_COMMAND = "from lsmlake.cli.main import run; run()"
_READS_LEAST = 20


def run(
    folder: Path,
    tables: int = 300,
    commits: int = 100,
    rows: int = 100,
    keys: int = 2_000,
    parts: int = 10,
    rounds: int = 5,
    beside: int = 30,
) -> Report:
    """`commits` of `rows` rows of `keys` keys in each table. `parts`: of the commits, each followed by a maintainer. `rounds`: of
    reads. `beside`: tables whose writers compact."""
    beside = min(beside, tables)
    maintained, inline = _created(folder / "maintained", tables, True), _created(folder / "inline", beside, False)
    maintainer = MaintenanceOrder(workers=1).maintainer(maintained.env, maintained.runtime, Signal())
    writing, compacting, upkeep, works = 0.0, 0.0, 0.0, 0
    for part in range(parts):
        numbers = range(part * commits // parts, (part + 1) * commits // parts)
        writing += _cpu(partial(_write, maintained, tables, numbers, rows, keys))
        compacting += _cpu(partial(_write, inline, beside, numbers, rows, keys))
        done: list[MaintenanceSession] = []
        upkeep += _cpu(partial(_work, maintainer, done))
        works += sum(len(session.records) for session in done)
    look = min(_cpu(partial(_work, maintainer, [])) for _ in range(3)) / tables
    held = _rows(maintained, tables)
    assert held[:beside] == _rows(inline, beside), "both warehouses hold the same rows"
    total = commits * tables
    apart, together = (writing + upkeep) / total * 1e3, compacting / commits / beside * 1e3
    during, without = _reads(folder / "maintained", maintained, tables, rounds, rows, keys)
    return Report(
        "maintain",
        f"CPU of all commits and works; reads: the median of {rounds} rounds in turns, by CPU and by the clock",
        {
            "tables": f"{tables:,}, {commits} commits each of {rows} rows of {keys:,} keys; {beside:,} whose writers compact",
            "works": f"{works:,}",
        },
        f"{sum(held):,} rows",
        (
            Measure("commit and its share of maintenance / inline: CPU", apart, together, "ms", 1.0),
            Measure("maintenance: CPU per commit", upkeep / total * 1e3, None, "ms"),
            Measure("write-only commit: CPU", writing / total * 1e3, None, "ms"),
            Measure("commit with inline compaction: CPU", together, None, "ms"),
            Measure("a look at a table with nothing due: CPU", look * 1e3, None, "ms"),
            Measure("reads during maintenance / without: CPU", during.cpu * 1e3, without.cpu * 1e3, "ms", 1.1),
            Measure("reads during maintenance / without", during.seconds * 1e3, without.seconds * 1e3, "ms"),
        ),
    )


def _work(maintainer: Maintainer, done: list[MaintenanceSession]) -> None:
    done += maintainer.once()


def _created(folder: Path, tables: int, write_only: bool) -> Lake:
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    for number in range(tables):
        lake.create_table(f"bench.t{number}", SCHEMA, primary_key=[KEY], options={"bucket": 1, "write-only": write_only})
    return lake


def _write(lake: Lake, tables: int, numbers: range, rows: int, keys: int) -> None:
    for place in range(tables):
        table = lake.table(f"bench.t{place}")
        for number in numbers:
            chosen = np.random.default_rng((number, place)).choice(keys, rows, replace=False)
            table.upsert(orders(np.sort(chosen), version=number))


def _rows(lake: Lake, tables: int) -> list[int]:
    return [lake.table(f"bench.t{place}").count() for place in range(tables)]


def _reads(folder: Path, lake: Lake, tables: int, rounds: int, rows: int, keys: int) -> tuple[Spent, Spent]:
    """What a read takes during maintenance of the other tables, and without."""
    lake.create_table("bench.read", SCHEMA, primary_key=[KEY], options={"bucket": 1}).upsert(orders(np.arange(20 * keys)))
    table = lake.table("bench.read")
    found: dict[bool, list[Spent]] = {True: [], False: []}
    for number in range(rounds):
        _write(lake, tables, range(10_000 + 3 * number, 10_003 + 3 * number), rows, keys)
        command = [*_NICE, sys.executable, "-c", _COMMAND, "maintain", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not any((folder / "maintenance" / "leases").glob("lease-*")) and process.poll() is None:
                time.sleep(0.005)
            found[True] += _timed(table, lambda process=process: process.poll() is None)
        finally:
            process.wait()
        found[False] += _timed(table, lambda: False)
    during, without = (Spent(*(median(values) for values in zip(*found[side], strict=True))) for side in (True, False))
    return during, without


def _timed(table: Table, goes_on: Callable[[], bool]) -> list[Spent]:
    spent = []
    while len(spent) < _READS_LEAST or goes_on():
        start, cpu = time.perf_counter(), time.process_time()
        table.to_arrow()
        spent.append(Spent(time.perf_counter() - start, time.process_time() - cpu))
    return spent


def _cpu(work: Callable[[], object]) -> float:
    """The CPU seconds of this process, with its threads."""
    start = time.process_time()
    work()
    return time.process_time() - start
