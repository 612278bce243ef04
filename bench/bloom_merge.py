"""MERGE of a few keys into an append-only table whose files all have keys of the whole range, with and without file indexes.

Statistics exclude no file. The keys of the source lie in one file, in one file of a hundred, or in all files. `files`: those that
the plan of the merge leaves. `read`: all that the process reads from files, indexes and metadata included.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import lsmlake
from bench.result import Measure, Report
from bench.tables import fresh
from bench.timing import clock
from lsmlake.kernels.value_hash import value_hash
from lsmlake.options.data_file_options import BLOOM_COLUMNS
from lsmlake.options.table_options import OPTIONS
from lsmlake.read.indexed import index_of_file

_NAME, _RATE = "bench.events", "file-index.bloom-filter.fpp"
_RATES = {"none": None, "0.1": 0.1, "default": OPTIONS[_RATE].default}
_MB = 1 << 20


def run(folder: Path, rows: int = 10_000_000, files: int = 200, keys: int = 10_000, rounds: int = 3) -> Report:
    built = {name: _build(folder / name, rows, files, rate) for name, rate in _RATES.items()}
    measures, answers = [], set()
    sizes = {f"index {name}": f"{_index_bytes(folder / name) / _MB:.1f} MB" for name in built if name != "none"}
    measures += [Measure(f"write with {name}", built[name], built["none"]) for name in built if name != "none"]
    sizes |= {f"false positives {name}": f"{_found_absent(folder / name, rows):.2g}" for name in built if name != "none"}
    for touched in (1, max(1, files // 100), files):
        ids = _ids(rows, files, keys, touched)
        found = {name: [] for name in built}
        for number in range(rounds):
            for name in built:
                copy = fresh(folder / "copy")
                shutil.copytree(folder / name, copy, copy_function=os.link)  # files are never changed, so a hard link is a copy
                found[name].append(_merge(copy, ids, number))
                answers.add(lsmlake.connect(copy).table(_NAME).scan(where="v < 0").count())
        for name in built:
            if name != "none":
                best, other = (tuple(map(min, zip(*found[each], strict=True))) for each in (name, "none"))
                what = f"keys in {touched} files, fpp {name}"
                measures.append(Measure(f"{what}: seconds", best[0], other[0]))
                measures.append(Measure(f"{what}: read", best[1] / _MB, other[1] / _MB, "MB"))
                measures.append(Measure(f"{what}: files", best[2], other[2], "files"))
    assert len(answers) == 1, answers
    return Report(
        "bloom_merge",
        f"best of {rounds} in turns, a new handle each time; other: the table without indexes",
        {"rows": f"{rows:,} in {files} files", "keys": f"{keys:,}", **sizes},
        f"{answers.pop():,} rows updated",
        tuple(measures),
    )


def _build(folder: Path, rows: int, files: int, rate: float | None) -> float:
    """Seconds to write the table."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    options = {} if rate is None else {BLOOM_COLUMNS: "id", _RATE: rate}
    table = lake.create_table(_NAME, "id BIGINT, v BIGINT, price DOUBLE, name STRING", options=options)

    def write() -> None:
        for number in range(files):
            rows_of_file = np.arange(number, rows, files)
            names = pa.array(np.char.add("name-", (rows_of_file % 20_000).astype(str)))
            columns = {"id": _scattered(rows_of_file), "v": rows_of_file, "price": np.sqrt(rows_of_file), "name": names}
            table.append(pa.table(columns))

    return clock(write).seconds


def _ids(rows: int, files: int, keys: int, touched: int) -> np.ndarray:
    """Keys of the first `touched` files. File n has the keys of the rows that are n modulo `files`."""
    each = np.linspace(0, rows // files - 1, keys // touched).astype(np.int64)
    return _scattered(np.concatenate([number + files * each for number in range(touched)]))


def _scattered(numbers: np.ndarray) -> np.ndarray:
    """Different numbers for different ones, over the whole range of BIGINT."""
    return (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _merge(folder: Path, ids: np.ndarray, number: int) -> tuple[float, int, int]:
    """Seconds, bytes read, files left."""
    listed = ", ".join(map(str, ids))
    left = lsmlake.connect(folder).table(_NAME).scan(where=f"id IN ({listed})").plan().files
    source = pa.table({"id": ids, "v": np.full(len(ids), -1 - number)})
    before = psutil.Process().io_counters().read_chars
    merge = lsmlake.connect(folder).table(_NAME).merge(source, "t.id = s.id").when_matched_update({"v": "s.v"})
    seconds = clock(merge.execute).seconds
    return seconds, psutil.Process().io_counters().read_chars - before, left


def _found_absent(folder: Path, rows: int) -> float:
    """The share of absent values that the filters of some files take for present."""
    table = lsmlake.connect(folder).table(_NAME)
    files = [file for state in table.version.states().values() for file in state.files][:10]
    absent = value_hash(pa.chunked_array([_scattered(np.arange(rows, rows + (1 << 18)))]))
    filters = [one for file in files for one in index_of_file(table.meta.files, file).filters.values()]
    return float(np.mean([one.may_hold(absent).mean() for one in filters]))


def _index_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.index"))
