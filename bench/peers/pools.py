"""Make the pools of real rows that `sources` takes from, in the environment `data`.

    python -m bench.peers.pools FOLDER SCALE

TPC-H's rows are what its generator's tpchgen-cli writes at a scale factor (1 is 6 million line items), flights the events of
`lsmlake demo`. Columns are those of the source, in its types: strings as such, instants in UTC.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.sources import SOURCES
from lsmlake.cli.demo.events import events, load_flights

_TPCH = ("lineitem", "orders")


def main(folder: Path, scale: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = [Path(sys.executable).with_name("tpchgen-cli"), "parquet", "-s", scale]
        subprocess.run([*command, "--tables", ",".join(_TPCH), "--output-dir", scratch], check=True)
        for name in _TPCH:
            _write(folder, name, pq.read_table(Path(scratch) / f"{name}.parquet"))
    _write(folder, "flights", events(load_flights()))


def _write(folder: Path, name: str, rows: pa.Table) -> None:
    schema = pa.schema(list(SOURCES[name].schema)[1:])
    pq.write_table(rows.select(schema.names).cast(schema), folder / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
