"""A merge by dlt into the destination lsmlake, beside its destinations for Delta Lake (delta-rs) and DuckDB.

The pipeline loads rows, then merges as many by key, half of them of new keys. dlt extracts and normalizes in one process; another
one loads, so that its time and its peak memory are those of the destination.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmlake
from bench import checksum
from bench.peak_memory import FORGETFUL
from bench.result import Measure, Report
from bench.rows import orders
from lsmlake.dialect.sql_types import quoted

LSMLAKE, DELTA, DUCKDB = DESTINATIONS = "lsmlake", "delta", "duckdb"
_QUIET = {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "CRITICAL",
    "NORMALIZE__WORKERS": "1",
    "NORMALIZE__LOADER_FILE_FORMAT": "parquet",
}


def run(folder: Path, rows: int = 1_000_000, loads: int = 2) -> Report:
    """`rows` of each load; half of those of a load have new keys. `loads`: the last one is measured."""
    spent = {name: [_step(folder, name, number, rows) for number in range(loads)][-1] for name in DESTINATIONS}
    answers = {name: checksum.of_table(_rows_of(folder, name)) for name in DESTINATIONS}
    ours = spent[LSMLAKE]
    return Report(
        "dlt_loads",
        "the load step of the last merge, in a process of its own",
        {"rows": f"{rows:,} of 12 columns in each of {loads} loads, half of them of new keys"},
        checksum.same(**answers),
        tuple(
            measure
            for name in (DELTA, DUCKDB)
            for measure in (
                Measure(f"merge beside {name}: CPU", ours["cpu"], spent[name]["cpu"], target=1.0 if name == DELTA else None),
                Measure(f"merge beside {name}", ours["seconds"], spent[name]["seconds"]),
                Measure(f"peak resident set beside {name}", ours["bytes"] / 1e9, spent[name]["bytes"] / 1e9, "GB"),
            )
        ),
    )


def _step(folder: Path, name: str, number: int, rows: int) -> Mapping[str, float]:
    """One load; what its load step took."""
    environment = {**os.environ, **_QUIET}
    for step in ("normalize", "load"):
        command = [*FORGETFUL, sys.executable, "-m", "bench.dlt_loads", str(folder), name, step, str(number), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent, env=environment)
        assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _rows_of(folder: Path, name: str) -> pa.Table:
    """The rows of the table, with the columns of `bench.rows`."""
    columns = orders(np.arange(0)).schema.names
    if name == LSMLAKE:
        return lsmlake.connect(folder / LSMLAKE).table("bench.orders").scan(columns=columns).to_arrow()
    if name == DELTA:
        import deltalake

        return deltalake.DeltaTable(str(folder / DELTA / "bench" / "orders")).to_pyarrow_table(columns=columns)
    import duckdb

    with duckdb.connect(str(folder / "orders.duckdb"), read_only=True) as connection:
        return connection.sql(f"SELECT {', '.join(map(quoted, columns))} FROM bench.orders").to_arrow_table()


# -- in a process of its own ------------------------------------------------------------------------------------------


def _pipeline(folder: Path, name: str):
    import dlt

    import lsmlake.dlt

    made = {
        LSMLAKE: lambda: lsmlake.dlt.destination(str(folder / LSMLAKE)),
        DELTA: lambda: dlt.destinations.filesystem(str(folder / DELTA)),
        DUCKDB: lambda: dlt.destinations.duckdb(str(folder / "orders.duckdb")),
    }
    pipelines = str(folder / f"work-{name}")
    return dlt.pipeline(f"bench_{name}", destination=made[name](), dataset_name="bench", pipelines_dir=pipelines)


def _run_step(folder: str, name: str, step: str, number: int, rows: int) -> None:
    """Runs in a process of its own; prints what the step took."""
    pipeline = _pipeline(Path(folder), name)
    if step == "normalize":
        table = orders(number * (rows // 2) + np.random.default_rng(number).permutation(rows), version=number)
        words = {"table_format": "delta"} if name == DELTA else {}
        disposition = {"disposition": "merge", "strategy": "upsert"}
        pipeline.extract(table, table_name="orders", primary_key="id", write_disposition=disposition, **words)
        pipeline.normalize()
        return
    cpu, start = time.process_time(), time.perf_counter()
    pipeline.load()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "bytes": peak * (1 if sys.platform == "darwin" else 1024),
    }
    print(json.dumps(spent))


if __name__ == "__main__":
    given = partial(_run_step, *sys.argv[1:4])
    given(*map(int, sys.argv[4:]))
