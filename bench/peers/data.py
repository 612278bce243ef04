"""The input rows of all peers, written once as Parquet, and the expected content of a table after them.

A stream is a load of `rows` keys 0, 1, ..., then batches: upserts of which a share hits older keys (uniformly, or mostly recent
ones) and the rest are new keys, or deletes of keys that are there. No key comes twice in a batch.

A row is a pure function of its key and version (`sources`), so the end is known without any table: NumPy keeps the newest
version of every key, and writes the rows of those keys and versions as the plain Parquet to compare with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.peers.read import Read
from bench.peers.sources import SOURCES, THREE, Make, Source
from bench.rows import KEY

_FILES = 2  # of a batch: as many tasks read it
_TINY_ROWS = 10_000
_PART_ROWS = 500_000
_GONE = -1
_SKEW = 6  # power of a uniform number: half of the updates hit the newest 1.6 % of the keys


@dataclass(frozen=True)
class Stream:
    """`keys`: "uniform" or "recent". `source`: whose rows, of `sources`. `deletes`: batches of deletes after those of upserts,
    together `deleted` of the keys. `three`: the upserts carry the key and three columns of a row of `wide` only, of keys that
    are there."""

    rows: int
    batch: int
    batches: int
    keys: str = "uniform"
    source: str = "generated"
    updated: float = 0.8
    deletes: int = 0
    deleted: float = 0.3
    three: bool = False

    @property
    def name(self) -> str:
        return "-".join(f"{value:g}" if isinstance(value, (int, float)) else str(value) for value in asdict(self).values())


class Data:
    """What lies in the folder of a stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict = json.loads((folder / "facts.json").read_text())

    @property
    def load(self) -> Path:
        return self.folder / "load"

    @property
    def final(self) -> Path:
        """What a table must hold in the end."""
        return self.folder / "final"

    @cached_property
    def batches(self) -> list[Path]:
        return sorted(self.folder.glob("batch-*"))

    @cached_property
    def deletes(self) -> list[Path]:
        return sorted(self.folder.glob("delete-*"))

    @property
    def source(self) -> Source:
        return SOURCES[self.facts["source"]]

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def reads(self) -> list[Read]:
        """What is asked of a table of these rows."""
        return self.source.reads(self.facts["known"])


def prepare(home: Path, stream: Stream) -> Data:
    """The data of the stream, made if it is not there yet. Raises NotReady."""
    folder = home / "data" / stream.name
    if not (folder / "facts.json").exists():
        make = SOURCES[stream.source].maker(home)
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, stream, make)
    return Data(folder)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# -- making -----------------------------------------------------------------------------------------------------------


def _make(folder: Path, stream: Stream, make: Make) -> None:
    chance = np.random.default_rng(7)
    versions = np.full(stream.rows + stream.batch * stream.batches, _GONE, np.int64)
    versions[: stream.rows] = 0
    whole = versions.copy()  # where three columns are updated, the rest of the row keeps its version
    known = stream.rows
    _write_all(folder / "load", np.arange(known), versions, make)
    new_from = []
    for number in range(stream.batches):
        ids, known_now = _drawn(chance, stream, known)
        new_from.append(known)
        known = known_now
        versions[ids] = number + 1
        rows = make(ids, number + 1)
        _write(folder / f"batch-{number:04}", rows.select([KEY, *THREE]) if stream.three else rows)
    alive = np.arange(known)
    if stream.deletes:
        gone = chance.choice(known, int(known * stream.deleted), replace=False)
        versions[gone] = _GONE
        for number, ids in enumerate(np.array_split(gone, stream.deletes)):
            _write(folder / f"delete-{number:04}", pa.table({KEY: ids}))
        alive = np.flatnonzero(versions[:known] != _GONE)
    final = (lambda ids, version: _patched(make, ids, whole[ids], version)) if stream.three else make
    _write_all(folder / "final", alive, versions, final)
    columns = SOURCES[stream.source].totals
    expected = _totals(folder / "final", columns)
    upserted = [] if stream.three else [folder / "load", *sorted(folder.glob("batch-*"))]
    written = [_totals(path, columns) for path in upserted] or [expected]
    facts = {"expected": expected, "summed": [expected[0], *map(sum, zip(*(sums for _, *sums in written), strict=True))]}
    facts |= {"source": stream.source, "batch_rows": stream.batch * stream.batches, "known": known}
    facts |= {"new_from": new_from, "new_end": [*new_from[1:], known]}
    (folder / "facts.json").write_text(json.dumps(facts))


def _drawn(chance: np.random.Generator, stream: Stream, known: int) -> tuple[np.ndarray, int]:
    """The keys of a batch, shuffled, and how many keys are known after it."""
    old = min(stream.batch if stream.three else int(stream.batch * stream.updated), known)
    new = 0 if stream.three else stream.batch - old
    hit = np.empty(0, np.int64)
    while len(hit) < old:
        draw = chance.random(old)
        drawn = known - 1 - (known * draw**_SKEW).astype(np.int64) if stream.keys == "recent" else (known * draw).astype(np.int64)
        hit = np.unique(np.concatenate([hit, drawn]))
    hit = chance.permutation(hit)[:old]
    return chance.permutation(np.concatenate([hit, np.arange(known, known + new)])), known + new


def _write_all(folder: Path, ids: np.ndarray, versions: np.ndarray, make) -> None:
    """Every key as of its version, in key order."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(ids), _PART_ROWS)):
        part = ids[start : start + _PART_ROWS]
        _write_file(folder / f"part-{number:04}.parquet", make(part, versions[part]))


def _write(folder: Path, rows: pa.Table) -> None:
    folder.mkdir(parents=True)
    files = _FILES if rows.num_rows > _TINY_ROWS else 1
    step = -(-rows.num_rows // files)
    for number in range(files):
        _write_file(folder / f"part-{number:04}.parquet", rows.slice(number * step, step))


def _write_file(path: Path, rows: pa.Table) -> None:
    """As Spark and all the peers write: decimals of up to 18 digits as integers."""
    pq.write_table(rows, path, compression="zstd", compression_level=1, store_decimal_as_integer=True)


def _totals(folder: Path, columns: Sequence[str]) -> list[int]:
    """What `read.totals` must answer: count, and sums of whole numbers."""
    rows = pq.read_table(folder, columns=list(columns))
    return [rows.num_rows, *map(_sum, rows.columns)]


def _sum(column: pa.ChunkedArray) -> int:
    return int((pc.sum(column).as_py() or 0) * 10 ** (column.type.scale if pa.types.is_decimal(column.type) else 0))


def _patched(make: Make, ids: np.ndarray, version: np.ndarray, three: np.ndarray) -> pa.Table:
    """Wide rows of which three columns are of another version."""
    rows, newer = make(ids, version), make(ids, three)
    for name in THREE:
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), newer[name])
    return rows
