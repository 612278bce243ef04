"""Runs a soak and judges it: see the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from naive import naive
from object_servers import azure_server, s3_server

import lsmlake
from lsmlake.api.table import Table
from soak.judge import History, difference, unsettled
from soak.processes import Observer, Processes
from soak.tables import DATABASE, TABLES, Row, created, seen
from soak.worker import Config, read_log

_SERVERS = {"local": nullcontext, "s3": s3_server, "azure": azure_server}
STORES = tuple(_SERVERS)
_SHORT_PAUSE_S = 3.0
_SLOW_S = 30  # an operation takes less, pauses aside
_STATES = 10  # retained snapshots of a table that are compared row by row
_SHOWN = 20  # faults


class Settings(NamedTuple):
    """`commits`: go on until there are so many. `keys`: of a table. `kill_every_s`, `pause_every_s`: the mean time between two
    kills, and two pauses, of any process. `long_pause_s`: the longest of one pause in ten. `kill_share`, `pause_share`: see
    `Config`."""

    seconds: float
    processes: int = 8
    store: str = "local"
    seed: int = 0
    commits: int = 0
    keys: int = 300
    kill_every_s: float = 4
    pause_every_s: float = 4
    long_pause_s: float = 45
    kill_share: float = 1 / 5_000
    pause_share: float = 1 / 1_000

    @property
    def short_pause_s(self) -> float:
        return min(_SHORT_PAUSE_S, self.long_pause_s)

    @property
    def orphan_age_s(self) -> float:
        return 2 * (self.long_pause_s + _SLOW_S)


class Report(NamedTuple):
    settings: Settings
    figures: Mapping[str, int]
    faults: list[str]

    def __str__(self) -> str:
        seconds, processes, store, seed, *_ = self.settings
        lines = [f"soak: {seconds:g} s, {processes} processes, store {store}, seed {seed}"]
        lines += [f"  {name:44} {number:>9,}" for name, number in self.figures.items()]
        return "\n".join([*lines, *(f"FAULT {fault}" for fault in self.faults[:_SHOWN])])


def soak(settings: Settings, folder: Path) -> Report:
    """`folder`: where the logs are and, with the store "local", the warehouse."""
    with _server(settings.store, folder) as (url, options):
        lake = lsmlake.connect(url, storage_options=options or None)
        lake.create_database(DATABASE)
        tables = {name: created(lake, name) for name in TABLES}
        shares, pauses = (settings.kill_share, settings.pause_share), (settings.short_pause_s, settings.long_pause_s)
        config = Config(str(folder), url, options, settings.seed, settings.keys, *shares, *pauses, settings.orphan_age_s)
        processes = Processes(config, settings.processes, settings.kill_every_s, settings.pause_every_s)
        with Observer(tables) as observer:
            processes.run(settings.seconds, lambda: observer.count() >= settings.commits)
        observer.look()
        return _judged(settings, folder, tables, observer, processes)


@contextmanager
def _server(store: str, folder: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """The address of an empty warehouse, and the options to reach it."""
    with _SERVERS[store]() as server:
        yield (server.warehouse(), dict(server.options)) if server else (str(folder / "warehouse"), {})


def _judged(settings: Settings, folder: Path, tables: Mapping[str, Table], observer: Observer, processes: Processes) -> Report:
    newest = {name: max(found, default=0) for name, found in observer.published.items()}
    faults = [*processes.faults]
    faults += [f"{table.name}: verify: {finding}" for table in tables.values() for finding in table.verify()]
    states = {(name, number): rows for name, table in tables.items() for number, rows in _retained(table)}
    removed = 0
    for table in tables.values():
        table.compact(full=True)
    for name, table in tables.items():
        states[name, newest[name]] = seen(table.scan().to_arrow().to_pylist())
    logs = {worker: read_log(folder / f"{worker}.log") for worker in processes.names}
    for name, table in tables.items():
        for worker, lines in logs.items():
            if any(line.get("followed") == name for line in lines):
                lines += _followed(name, table, worker)
    history = History(observer.published, logs)
    history.judge()
    lost = more = 0
    for (name, number), rows in states.items():
        missing, wrong = difference(history.models[name].all_at(number), rows)
        lost, more = lost + missing, more + wrong
        if missing or wrong:
            faults.append(f"{name}: snapshot {number} lacks {missing} rows and has {wrong} that should not be there")
    for name, table in tables.items():
        removed += table.remove_orphan_files(datetime.now(timezone.utc) + timedelta(hours=1)).files
        known = naive(table)
        faults += [f"{name}: nothing names {path}" for path in known.unreferenced()]
        faults += [f"{name}: {path} is missing" for path in known.missing()]
        faults += [f"{name}: {finding}" for finding in table.verify()]
    faults += history.faults
    checked = history.checked
    figures = {
        "operations": len(history.operations),
        "commits of rows": checked["commits"],
        "compactions committed": checked["compactions"],
        "races lost, and tried again": checked["races"],
        "operations that gave up after all retries": checked["failed"],
        "processes killed": processes.killed,
        "processes suspended": processes.suspended,
        "writes without an outcome, not repeated": unsettled(history.operations.values()),
        "writes repeated after a kill": checked["repeated"],
        "reads compared": checked["read"] + checked["got"] + checked["changes"],
        "reads of a snapshot that had expired": checked["expired"],
        "batches of changes followed": checked["batches"],
        "batches followed again after a kill": checked["batches again"],
        "states compared row by row": len(states),
        "rows in the end": sum(len(states[name, newest[name]]) for name in tables),
        "files of killed writers removed": removed,
        "rows lost": lost,
        "rows doubled or wrong": more,
        "faults": len(faults),
    }
    return Report(settings, figures, faults)


def _retained(table: Table) -> Iterator[tuple[int, list[Row]]]:
    """The rows of some retained snapshots; those of the merge rule that the naive reader knows are read by it."""
    numbers = table.snapshots()["snapshot_id"].to_pylist()
    known = naive(table)
    for number in numbers[:: max(1, len(numbers) // _STATES)]:
        if table.name.endswith(".rows"):
            yield number, seen(known.rows(known.snapshots()[number], vectors=True))
        else:
            yield number, seen(table.scan(snapshot=number).to_arrow().to_pylist())


def _followed(name: str, table: Table, consumer: str) -> list[dict]:
    """What a consumer has not read yet."""
    found = []
    for batch in table.follow(consumer=consumer):
        rows = batch.to_arrow().to_pylist()
        changes = [[row["_row_kind"], *values] for row, values in zip(rows, seen(rows), strict=True)]
        found.append({"followed": name, "snapshot": batch.snapshot, "changes": changes})
    return found
