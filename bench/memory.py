"""Peak memory of processes that work on a large table: an upsert of a stream, a MERGE, scans.

Each work runs in a process of its own. The measure is the peak resident set of that process, including Python and Arrow. See
`compact_memory` for compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmlake
from bench.peak_memory import Peak, peak_of
from bench.result import Measure, Report
from lsmlake.api.table import Table

_LEAST = 1.0  # GB
_BATCH = 1 << 17
_WORDS = 50_000  # of so many texts: they compress by about a half
_TEXT = 64
_STREAM = pa.schema([("id", pa.int64()), ("version", pa.int32()), ("price", pa.float64()), ("comment", pa.string())])
_STREAM_BYTES = 8 + 4 + 8 + 4 + _TEXT
_NARROW = pa.schema([("id", pa.int64()), ("amount", pa.int64()), ("price", pa.float64())])
_SCATTER = 0x9E3779B1  # odd, so that a multiple is a permutation of the numbers below a power of two
_STREAMED, _LARGE = "bench.streamed", "bench.large"
_SHARE = 100  # a MERGE has one row for so many of the table


def run(folder: Path, gigabytes: float = 0.25, rows: int = 2_000_000) -> Report:
    """`gigabytes`: in Arrow, of the stream that is upserted; keys in random order, one of five twice. `rows`: of the table that
    is merged into and scanned; the targets hold for 10 GB and 100,000,000 rows."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    lake.create_table(_STREAMED, _STREAM, primary_key=["id"])
    streamed = int(gigabytes * 1e9 / _STREAM_BYTES)
    upserted = peak_of("bench.memory:upsert", folder, streamed)
    assert upserted.answer == lake.table(_STREAMED).count()
    _fill(lake.create_table(_LARGE, _NARROW, primary_key=["id"]), rows)
    found = {
        f"upsert of a stream of {gigabytes:g} GB": upserted,
        f"to_batches of {rows:,} rows": peak_of("bench.memory:batches", folder),
        "aggregate by lake.sql": peak_of("bench.memory:aggregate", folder),
        "groups by lake.sql": peak_of("bench.memory:groups", folder),
        f"merge of {rows // _SHARE:,} rows": peak_of("bench.memory:merge", folder, rows),
        "MERGE by lake.sql": peak_of("bench.memory:merge_by_sql", folder, rows),
        "to_batches after it": peak_of("bench.memory:batches", folder),
    }
    return Report(
        "memory",
        "each work in a process of its own",
        {"stream": f"{streamed:,} rows", "table": f"{rows:,} rows of 3 columns", "MERGE": f"one of {_SHARE} rows"},
        "; ".join(f"{name}: {peak.answer}" for name, peak in found.items()),
        tuple(Measure(f"{name}: peak resident set", peak.peak_bytes / 1e9, None, "GB", _LEAST) for name, peak in found.items()),
        (*(_told(name, peak) for name, peak in found.items()),),
    )


def _told(name: str, peak: Peak) -> str:
    return f"{name}: {peak.seconds:.1f} s, CPU {peak.cpu:.1f} s; {peak.start_bytes / 1e9:.2f} GB before it begins"


def _table(folder: str, name: str) -> Table:
    return lsmlake.connect(folder).table(name)


def _fill(table: Table, rows: int) -> None:
    parts = max(1, rows // 5_000_000)
    for part in range(parts):
        ids = np.arange(part * rows // parts, (part + 1) * rows // parts)
        random = np.random.default_rng(part)
        table.upsert(pa.table([ids, ids % 1000, random.random(len(ids))], schema=_NARROW))


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    letters = random.integers(97, 123, _WORDS * _TEXT, np.uint8).tobytes()
    offsets = pa.py_buffer(np.arange(_WORDS + 1, dtype=np.int32) * _TEXT)
    words = pa.Array.from_buffers(pa.string(), _WORDS, [None, offsets, pa.py_buffer(letters)])
    size = 1 << (rows * 4 // 5 - 1).bit_length()
    for first in range(0, rows, _BATCH):
        places = np.arange(first, min(rows, first + _BATCH), dtype=np.uint64)
        ids = (places % np.uint64(rows * 4 // 5)) * np.uint64(_SCATTER) % np.uint64(size)
        price, text = random.random(len(ids)).round(4), words.take(pa.array(random.integers(0, _WORDS, len(ids))))
        versions = (places // np.uint64(rows * 4 // 5)).astype(np.int32)
        yield pa.record_batch([pa.array(ids.astype(np.int64)), versions, price, text], schema=_STREAM)


# -- in the separate processes: the results are numbers of rows and sums ----------------------------------------------


def upsert(folder: str, rows: int) -> int:
    table = _table(folder, _STREAMED)
    table.upsert(pa.RecordBatchReader.from_batches(_STREAM, _batches(rows)))
    return table.count()


def batches(folder: str) -> list[int]:
    rows, ids = 0, 0
    for batch in _table(folder, _LARGE).scan().to_batches():
        rows, ids = rows + batch.num_rows, ids + int(batch["id"].to_numpy().sum())
    return [rows, ids]


def aggregate(folder: str) -> list[object]:
    return _query(folder, f"SELECT count(id), sum(amount), max(price) FROM {_LARGE}")


def groups(folder: str) -> list[object]:
    return _query(folder, f"SELECT count(*), sum(n) FROM (SELECT amount, count(*) AS n FROM {_LARGE} GROUP BY amount)")


def _query(folder: str, text: str) -> list[object]:
    return list(lsmlake.connect(folder).sql(text).to_pylist()[0].values())


def merge(folder: str, rows: int) -> list[int]:
    table = _table(folder, _LARGE)
    merged = table.merge(_source(rows), "t.id = s.id").when_matched_update({"amount": "t.amount + s.amount"})
    merged.when_not_matched_insert_all().execute()
    return [table.count()]


def merge_by_sql(folder: str, rows: int) -> list[int]:
    lake = lsmlake.connect(folder)
    text = f"""MERGE INTO {_LARGE} AS t USING source AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount WHEN NOT MATCHED THEN INSERT *"""
    lake.sql(text, tables={"source": _source(rows)})
    return [lake.table(_LARGE).count()]


def _source(rows: int) -> pa.Table:
    """Ascending keys, spread over those of the table and as many of a tenth more."""
    count = rows // _SHARE
    step = rows * 11 // 10 // count
    ids = np.arange(count) * step + np.random.default_rng(2).integers(0, step, count)
    return pa.table([ids, np.ones(count, np.int64), np.full(count, 0.5)], schema=_NARROW)
