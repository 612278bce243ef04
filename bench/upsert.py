"""Upsert of a Spark DataFrame, compared with the same shuffle and sorted Parquet write by Spark; and the cost of the lookup.

1. A load: all rows into an empty table, without compaction, against `repartitionById`, `sortWithinPartitions`, `write.parquet`.
2. A small batch of random updates into a large table: with lookup and deletion vectors, against level 0 only.
3. The lookup alone, of as many keys in tables of a quarter, a half and all of the rows: seconds, and bytes it reads.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import checksum, tables
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.session import session
from bench.timing import Spent, clock, compared, take_turns
from lsmlake.api.table import Table
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.lsm.cover import Covers
from lsmlake.storage.local import LocalStorage
from lsmlake.tables.version import Metadata
from lsmlake.write.bucket_writer import split
from lsmlake.write.prepare import prepare

BUCKETS = 4
_PART_ROWS = 2_500_000  # made at once
_SHARES = (4, 2, 1)


def run(folder: Path, rows: int = 10_000_000, rounds: int = 4) -> Report:
    """`rows`: of the large table. The load is a quarter of it, the batch a hundredth."""
    loaded, batch = rows // 4, rows // 100
    with session(folder) as spark:
        load, load_answer = _load(folder / "load", loaded, rounds, spark)
        _build(folder / "large", rows)
        update, update_answer = _update(folder, rows, batch, rounds, spark)
    lookups = [_lookup(folder / f"table-{share}", rows // share, batch, rounds) for share in _SHARES]
    growth = lookups[-1].seconds / lookups[0].seconds, lookups[-1].key_bytes / lookups[0].key_bytes
    return Report(
        "upsert",
        f"{rounds} rounds in turns after one that does not count, best of them",
        {
            "load": f"{loaded:,} x 12 columns, keys shuffled, into {BUCKETS} buckets",
            "batch": f"{batch:,} random updates into {rows:,} rows in {BUCKETS} buckets",
        },
        f"load {load_answer}; batch {update_answer}",
        (
            *compared("load without compaction / sorted Parquet by Spark", *load, 1.3),
            *compared("batch with lookup and vectors / without", *update, 2.5),
            *(
                Measure(f"lookup in {rows // share:,} rows, {_megabytes(found)}", found.seconds, None)
                for share, found in zip(_SHARES, lookups, strict=True)
            ),
            Measure("growth of lookup seconds / of key columns, rows x 4", *growth, unit="", target=1.0),
        ),
    )


def _megabytes(found: _Lookup) -> str:
    return f"{found.read_bytes / 1e6:.1f} MB read, keys {found.key_bytes / 1e6:.1f}"


def _parts(rows: int) -> Iterator[pa.Table]:
    for start in range(0, rows, _PART_ROWS):
        yield orders(np.arange(start, min(start + _PART_ROWS, rows)))


def _build(folder: Path, rows: int) -> Table:
    """One run of `rows` orders in every bucket."""
    table = tables.create(folder, {"bucket": BUCKETS})
    for part in _parts(rows):
        table.upsert(part, compact=False)
    table.compact(full=True)
    return table


def _files(folder: Path, rows: pa.Table, count: int) -> Path:
    """`rows` shuffled, as `count` Parquet files for Spark to read in parallel."""
    folder.mkdir(parents=True)
    rows = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    step = -(-rows.num_rows // count)
    for n in range(count):
        pq.write_table(rows.slice(n * step, step), folder / f"{n}.parquet")
    return folder


# -- load -------------------------------------------------------------------------------------------------------------


def _load(folder: Path, rows: int, rounds: int, spark: SparkSession) -> tuple[tuple[Spent, Spent], str]:
    source = spark.read.parquet(str(_files(folder / "source", orders(np.arange(rows)), BUCKETS)))

    def ours(_: int) -> Callable[[], object]:
        return partial(tables.create(tables.fresh(folder / "ours"), {"bucket": BUCKETS}, spark).upsert, source, compact=False)

    def theirs(_: int) -> Callable[[], object]:
        return partial(_sorted_parquet, source, tables.fresh(folder / "theirs"))

    best = take_turns({"ours": ours, "theirs": theirs}, rounds)
    written = tables.paths(folder / "ours", tables.reopen(folder / "ours"))
    answer = checksum.same(
        ours=checksum.of_files(written, SCHEMA.names),
        theirs=checksum.of_files([str(path) for path in (folder / "theirs").glob("*.parquet")], SCHEMA.names),
    )
    return (best["ours"], best["theirs"]), answer


def _sorted_parquet(rows: DataFrame, target: Path) -> None:
    bucket = F.pmod(F.hash(KEY), F.lit(BUCKETS)).cast("int")
    rows.repartitionById(BUCKETS, bucket).sortWithinPartitions(KEY).write.parquet(str(target))


# -- batch ------------------------------------------------------------------------------------------------------------


def _update(folder: Path, rows: int, batch: int, rounds: int, spark: SparkSession) -> tuple[tuple[Spent, Spent], str]:
    ids = np.random.default_rng(2).choice(rows, batch, replace=False)
    source = spark.read.parquet(str(_files(folder / "batch", orders(ids, version=1), 2)))

    def side(name: str, compact: bool, _: int) -> Callable[[], object]:
        return partial(tables.clone(folder / "large", tables.fresh(folder / name), spark).upsert, source, compact=compact)

    best = take_turns({"lookup": partial(side, "lookup", True), "level0": partial(side, "level0", False)}, rounds)
    answers = {name: checksum.of_table(tables.reopen(folder / name).scan(columns=[KEY, "price"]).to_arrow()) for name in best}
    dead = sum(tables.reopen(folder / "lookup").files()["deleted_record_count"].to_pylist())
    assert dead == batch, f"{dead} rows marked"
    return (best["lookup"], best["level0"]), checksum.same(**answers)


# -- lookup -----------------------------------------------------------------------------------------------------------


class _Counting(LocalStorage):
    """Counts the bytes that are read of it."""

    count = 0

    def read(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Counted(self, super().read(path)), "r")

    def read_from_end(self, path: str, size: int, length: int) -> pa.NativeFile:
        return self.read(path)


class _Counted(io.RawIOBase):
    """The minimum of a Python file that Arrow needs, so that Arrow reads only through `read`."""

    def __init__(self, storage: _Counting, file: pa.NativeFile) -> None:
        self.storage, self.file = storage, file
        self.seek, self.tell = file.seek, file.tell

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(None if size < 0 else size)
        self.storage.count += len(data)
        return data


class _Lookup(NamedTuple):
    """`key_bytes`: of the key columns; `read_bytes`: of all that was read of the files."""

    seconds: float
    key_bytes: int
    read_bytes: int


def _lookup(folder: Path, rows: int, batch: int, rounds: int) -> _Lookup:
    """A lookup of `batch` keys, every one of them there."""
    table = _build(folder, rows)
    ids = np.random.default_rng(3).choice(rows, batch, replace=False)
    parts = split(prepare(orders(ids), table.version.schema)[0], table.version.schema, Covers(BUCKETS))
    keys = [(bucket, part.select([KEY])) for bucket, part in parts]
    states, schema = table.states(), table.version.schema

    def find(meta) -> int:
        found = (BucketFiles(meta, schema, bucket).find(part, states[bucket].files) for bucket, part in keys)
        return sum(len(hits.positions) for files in found for hits in files.values())

    storage = _Counting(folder)
    found = find(Metadata.of(replace(table.meta.env, storage=storage), table.meta.paths))
    assert found == batch, f"{found} of {batch} keys found"
    seconds = min(clock(partial(find, table.meta)).seconds for _ in range(rounds))
    return _Lookup(seconds, sum(map(_key_bytes, tables.paths(folder, table))), storage.count)


def _key_bytes(path: str) -> int:
    footer, key = pq.read_metadata(path), SCHEMA.get_field_index(KEY)
    return sum(footer.row_group(n).column(key).total_compressed_size for n in range(footer.num_row_groups))
