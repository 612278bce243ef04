"""Readers that read the newest rows again and again while a writer upserts, compacts and expires snapshots.

Every read begins at the newest metadata. It must find all files, as long as it takes less time than snapshots are retained, and
give the rows of one snapshot that was the newest one at some moment of the read.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.feather as feather

import lsmlake
from readers.environments import Commands
from readers.questions import Question, write
from readers.tables import DATABASE, LAZY, LEVEL0, PLAIN, PUBLISHED

RETAINED_S = 20
_RETENTION = {"snapshot.time-retained": f"{RETAINED_S} s", "snapshot.num-retained.min": "1"}
_TABLES = {"compacted": LAZY, "level0": LEVEL0}
_KEYS, _SLACK_S = 400, 5
_EVERY = {"compact": 4, "expire": 5}
_END = "end"
"""The file that ends the readers."""


class Commit(NamedTuple):
    """`from_s`: before this time no reader saw the rows. `until_s`: from then on newer ones were published."""

    rows: dict[int, int]
    from_s: float
    until_s: float


class Watched(NamedTuple):
    """What a reader of a table saw. `slow`: reads that took longer than snapshots are retained, and failed."""

    reader: str
    table: str
    reads: int
    states: int
    refused: str
    slow: int
    wrong: list[str]

    def __str__(self) -> str:
        state = "WRONG" if self.wrong else "refused" if self.refused else "equal"
        slow = f", {self.slow} too slow" if self.slow else ""
        said = f"{self.reader:10} {f'busy: {self.table}':42} {state:8} {self.reads} reads of {self.states} states{slow}"
        return "\n".join([said, *(f"{'':12}{one}" for one in (self.refused, *self.wrong[:3]) if one)])


def watched(folder: Path, readers: Commands, reads: int, seconds: float = 0) -> list[Watched]:
    """Let all readers read beside a writer.

    Every reader reads each table once before the second commit, and `reads` times after the commits number 2 to `reads`, however
    fast they are; then until `seconds` are over.
    """
    folder.mkdir(exist_ok=True)
    lake = lsmlake.connect(str(folder / "warehouse"))
    lake.create_database(DATABASE)
    tables = {name: _created(lake, name, options) for name, options in _TABLES.items()}
    commits = {name: [_written(table, {}, 0, random.Random(0))] for name, table in tables.items()}
    places = [f"file://{table.meta.env.storage.place(table.path)}" for table in tables.values()]
    questions = [Question(name, table.path, place) for (name, table), place in zip(tables.items(), places, strict=True)]
    write(folder / "questions.json", str(folder / "warehouse"), questions)
    until = time.time() + seconds
    running = {reader: _started(folder, reader, command) for reader, command in readers.items()}
    try:
        _wait_for_reads(folder, running, len(tables))
        turn, chance, needed = 1, random.Random(1), None
        while needed is None or any(_reads(folder, name) < count for name, count in needed.items()) or time.time() < until:
            _check_alive(folder, running)
            for name, table in tables.items():
                before = commits[name][-1]
                after = _written(table, before.rows, turn, chance)
                commits[name][-1] = before._replace(until_s=after.from_s)
                commits[name].append(after)
            turn += 1
            if turn == reads:
                needed = {name: _reads(folder, name) + (reads + 1) * len(tables) for name in running}  # one may have begun before
    finally:
        (folder / _END).touch()
        for process in running.values():
            process.wait()
    found = []
    for reader in readers:
        log = [json.loads(line) for line in (folder / reader / "reads").read_text().splitlines()]
        for number, name in enumerate(tables):
            mine = [line for line in log if line["question"] == number]
            found.append(_judged(folder / reader, reader, name, mine, commits[name]))
    return found


def _wait_for_reads(folder: Path, running: Mapping[str, subprocess.Popen], count: int) -> None:
    while any(_reads(folder, name) < count for name in running):
        _check_alive(folder, running)
        time.sleep(0.05)


def _reads(folder: Path, reader: str) -> int:
    """How many reads have ended."""
    log = folder / reader / "reads"
    return len(log.read_text().splitlines()) if log.exists() else 0


def _check_alive(folder: Path, running: Mapping[str, subprocess.Popen]) -> None:
    for name, process in running.items():
        assert process.poll() is None, (folder / name / "log").read_text()


def _created(lake, name: str, options: dict[str, str]):
    columns = pa.schema(PLAIN)
    options = {"bucket": "2"} | options | PUBLISHED | _RETENTION
    return lake.create_table(f"{DATABASE}.{name}", columns, primary_key=["id"], options=options)


def _started(folder: Path, reader: str, command: Sequence[str]) -> subprocess.Popen:
    answers = folder / reader
    answers.mkdir()
    with (answers / "log").open("wb") as log:
        arguments = [*command, str(folder / "questions.json"), str(answers), str(folder / _END)]
        return subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)


def _written(table, rows: dict[int, int], turn: int, chance: random.Random) -> Commit:
    """One upsert, now and then after a compaction and an expiry, which show the same rows."""
    if turn % _EVERY["compact"] == 1:
        table.compact(full=turn % 3 == 0)
    if turn % _EVERY["expire"] == 1:
        table.expire_snapshots()
    ids = chance.sample(range(_KEYS), 30)
    gone = [i for i in ids[:3] if i in rows]
    started = time.time()
    kinds = ["-D" if i in gone else "+I" for i in ids]
    table.upsert(pa.table({"id": ids, "v": [turn] * len(ids), "op": kinds}), row_kind="op")
    kept = {i: v for i, v in rows.items() if i not in gone}
    return Commit({**kept, **{i: turn for i in ids if i not in gone}}, started, float("inf"))


def _judged(answers: Path, reader: str, table: str, log: Sequence[dict], commits: Sequence[Commit]) -> Watched:
    wrong, seen, slow, refused = [], set(), 0, ""
    by_rows = {frozenset(commit.rows.items()): number for number, commit in enumerate(commits)}
    for line in log:
        if "error" in line:
            late = line["ended"] - line["started"] > RETAINED_S
            if "quality delete" in line["error"]:
                refused = line["error"].splitlines()[0]
            elif late:
                slow += 1
            else:
                wrong.append(f"a read of {line['ended'] - line['started']:.1f} s failed: {line['error'].splitlines()[0]}")
            continue
        rows = feather.read_table(answers / line["answer"])
        pairs = list(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
        number = by_rows.get(frozenset(pairs)) if len(set(pairs)) == len(pairs) else None
        if number is None:
            wrong.append(f"{len(pairs)} rows of no snapshot in {line['answer']}")
        elif commits[number].until_s + _SLACK_S < line["started"] or commits[number].from_s > line["ended"]:
            wrong.append(f"rows of commit {number}, which was not the newest one during the read {line['answer']}")
        else:
            seen.add(number)
    return Watched(reader, table, len(log) - len(wrong), len(seen), refused, slow, wrong)
