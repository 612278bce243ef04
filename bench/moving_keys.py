"""Updates of a table whose keys can move between partitions, beside a table whose key contains the partition column; and what it
takes to find the keys: in the key columns of the table, or in a table of keys and partitions that stands for a hidden index.

The keys are in no order. A tenth of the updated rows moves to the next day. Recent updates are of the last week.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmlake
from bench.result import Measure, Report
from bench.timing import Spent, clock
from lsmlake.api.table import Table
from lsmlake.read.find_keys import find_keys
from lsmlake.read.point import rows_of_keys

DDL, DAYS = "id BIGINT, day INT, amount DOUBLE, quantity BIGINT, note STRING", 365
_WEEK = 52  # of so many rows one is of the last week
_MOVED = 10  # of so many updated rows one moves
_TURNS = 2


def run(folder: Path, rows: int = 10_000_000, share: int = 100, loads: int = 5) -> Report:
    """`share`: of so many rows one is updated. `loads`: batches in which the rows come."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    how = {"partition_by": ["day"]}
    moving = lake.create_table("bench.moving", DDL, primary_key=["id"], **how)
    fixed = lake.create_table("bench.fixed", DDL, primary_key=["id", "day"], **how)
    index = lake.create_table("bench.index", "id BIGINT, day INT", primary_key=["id"], options={"bucket.target-size": "128 mb"})
    loaded = [
        clock(lambda table=table, columns=columns: _load(table, rows, loads, columns)).cpu
        for table, columns in ((moving, None), (fixed, None), (index, ["id", "day"]))
    ]
    index.compact()
    measures, found = [Measure("first load, CPU", loaded[0], loaded[1]), Measure("load of the index, CPU", loaded[2], None)], []
    for name, chosen in (("uniform", _uniform), ("recent", _recent)):
        numbers = chosen(rows, rows // share)
        keys = pa.table({"id": np.sort(_keys(numbers))})
        looked = _best(lambda keys=keys: find_keys(moving.version, keys))
        asked = _best(lambda keys=keys: rows_of_keys(index.version, keys))
        batch, moved = _updates(numbers, rows)
        ours, theirs, own = (
            clock(lambda table=table, data=data: table.upsert(data))
            for table, data in (
                (moving, batch),
                (fixed, _rows(numbers, rows, 1)),
                (index, batch.select(["id", "day"]).filter(pa.array(moved))),
            )
        )
        assert moving.count() == rows
        found.append(f"{name}: {len(find_keys(moving.version, keys).keys):,} keys")
        measures += [
            Measure(f"{name}: lookup of the keys, in key columns and in an index, CPU", looked.cpu, asked.cpu),
            Measure(f"{name}: upsert, CPU", ours.cpu, theirs.cpu),
            Measure(f"{name}: upsert of the moved keys to the index, CPU", own.cpu, None),
        ]
    files = moving.files()
    return Report(
        "moving_keys",
        f"lookups: the best of {_TURNS}; the other figures once",
        {
            "rows": f"{rows:,} in {DAYS} partitions and {files.num_rows} files; {rows // share:,} updated, a tenth of them moved",
            "bytes": f"{sum(files['file_size_in_bytes'].to_pylist()):,}, of the index "
            f"{sum(index.files()['file_size_in_bytes'].to_pylist()):,}",
        },
        "; ".join(found),
        tuple(measures),
    )


def _best(work: Callable[[], object]) -> Spent:
    return min((clock(work) for _ in range(_TURNS)), key=lambda one: one.cpu)


def _load(table: Table, rows: int, loads: int, columns: list[str] | None) -> None:
    for numbers in np.array_split(np.arange(rows), loads):
        batch = _rows(numbers, rows, 0)
        table.upsert(batch if columns is None else batch.select(columns))


def _keys(numbers: np.ndarray) -> np.ndarray:
    """A key for each number, in no order."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return (mixed * np.uint64(0xBF58476D1CE4E5B9)).view(np.int64)


def _days(numbers: np.ndarray, rows: int) -> np.ndarray:
    return (numbers * DAYS // rows).astype(np.int32)


def _rows(numbers: np.ndarray, rows: int, version: int, days: np.ndarray | None = None) -> pa.Table:
    chance = np.random.default_rng(version)
    return pa.table(
        {
            "id": _keys(numbers),
            "day": _days(numbers, rows) if days is None else days,
            "amount": chance.random(len(numbers)),
            "quantity": chance.integers(0, 1000, len(numbers)),
            "note": np.char.add("note ", (numbers % 1000).astype(str)),
        }
    )


def _updates(numbers: np.ndarray, rows: int) -> tuple[pa.Table, np.ndarray]:
    """The updated rows, and which of them move."""
    moved = np.random.default_rng(len(numbers)).integers(0, _MOVED, len(numbers)) == 0
    days = (_days(numbers, rows) + moved) % DAYS
    return _rows(numbers, rows, 1, days.astype(np.int32)), moved


def _uniform(rows: int, count: int) -> np.ndarray:
    return np.sort(np.random.default_rng(1).choice(rows, count, replace=False))


def _recent(rows: int, count: int) -> np.ndarray:
    last = max(count, rows // _WEEK)
    return np.sort(rows - 1 - np.random.default_rng(2).choice(last, count, replace=False))
