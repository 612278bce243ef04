"""Writers of one table from 1, 2, 4 and 8 processes: rows per second of all together, and what a lost race costs.

Three kinds of work: appends; upserts of each writer to buckets of its own; upserts of all writers to the same buckets. On a local
disk, and on a server that speaks the protocol of S3 with a delay in every request.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench import object_store
from bench.contention_writer import WRITER, Done, Task, with_writer
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from lsmlake.api.lake import Lake
from lsmlake.warehouse import connect

KINDS = {"append": (True, True), "upsert, own buckets": (False, True), "upsert, shared buckets": (False, False)}
"""Kind -> (append, whether each writer has a partition of its own)."""
_COUNTS = (1, 2, 4, 8)
_BUCKETS = 2


class Place(NamedTuple):
    name: str
    lake: Lake
    url: str
    options: dict[str, object]


def run(
    folder: Path,
    seconds: float = 8.0,
    rows: int = 1_000,
    keys: int = 20_000,
    writers: int = 8,
    delay: float = 30.0,
    rounds: int = 2,
) -> Report:
    """`seconds`: of each kind, number of writers and round. `rows`: of a commit, of so many `keys`. `writers`: the most.
    `delay`: milliseconds of a request."""
    counts = [count for count in _COUNTS if count <= writers]
    measures: list[Measure] = []
    total = 0
    with object_store.running() as server:
        url = str(folder / "warehouse")
        places = [
            Place("local disk", connect(url), url, {}),
            Place(f"{delay:g} ms", server.connect(), server.url, dict(server.options)),
        ]
        for place in places:
            place.lake.create_database("bench")
            for kind in KINDS:
                server.delay(0)
                found: dict[int, list[list[Done]]] = {count: [] for count in counts}
                for number in range(rounds):
                    for count in counts:
                        server.delay(0)
                        name = f"bench.{'_'.join(kind.replace(',', '').split())}_{count}_{number}"
                        tasks = _prepared(place, kind, name, count, rows, keys, seconds)
                        server.delay(delay)
                        found[count].append(_together(tasks))
                        server.delay(0)
                        total += _checked(place, name, rows, found[count][-1])
                measures += _measured(place.name, kind, found, rows / seconds)
    return Report(
        "contention",
        f"{rounds} rounds in turns, a new table in each; rows per second: the best round",
        {
            "commits": f"{rows:,} rows x {len(SCHEMA) + 1} columns, of {keys:,} keys; {_BUCKETS} buckets",
            "seconds": f"{seconds:g}",
        },
        f"{total:,} commits, none lost",
        tuple(measures),
    )


def _prepared(place: Place, kind: str, name: str, count: int, rows: int, keys: int, seconds: float) -> list[Task]:
    """A table with a row of every key, and the tasks of its writers."""
    append, own = KINDS[kind]
    schema = SCHEMA.append(pa.field(WRITER, pa.int32(), nullable=False))
    how = {} if append else {"primary_key": [WRITER, KEY], "options": {"bucket": _BUCKETS}}
    table = place.lake.create_table(name, schema, partition_by=[WRITER], **how)
    partitions = [number if own else 0 for number in range(count)]
    (table.append if append else table.upsert)(
        pa.concat_tables([with_writer(orders(np.arange(keys)), number) for number in sorted(set(partitions))])
    )
    return [
        Task(place.url, place.options, name, number, partition, append, keys, rows, seconds)
        for number, partition in enumerate(partitions)
    ]


def _together(tasks: Sequence[Task]) -> list[Done]:
    """The outcomes of writers that begin at the same moment."""
    command = [sys.executable, "-m", "bench.contention_writer"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, json.dumps(task._asdict())], **pipes) for task in tasks]
    try:
        for process in running:
            assert process.stdout.readline() == "ready\n", "a writer did not start"
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [Done(**json.loads(process.communicate()[0])) for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _checked(place: Place, name: str, rows: int, done: Sequence[Done]) -> int:
    """The number of commits, all of which must be in the table."""
    snapshots = place.lake.table(name).snapshots()["delta_record_count"].to_pylist()
    commits = _commits(done)
    assert sum(number == rows for number in snapshots) == commits, "a commit is lost"
    place.lake.drop_table(name)
    return commits


def _measured(place: str, kind: str, found: dict[int, list[list[Done]]], rate: float) -> Iterator[Measure]:
    best = {count: max(rounds, key=_commits) for count, rounds in found.items()}
    for count, done in best.items():
        what, alone = f"{kind}, {place}, {count} writer{'s' * (count > 1)}", _commits(best[1]) * rate
        target = 1.0 if count > 1 else None
        yield Measure(f"{what}: rows per second / alone", _commits(done) * rate, alone, "rows/s", target, at_least=True)
        yield Measure(f"{what}: CPU of a commit / alone", _cpu_ms(done), _cpu_ms(best[1]), "ms")
        yield Measure(f"{what}: races lost per commit", _sum(done, "races") / max(1, _commits(done)), None, "races")
    every = [one for rounds in found.values() for done in rounds for one in done]
    races = max(1, _sum(every, "races"))
    yield Measure(f"{kind}, {place}: files rewritten per race", _sum(every, "metadata_files") / races, None, "files")
    yield Measure(f"{kind}, {place}: bytes rewritten per race", _sum(every, "metadata_bytes") / races, None, "bytes")
    yield Measure(f"{kind}, {place}: data files and vectors rewritten", _sum(every, "data_files"), None, "files", 0)
    yield Measure(f"{kind}, {place}: given up after all retries", _sum(every, "failed"), None, "commits", 0)


def _commits(done: Sequence[Done]) -> int:
    return sum(one.commits for one in done)


def _cpu_ms(done: Sequence[Done]) -> float:
    return 1e3 * _sum(done, "cpu_s") / max(1, _commits(done))


def _sum(done: Sequence[Done], name: str) -> float:
    return sum(getattr(one, name) for one in done)
