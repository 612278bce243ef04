"""A recording: the events that Debezium wrote while the bank worked, and the rows that the database had at the end.

`tests/cdc/test_recorded_databases.py` applies the events and expects the rows, without a server. Record again with

    python -m tests.pipelines --database mariadb --record 30
"""

from __future__ import annotations

import json
import lzma
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.bank import KEYS, Bank
from pipelines.databases import Database, Server
from pipelines.processes import Killed, engine_of

FOLDER = Path(__file__).parents[1] / "golden" / "databases"
_FEW = 30
_ARRIVES_S = 600


@dataclass(frozen=True)
class Recording:
    """`events`: texts in their order; `rows`: of each table, as `Database.texts` returns them; `columns`: of each table; `types`
    and `changes`: those of the database."""

    events: Sequence[str]
    rows: Mapping[str, list[dict[str, str | None]]]
    columns: Mapping[str, list[str]]
    types: Mapping[str, str]
    changes: str


def recorded(name: str) -> Recording:
    """The recording of a database."""
    return Recording(**json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes())))


def record(server: Server, name: str, works: int, seed: int, folder: Path) -> Path:
    """Lets the bank do each thing once and then so many, without killed processes, and writes the recording. Returns its file."""
    with server(folder) as database:
        bank = Bank(database, random.Random(seed), many=_FEW, accounts=_FEW)
        bank.open()
        engine = engine_of(folder, database)
        engine.start()
        try:
            _seen(folder, bank.mark(), engine)
            bank.all()
            for _ in range(works):
                bank.work()
            events = _seen(folder, bank.mark(), engine)
        finally:
            engine.stop()
        made = _of(database, events)
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(vars(made), ensure_ascii=False)
    (path := FOLDER / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path


def _of(database: Database, events: list[str]) -> Recording:
    columns = {name: list(database.types) if name == "types" else database.columns(name) for name in KEYS}
    rows = {name: database.texts(name, columns[name]) for name in KEYS}
    return Recording(events, rows, columns, dict(database.types), database.changes)


def _seen(folder: Path, mark: int, engine: Killed) -> list[str]:
    """All events, when that of the mark is there."""
    end = time.monotonic() + _ARRIVES_S
    while True:
        events = [line for path in sorted((folder / "events").glob("*.jsonl")) for line in path.read_text().splitlines()]
        payloads = (json.loads(line)["payload"] for line in reversed(events))
        marks = (one["after"]["id"] for one in payloads if one.get("source", {}).get("table") == "marks" and one.get("after"))
        if next(marks, None) == mark:
            return events
        engine.keep()
        if engine.ends or time.monotonic() > end:
            raise RuntimeError(f"the events of mark {mark} are not there: {engine.log.read_text()[-2000:]}")
        time.sleep(1)
