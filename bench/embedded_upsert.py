"""Embedded upsert of one batch into an empty primary-key table, compared with pypaimon in its own environment.

Both sides load the same Parquet file as an Arrow table before the clock starts, write zstd Parquet into four buckets and commit
once. Every round creates a new table, and the same library reads it back for the checksum.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import lsmlake
from bench import checksum
from bench.result import Measure, Report
from bench.rows import KEY, orders
from bench.timing import clock

BUCKETS = 4
_SIDE = Path(__file__).with_name("pypaimon_side.py")
_FOLDER = Path.home() / ".cache" / "lsmlake-bench" / "pypaimon"


def run(folder: Path, rows: int = 1_000_000, rounds: int = 3, env: Path = _FOLDER) -> Report:
    """`env`: where the virtual environment with pypaimon is or will be. Without pypaimon its error takes its place."""
    source = folder / "source.parquet"
    pq.write_table(orders(np.random.default_rng(1).permutation(rows)), source)
    _ours(folder / "warm", source)
    ours, theirs, error = [], {"seconds": []}, None
    for number in range(rounds):
        seconds, answer = _ours(folder / f"ours-{number}", source)
        ours.append(seconds)
        if error is None:
            found = _pypaimon(env, folder / f"pypaimon-{number}", source)
            error = found.get("error")
            if error is None:
                theirs = {**found, "seconds": [*theirs["seconds"], found["seconds"]]}
                checksum.same(ours=answer, pypaimon=checksum.of_files([found["rows"]], orders(np.arange(1)).column_names))
    rate = rows / min(ours)
    other = rows / min(theirs["seconds"]) if error is None else None
    what = "rows/s against pypaimon" if other else "rows/s (pypaimon failed)"
    return Report(
        "embedded_upsert",
        f"{rounds} rounds in turns, each into a new table, best of them",
        {"rows": f"{rows:,} x 12 columns, keys shuffled, {BUCKETS} buckets", "pypaimon": theirs.get("versions", "none")},
        answer,
        (Measure(what, rate, other, "rows/s", 20 if other else None, at_least=True),),
        () if error is None else (f"pypaimon: {error}",),
    )


def _ours(folder: Path, source: Path) -> tuple[float, str]:
    """(seconds of the upsert, content of the table after it)."""
    rows = pq.read_table(source)
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    table = lake.create_table("bench.orders", rows.schema, primary_key=[KEY], options={"bucket": BUCKETS})
    seconds = clock(lambda: table.upsert(rows)).seconds
    return seconds, checksum.of_table(table.scan().to_arrow())


def _pypaimon(env: Path, folder: Path, source: Path) -> dict:
    """{seconds, rows: a Parquet file of what the table holds, versions}, or {error}."""
    python = env / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    try:
        if not python.exists():
            venv.create(env, with_pip=True)
            _output([python, "-m", "pip", "install", "--quiet", "pypaimon"])
        return json.loads(_output([python, _SIDE, folder, source, KEY, str(BUCKETS)]).splitlines()[-1])
    except (OSError, RuntimeError) as failed:
        return {"error": str(failed)}


def _output(command: list[object]) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[1:3]} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    return done.stdout
