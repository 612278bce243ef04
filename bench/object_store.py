"""Verbs on an object store: a server that speaks the protocol of S3 on loopback, with a delay put into every request.

A verb takes as long as the requests that follow one another, its depth: the most requests of which each began after the one
before had ended. A scan is compared with a plain download of the data file by obstore.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, median_low
from typing import NamedTuple

import numpy as np
import obstore

import lsmlake
from bench import planning
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import clock, take_turns
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table

_NAME = "bench.orders"
_PART_ROWS = 500_000  # made at once


class Request(NamedTuple):
    """`began`, `ended`: seconds of one monotonic clock."""

    kind: str
    began: float
    ended: float


class Server:
    """A running server. `url`: of an empty warehouse; `options`: to reach it."""

    def __init__(self, port: int) -> None:
        self._endpoint, self.url = f"http://127.0.0.1:{port}", "s3://bench/warehouse"
        keys = {"access_key_id": "key", "secret_access_key": "secret"}
        self.options = {"endpoint": self._endpoint, "region": "us-east-1", **keys}
        self._post("bench", b"", "PUT")

    def connect(self, cache: Path | None = None) -> Lake:
        return lsmlake.connect(self.url, storage_options=self.options)

    def delay(self, milliseconds: float) -> None:
        self._post("-/delay", str(milliseconds).encode())

    def requests(self) -> list[Request]:
        """Those since the last call."""
        return [Request(*one) for one in json.loads(self._post("-/requests", b""))]

    def _post(self, path: str, data: bytes, method: str = "POST") -> bytes:
        with urllib.request.urlopen(urllib.request.Request(f"{self._endpoint}/{path}", data=data, method=method)) as answer:
            return answer.read()


@contextmanager
def running() -> Iterator[Server]:
    program = subprocess.Popen([sys.executable, "-m", "bench.slow_s3"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield Server(int(program.stdout.readline()))
    finally:
        program.kill()
        program.communicate()


def depth(requests: Sequence[Request]) -> int:
    """The most requests of which each began after the one before had ended."""
    found, ended = 0, 0.0
    for request in sorted(requests, key=lambda request: request.ended):
        if request.began >= ended:
            found, ended = found + 1, request.ended
    return found


def run(folder: Path, rows: int = 2_000_000, files: int = 10_000, rounds: int = 9, delay: float = 30.0) -> Report:
    """`rows` of 12 columns, compacted to one file. `files`: a multiple of a hundred. `delay`: milliseconds of a request."""
    with running() as server:
        lake = server.connect()
        lake.create_database("bench")
        table = lake.create_table(_NAME, SCHEMA, primary_key=[KEY], options={"bucket": 1, "target-file-size": "1 gb"})
        for start in range(0, rows, _PART_ROWS):
            table.upsert(orders(np.arange(start, min(rows, start + _PART_ROWS))), compact=False)
        table.compact(full=True)
        many = planning.build(lake, files // planning.PARTITIONS // planning.BUCKETS)
        server.delay(delay)
        steps = [
            *_stepped("point read of a key, nothing of its file cached", 4, server, rounds, partial(_lookup, server, rows)),
            *_stepped(
                f"plan of {files:,} files after a commit of another handle", 3, server, rounds, partial(_behind, server, many)
            ),
            *_stepped(
                f"plan of {files:,} files by a new handle, after it has found the table", 3, server, rounds, partial(_new, server)
            ),
        ]
        scan, answer = _scan(server, table, rounds, folder)
        upserts = [
            *_stepped("upsert of 1,000 rows", 8, server, 2 * rounds, partial(_upsert, table, rows)),
            *_stepped(
                "upsert of 1,000 rows without compaction", None, server, rounds, partial(_upsert, table, rows, compact=False)
            ),
        ]
        megabytes = sum(table.files()["file_size_in_bytes"].to_pylist()) / 1e6
    return Report(
        "object_store",
        f"{rounds} rounds, twice as many upserts with compaction; medians; of scan and download the best",
        {"server": f"moto, {delay:g} ms in every request", "rows": f"{rows:,} x 12 columns, {megabytes:.0f} MB in one file"},
        answer,
        (*upserts, *steps, *scan),
    )


def _stepped(
    what: str, target: int | None, server: Server, rounds: int, prepare: Callable[[int], Callable[[], object]]
) -> Iterator[Measure]:
    seconds, found = [], []
    for number in range(rounds):
        work = prepare(number)
        server.requests()
        seconds.append(clock(work).seconds)
        found.append(server.requests())
    yield Measure(f"{what}: depth", median_low(map(depth, found)), None, "steps", target)
    yield Measure(f"{what}: requests", median_low(map(len, found)), None, "requests")
    yield Measure(f"{what}: p50", median(seconds), None)


def _upsert(table: Table, rows: int, number: int, *, compact: bool = True) -> Callable[[], object]:
    """Keys of one in each so many rows, with a version of their own."""
    ids = np.sort(np.random.default_rng(number).choice(rows, min(1_000, rows), replace=False))
    return partial(table.upsert, orders(ids, version=number + 1), compact=compact)


def _lookup(server: Server, rows: int, number: int) -> Callable[[], object]:
    table = server.connect().table(_NAME)
    table.scan().plan()
    return partial(table.get, {KEY: (number * 7_919) % rows})


def _behind(server: Server, many: Table, number: int) -> Callable[[], object]:
    table = server.connect().table(many.name)
    table.scan().plan()
    planning.add(many, number)
    return table.scan().plan


def _new(server: Server, number: int) -> Callable[[], object]:
    table = server.connect().table(planning.NAME)
    return lambda: table.scan().plan()


def _scan(server: Server, table: Table, rounds: int, folder: Path) -> tuple[list[Measure], str]:
    """Decodes all columns of the data file, in turns with its download, with a scan of the same file on the local disk, and with
    one through a cache there."""
    path, read = table.files()["file_path"].to_pylist()[0], table.scan().to_arrow()
    local = lsmlake.connect(folder / "local")
    local.create_database("bench")
    same = local.create_table(_NAME, SCHEMA, primary_key=[KEY], options=table.options)
    same.upsert(read, compact=False)
    same.compact(full=True)
    cached, client = server.connect(cache=folder / "cache").table(_NAME), table.meta.env.storage._client
    megabytes = len(obstore.get(client, path).bytes()) / 1e6
    sides = {
        "scan": lambda number: lambda: table.scan().to_arrow(),
        "download": lambda number: lambda: obstore.get(client, path).bytes(),
        "local": lambda number: lambda: same.scan().to_arrow(),
        "cached": lambda number: lambda: cached.scan().to_arrow(),
    }
    spent = take_turns(sides, rounds)
    rate = {name: megabytes / one.seconds for name, one in spent.items()}
    return [
        Measure("scan of every column / download by obstore", rate["scan"], rate["download"], "MB/s", 0.8, at_least=True),
        Measure("scan of every column / scan of a local table", rate["scan"], rate["local"], "MB/s", 0.8, at_least=True),
        Measure("scan through a cache on disk / scan of a local table", rate["cached"], rate["local"], "MB/s"),
    ], f"{read.num_rows:,} rows"
