"""The rows all peers get, as Parquet made once, and what a table must hold after them.

A stream is a load of `rows` keys 0, 1, ..., then batches: upserts of which a share hits older keys (uniformly, or mostly recent
ones) and the rest are new keys, or deletes of keys that are there. No key comes twice in a batch.

A row is a pure function of its key and version (`bench.rows`), so the end is known without any table: NumPy keeps the newest
version of every key, and writes the rows of those keys and versions as the plain Parquet to compare with.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import rows as orders_of

KEY = orders_of.KEY
NARROW, WIDE = 12, 200
THREE = ("customer_0", "quantity_0", "weight_0")
"""The columns of a wide row that are updated alone."""
_FILES = 2  # of a batch: as many tasks read it
_TINY_ROWS = 10_000
_PART_ROWS = 500_000
_GONE = -1
_SKEW = 6  # power of a uniform number: half of the updates hit the newest 1.6 % of the keys
_WIDE_VERSIONS = 32


@dataclass(frozen=True)
class Stream:
    """`keys`: "uniform" or "recent". `deletes`: batches of deletes after those of upserts, together `deleted` of the keys.
    `three`: the upserts carry the key and three columns of a wide row only, of keys that are there."""

    rows: int
    batch: int
    batches: int
    keys: str = "uniform"
    columns: int = NARROW
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

    @cached_property
    def schema(self) -> pa.Schema:
        return pq.read_schema(next(self.load.glob("*.parquet")))


def prepare(home: Path, stream: Stream) -> Data:
    """The data of the stream, made if it is not there yet."""
    folder = home / "data" / stream.name
    if not (folder / "facts.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, stream)
    return Data(folder)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# -- making -----------------------------------------------------------------------------------------------------------


def _make(folder: Path, stream: Stream) -> None:
    chance = np.random.default_rng(7)
    make = orders_of.orders if stream.columns == NARROW else wide
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
    final = (lambda ids, version: _patched(ids, whole[ids], version)) if stream.three else make
    _write_all(folder / "final", alive, versions, final)
    expected = _totals(folder / "final")
    written = [_totals(path) for path in (folder / "load", *sorted(folder.glob("batch-*")))] if not stream.three else [expected]
    facts = {"expected": expected, "summed": [expected[0], *map(sum, zip(*(sums for _, *sums in written), strict=True))]}
    facts |= {"batch_rows": stream.batch * stream.batches, "known": known}
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
    pq.write_table(rows, path, compression="zstd", compression_level=1)


def _totals(folder: Path) -> list[int]:
    """What `read.totals` must answer: count, and sums of whole numbers."""
    rows = pq.read_table(folder, columns=totals_of(pq.read_schema(next(folder.glob("*.parquet")))))
    customer, quantity, amount = (pc.sum(column).as_py() or 0 for column in rows.columns)
    return [rows.num_rows, customer, quantity, int(amount * 100)]


def totals_of(schema: pa.Schema) -> list[str]:
    """The columns that are summed to tell whether a table is right."""
    return [next(name for name in (word, f"{word}_0") if name in schema.names) for word in ("customer", "quantity", "amount")]


# -- wide rows --------------------------------------------------------------------------------------------------------


def wide(ids: np.ndarray, version: int | np.ndarray) -> pa.Table:
    """Rows of 200 columns: the key, then the columns of orders again and again, `customer_0`, ..., each time of other draws."""
    key, columns = pa.array(ids, pa.int64()), {}
    for block in range(-(-(WIDE - 1) // (NARROW - 1))):
        rows = orders_of.orders(ids, version * _WIDE_VERSIONS + block)
        columns |= {f"{name}_{block}": rows[name] for name in rows.column_names if name != KEY}
    names = list(columns)[: WIDE - 1]
    fields = [orders_of.SCHEMA.field(KEY), *(pa.field(name, columns[name].type) for name in names)]
    return pa.table([key, *(columns[name] for name in names)], schema=pa.schema(fields))


def _patched(ids: np.ndarray, version: np.ndarray, three: np.ndarray) -> pa.Table:
    """Wide rows of which three columns are of another version."""
    rows, newer = wide(ids, version), wide(ids, three)
    for name in THREE:
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), newer[name])
    return rows
