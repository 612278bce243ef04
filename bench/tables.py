"""Creates, clones and inspects the tables of the benchmarks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import lsmlake
from bench.rows import KEY, SCHEMA, orders
from lsmlake.api.table import Table

NAME = "bench.orders"
_BATCH = 1_000_000


def create(folder: Path, options: Mapping[str, object], spark: object | None = None) -> Table:
    """A new table of orders in a new warehouse."""
    lake = lsmlake.connect(folder, spark=spark)
    lake.create_database("bench")
    return lake.create_table(NAME, SCHEMA, primary_key=[KEY], options=options)


def with_dead_rows(folder: Path, rows: int) -> Table:
    """A table of so many orders in 4 buckets, compacted; a tenth replaced since, and compacted into a level of its own."""
    table = create(folder, {"bucket": 4, "target-file-size": "16 mb", "file.block-size": "8 mb"})
    for start in range(0, rows, _BATCH):
        table.upsert(orders(np.arange(start, min(rows, start + _BATCH))))
    table.compact(full=True)
    replaced = np.sort(np.random.default_rng(1).choice(rows, rows // 10, replace=False))
    table.upsert(orders(replaced, version=1), compact=True)
    return table


def reopen(folder: Path, spark: object | None = None) -> Table:
    """The table, nothing of it cached."""
    return lsmlake.connect(folder, spark=spark).table(NAME)


def clone(source: Path, target: Path, spark: object | None = None) -> Table:
    """The same table once more: files are never changed, so a hard link is a copy."""
    shutil.copytree(source, target, copy_function=os.link)
    return reopen(target, spark)


def paths(folder: Path, table: Table) -> list[str]:
    """The live data files."""
    return [str(folder / path) for path in table.files()["file_path"].to_pylist()]


def fresh(folder: Path) -> Path:
    """The path, with nothing there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
