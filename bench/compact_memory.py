"""Peak memory of a process that compacts one large bucket: eight overlapping runs of rows that do not compress.

This process builds the bucket, half a gigabyte per run; another one compacts it in full. The measure is the peak resident set of
that process, including Python and Arrow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from bench import checksum
from bench.peak_memory import peak_of
from bench.result import Measure, Report
from lsmlake.api.table import Table

RUNS = 8
ROW_BYTES = 98  # in Parquet
_BLOB = 64
_NUMBERS = ("a", "b", "c", "d")
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("version", pa.int32()), *((name, pa.float64()) for name in _NUMBERS), ("blob", pa.binary())]
)
_NAME = "bench.wide"


def run(folder: Path, gigabytes: float = 0.5) -> Report:
    """`gigabytes`: Parquet of the bucket before it is compacted; the target holds for 10."""
    rows = int(gigabytes * 1e9 / RUNS / ROW_BYTES)
    table, last = _build(folder, rows)
    size = sum(table.files()["file_size_in_bytes"].to_pylist())
    found = peak_of("bench.compact_memory:compact", folder)
    kept = np.flatnonzero(last >= 0)
    expected = checksum.of_table(pa.table({"id": kept, "version": last[kept].astype(np.int32)}))
    paths = [str(folder / path) for path in table.files()["file_path"].to_pylist()]
    return Report(
        "compact_memory",
        "one compaction in a process of its own",
        {
            "rows": f"{rows * RUNS:,} in {RUNS} runs of one bucket, {len(kept):,} of them stay",
            "bytes": f"{size:,} in Parquet",
            "rate": f"{rows * RUNS / found.seconds:,.0f} rows/s, {size / found.seconds / 1e6:,.0f} MB/s",
        },
        checksum.same(compacted=checksum.of_files(paths, ["id", "version"]), expected=expected),
        (
            Measure("peak resident set", found.peak_bytes / 1e9, None, "GB", 1.0),
            Measure("before it begins, all imported", found.start_bytes / 1e9, None, "GB"),
        ),
    )


def _build(folder: Path, rows: int) -> tuple[Table, np.ndarray]:
    """The table, and the expected version of each id, -1 for none."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    table = lake.create_table(_NAME, _SCHEMA, primary_key=["id"], options={"bucket": 1})
    last = np.full(RUNS * rows, -1)
    for version in range(RUNS):
        random = np.random.default_rng(version)
        ids = np.sort(random.choice(len(last), rows, replace=False))
        last[ids] = version
        table.upsert(_rows(ids, version, random), compact=False)
    return table, last


def _rows(ids: np.ndarray, version: int, random: np.random.Generator) -> pa.Table:
    blobs = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_BLOB), len(ids), [None, pa.py_buffer(random.bytes(_BLOB * len(ids)))])
    versions = np.full(len(ids), version, np.int32)
    return pa.table([ids, versions, *(random.random(len(ids)) for _ in _NUMBERS), pc.cast(blobs, pa.binary())], schema=_SCHEMA)


def compact(folder: str) -> None:
    """Runs in the separate process."""
    lsmlake.connect(folder).table(_NAME).compact(full=True)
