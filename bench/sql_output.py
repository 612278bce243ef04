"""Rows that `lsmlake sql` prints: rows a second, the time until the first line, and memory, which must not grow with the rows.

Each measure is one process that prints five columns of all rows into a pipe. Its CPU seconds hardly depend on the machine's other
load. The lines of a quarter of the rows are read back and compared with a scan.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv, json

from bench import checksum, tables
from bench.result import Measure, Report
from bench.rows import SCHEMA

COLUMNS = ("id", "city", "price", "at", "amount")
_PROGRAM = """
import atexit, sys
from lsmlake.cli.main import run

def peak():
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)

atexit.register(peak)
run()
"""
_RATE, _FIRST_SECONDS, _GROWTH_MB = 1_000_000, 2, 100
_READ_BYTES = 1 << 20
_AS_TEXT = csv.ConvertOptions(column_types={"amount": pa.string()})  # otherwise it is read as a number
_READ: Mapping[str, Callable[[Path], pa.Table]] = {
    "csv": lambda file: csv.read_csv(file, convert_options=_AS_TEXT),
    "json": json.read_json,
}


class Printed(NamedTuple):
    """What a process took. `first`: seconds until its first line."""

    seconds: float
    cpu: float
    first: float
    peak_mb: float


def run(folder: Path, rows: int = 4_000_000, rounds: int = 3) -> Report:
    """`rows` of 12 columns in 4 buckets, compacted; a tenth replaced since, and compacted into a level of its own."""
    table = tables.with_dead_rows(folder, rows)
    few = f"id < {rows // 4}"
    answers = {"scan": checksum.of_table(table.scan(columns=COLUMNS, where=few).to_arrow())}
    measures: list[Measure] = []
    for name, read in _READ.items():
        turns = [_printed(folder, name) for _ in range(rounds)]
        seconds, cpu, first = (min(getattr(turn, what) for turn in turns) for what in ("seconds", "cpu", "first"))
        file = folder / f"few.{name}"
        quarter = _printed(folder, name, few, file)
        answers[name] = checksum.of_table(read(file).select(COLUMNS).cast(pa.schema([SCHEMA.field(one) for one in COLUMNS])))
        measures += [
            Measure(f"{name}: rows a second", rows / seconds, None, "", target=_RATE, at_least=True),
            Measure(f"{name}: rows a second of CPU", rows / cpu, None, ""),
            Measure(f"{name}: until the first line", first, None, target=_FIRST_SECONDS),
            Measure(f"{name}: peak memory", turns[0].peak_mb, None, "MB"),
            Measure(
                f"{name}: more memory than for a quarter of the rows",
                turns[0].peak_mb - quarter.peak_mb,
                None,
                "MB",
                target=_GROWTH_MB,
            ),
        ]
    return Report(
        "sql_output",
        f"best of {rounds} processes, their start included; the answer is that of a quarter of the rows",
        {"rows": f"{rows:,} x {len(COLUMNS)} of 12 columns", "dead": f"{rows // 10:,} rows"},
        checksum.same(**answers),
        tuple(measures),
    )


def _printed(folder: Path, name: str, where: str = "true", file: Path | None = None) -> Printed:
    """Runs a process. `file`: what it prints goes there, too."""
    query = f"SELECT {', '.join(COLUMNS)} FROM {tables.NAME} WHERE {where}"
    command = [sys.executable, "-c", _PROGRAM, "sql", query, "--format", name, "-w", str(folder)]
    began, first = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with open(file or os.devnull, "wb") as sink:
        while data := os.read(process.stdout.fileno(), _READ_BYTES):
            first = first or time.perf_counter() - began
            sink.write(data)
    _, status, used = os.wait4(process.pid, 0)
    seconds, process.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
    with process:
        assert process.returncode == 0
        return Printed(seconds, used.ru_utime + used.ru_stime, first, int(process.stderr.read()) / 1e3)
