"""Reading side of lookup: which rows of older files hold the given keys, where they stand and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format.files import DataFile
from lsmlake.lsm import lookup
from lsmlake.schema.schema import Schema
from lsmlake.store.data_reader import DataReader
from lsmlake.store.metadata import Metadata

_FEW_ROWS = 1 << 12  # of a small file
_KEYS_AT_ONCE = 1 << 22
_ROWS_AT_ONCE = 1 << 18


class Hits(NamedTuple):
    """Rows of one file whose key was asked for, dead ones included: `keys`, row numbers of the keys asked for, stand at
    `positions` of the file. Both int64, ascending."""

    keys: np.ndarray
    positions: np.ndarray

    def where(self, mask: np.ndarray) -> Hits:
        return Hits(self.keys[mask], self.positions[mask])


def find(meta: Metadata, schema: Schema, keys: pa.Table, files: Sequence[DataFile], *, repeats: bool = False) -> dict[str, Hits]:
    """File name -> hits of `keys` in it; files without a hit are left out.

    `keys`: the key columns, ascending, unique. `repeats`: a file with rows of another kind than +I may hold several rows of a
    key. Reads the key columns of the row groups that can hold one of them, nothing else.
    """
    spans = zip(files, lookup.slices(keys, files), strict=True)
    reached = {file.name: (file, start, stop) for file, (start, stop) in spans if start < stop}
    found = _find_among(meta, schema, keys, [file for file, _, _ in reached.values() if file.rows <= _FEW_ROWS])
    for name, (file, start, stop) in reached.items():
        if name not in found:
            hits = _find_in(meta, schema, keys.slice(start, stop - start), file, repeats and file.delete_rows > 0)
            found[name] = Hits(hits.keys + start, hits.positions)
    return {name: found[name] for name in reached if len(found[name].positions)}


def _find_in(meta: Metadata, schema: Schema, keys: pa.Table, file: DataFile, repeats: bool) -> Hits:
    rows, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with DataReader(meta.env, meta.paths.data(file), file, schema) as reader:
        low, high, _ = reader.group_bounds(schema.key[0])
        for chunk in reader.chunks(schema.key, lookup.groups(keys, low, high).tolist(), rows=_KEYS_AT_ONCE):
            of_keys, of_chunk = lookup.find(keys, chunk.table, repeats=repeats)
            rows.append(of_keys)
            positions.append(of_chunk + chunk.start)
    return Hits(np.concatenate(rows), np.concatenate(positions))


def _find_among(meta: Metadata, schema: Schema, keys: pa.Table, files: Sequence[DataFile]) -> dict[str, Hits]:
    """The hits in small files, found at once in all of them."""
    if not files:
        return {}
    stored = [_keys_of(meta, schema, file) for file in files]
    of_keys, rows = lookup.find(keys, pa.concat_tables(stored), repeats=True)
    starts = np.cumsum([0, *(table.num_rows for table in stored[:-1])])
    cuts = np.searchsorted(rows, starts[1:])
    parts = zip(files, np.split(of_keys, cuts), np.split(rows, cuts), starts, strict=True)
    return {file.name: Hits(own, there - start) for file, own, there, start in parts}


def _keys_of(meta: Metadata, schema: Schema, file: DataFile) -> pa.Table:
    """The key columns of a small file: every batch asks for them, so they are remembered."""
    path = meta.paths.data(file)

    def read() -> pa.Table:
        with DataReader(meta.env, path, file, schema) as reader:
            return reader.read(range(reader.groups), schema.key)

    return meta.cache.get(_remembered(path, schema), read)


def remember(meta: Metadata, schema: Schema, file: DataFile, keys: pa.Table) -> None:
    """The key columns of a file just written, as they will be read: if it is small, they need not be."""
    if file.rows <= _FEW_ROWS:
        meta.cache.get(_remembered(meta.paths.data(file), schema), lambda: keys)


def _remembered(path: str, schema: Schema) -> str:
    return f"{path}#keys of schema {schema.id}"


def fetch(meta: Metadata, schema: Schema, file: DataFile, positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows at `positions` (ascending) in order, some at a time. Reads the row groups they lie in."""
    if not len(positions):
        return
    with DataReader(meta.env, meta.paths.data(file), file, schema) as reader:
        groups = np.unique(np.searchsorted(reader.starts, positions, side="right") - 1)
        for chunk in reader.chunks(columns, groups.tolist(), rows=_ROWS_AT_ONCE):
            first, last = np.searchsorted(positions, [chunk.start, chunk.start + chunk.table.num_rows])
            yield chunk.table.take(pa.array(positions[first:last] - chunk.start))
