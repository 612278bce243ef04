"""A write that the disk refuses ends in one StorageFailed that names the file, and nothing else is printed.

The limit on the size of a file stands for the full disk: both fail in the middle of a file, or when it is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gc, resource, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import lsmlake
from lsmlake.errors import StorageFailed

root = sys.argv[1]
values = np.random.default_rng(1).random(60_000)
rows = pa.table({"k": np.argsort(values), "v": values, "p": pa.array(np.arange(60_000) % 5, pa.int32())})
lake = lsmlake.connect(root)
lake.create_database("d")
pq.write_table(rows, f"{root}.parquet", compression="brotli")

def write(way, name):
    if way == "import":
        return lake.import_parquet(f"{root}.parquet", name, ["k"])
    options = {"partitions": {"bucket": 2}, "spill": {"write-buffer-size": "64 kb"}}.get(way, {})
    if way == "append":
        return lake.create_table(name, rows.schema).append(rows)
    key, parts = (["k", "p"], ["p"]) if way == "partitions" else (["k"], [])
    return lake.create_table(name, rows.schema, primary_key=key, partition_by=parts, options=options).upsert(rows)

for way in ("upsert", "append", "partitions", "spill", "import"):
    refused = 0
    for limit in (20_000, 60_000, 100_000, 200_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            write(way, f"d.{way}{limit}")
        except StorageFailed as failed:
            assert failed.where.startswith("/") and "write" in failed.what, failed
            refused += 1
        gc.collect()
    assert refused, way
"""


def test_nothing_is_printed_beside_the_error(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "lake"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
@pytest.mark.parametrize("words", [["--help"], ["options"]])
def test_output_that_cannot_be_written_is_one_line(words: list[str]):
    launcher = [sys.executable, "-c", "from lsmlake.cli.main import run; run()"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*launcher, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: cannot write the result: No space left on device\n")
