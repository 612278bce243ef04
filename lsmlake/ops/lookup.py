"""Reading side of lookup: which rows of older files hold the given keys, where they stand and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket, DataFile
from lsmlake.format.schema import Schema
from lsmlake.lsm import lookup
from lsmlake.store.data_reader import Chunk, DataReader
from lsmlake.store.metadata import Metadata

_FEW_ROWS = 1 << 12
_KEYS_AT_ONCE = 1 << 22
_ROWS_AT_ONCE = 1 << 18


class Hits(NamedTuple):
    """Rows of one file whose key was asked for, dead ones included: `keys`, row numbers of the keys asked for, stand at
    `positions` of the file. Both int64, ascending."""

    keys: np.ndarray
    positions: np.ndarray

    def where(self, mask: np.ndarray) -> Hits:
        return Hits(self.keys[mask], self.positions[mask])


def find(
    meta: Metadata, schema: Schema, bucket: Bucket, keys: pa.Table, files: Sequence[DataFile], *, repeats: bool = False
) -> dict[str, Hits]:
    """File name -> hits of `keys` in it; files without a hit are left out.

    `keys`: the key columns, ascending, unique. `repeats`: a file may hold several rows of a key. Reads the key columns of the row
    groups that can hold one of them, nothing else.
    """
    found = {}
    for file, (start, stop) in zip(files, lookup.slices(keys, files), strict=True):
        if start == stop:
            continue
        hits = _find_in(meta, schema, bucket, keys.slice(start, stop - start), file, repeats)
        if len(hits.positions):
            found[file.name] = Hits(hits.keys + start, hits.positions)
    return found


def _find_in(meta: Metadata, schema: Schema, bucket: Bucket, keys: pa.Table, file: DataFile, repeats: bool) -> Hits:
    rows, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for chunk in _keys(meta, schema, bucket, keys, file):
        of_keys, of_chunk = lookup.find(keys, chunk.table, repeats=repeats)
        rows.append(of_keys)
        positions.append(of_chunk + chunk.start)
    return Hits(np.concatenate(rows), np.concatenate(positions))


def _keys(meta: Metadata, schema: Schema, bucket: Bucket, wanted: pa.Table, file: DataFile) -> Iterator[Chunk]:
    """The key columns of `file` where it can hold one of `wanted`. Those of a small file, which every small batch asks again,
    are remembered."""
    path = meta.paths.data(bucket, file.name)
    if file.rows <= _FEW_ROWS:
        read = partial(_whole, meta, schema, path, file)
        yield from meta.cache.get(f"{path}#keys of schema {schema.id}", read)
        return
    with DataReader(meta.env, path, file, schema) as reader:
        low, high, _ = reader.group_bounds(schema.key[0])
        yield from reader.chunks(schema.key, lookup.groups(wanted, low, high).tolist(), rows=_KEYS_AT_ONCE)


def _whole(meta: Metadata, schema: Schema, path: str, file: DataFile) -> list[Chunk]:
    with DataReader(meta.env, path, file, schema) as reader:
        return list(reader.chunks(schema.key, rows=_KEYS_AT_ONCE))


def fetch(
    meta: Metadata, schema: Schema, bucket: Bucket, file: DataFile, positions: np.ndarray, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The rows at `positions` (ascending) in order, some at a time. Reads the row groups they lie in."""
    if not len(positions):
        return
    with DataReader(meta.env, meta.paths.data(bucket, file.name), file, schema) as reader:
        groups = np.unique(np.searchsorted(reader.starts, positions, side="right") - 1)
        for chunk in reader.chunks(columns, groups.tolist(), rows=_ROWS_AT_ONCE):
            first, last = np.searchsorted(positions, [chunk.start, chunk.start + chunk.table.num_rows])
            yield chunk.table.take(pa.array(positions[first:last] - chunk.start))
