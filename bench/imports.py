"""`import_iceberg` beside a copy of the files and beside writing all rows anew: a large table, and one of many small files.

An import takes the files as they are, so it should take what their metadata takes, whatever their size.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog

import lsmlake
from bench import tables
from bench.result import Measure, Report
from bench.rows import KEY, orders
from bench.rows import SCHEMA as ORDERS
from bench.timing import Spent, compared, take_turns
from lsmlake.api.lake import Lake

_SMALL_ROWS = 100  # of a small file
_SMALL = pa.schema([("id", pa.int64()), ("value", pa.float64())])
_NAME = "bench.imported"


def run(folder: Path, rows: int = 10_000_000, files: int = 100, small: int = 10_000, rounds: int = 3) -> Report:
    """`rows` in so many `files`, and `small` files of 100 rows. Half of the time goes into writing the Iceberg tables."""
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace("bench")
    large = catalog.create_table("bench.large", ORDERS)
    each = rows // files
    for number in range(files):
        large.append(orders(np.arange(number * each, (number + 1) * each)))
    many = catalog.create_table("bench.many", _SMALL, properties={"write.target-file-size-bytes": str(16 * _SMALL_ROWS)})
    ids = np.arange(small * _SMALL_ROWS)
    many.append(pa.table({"id": ids, "value": ids / 3}, _SMALL))
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("bench")
    measures = []
    for key in ((), (KEY,)):
        what = f"{rows:,} rows in {files} files{', with a key' if key else ''}: import"
        sides: dict[str, Callable[[], object]] = {
            "import": partial(_imported, lake, large.metadata_location, key),
            "write": partial(_written, lake, large, key),
            "copy": partial(_copied, folder),
        }
        spent = _in_turns(lake, folder, sides, rounds)
        measures += [
            *compared(f"{what} / create_table_from", spent["import"], spent["write"], None),
            *compared(f"{what} / cp -r", spent["import"], spent["copy"], None),
        ]
    spent = _in_turns(lake, folder, {"import": partial(_imported, lake, many.metadata_location, ())}, rounds)
    found = len(list(many.scan().plan_files()))
    measures.append(Measure(f"{found:,} files of {_SMALL_ROWS} rows", found / spent["import"].seconds, None, "files/s"))
    measures.append(Measure("the same, by the CPU", found / spent["import"].cpu, None, "files/s"))
    return Report(
        "import",
        f"best of {rounds} in turns, after one that does not count",
        {"large": f"{rows:,} rows x {len(ORDERS)} columns in {files} files", "small": f"{found:,} files"},
        f"{lake.table(_NAME).scan().count():,} rows",
        tuple(measures),
    )


def _in_turns(lake: Lake, folder: Path, sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, Spent]:
    def prepared(work: Callable[[], object], _: int) -> Callable[[], object]:
        for name in lake.tables("bench"):
            lake.drop_table(f"bench.{name}")
        tables.fresh(folder / "copy")
        return work

    return take_turns({side: partial(prepared, work) for side, work in sides.items()}, rounds)


def _imported(lake: Lake, metadata: str, key: tuple[str, ...]) -> None:
    lake.import_iceberg(metadata, _NAME, key)


def _written(lake: Lake, table, key: tuple[str, ...]) -> None:
    paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    lake.create_table_from(_NAME, ds.dataset(paths).scanner().to_reader(), primary_key=key)


def _copied(folder: Path) -> None:
    subprocess.run(["cp", "-r", folder / "iceberg" / "bench" / "large", folder / "copy"], check=True)
