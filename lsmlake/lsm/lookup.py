"""Lookup: where in older files do given keys stand? By sorted search, since files are sorted by key.

1. `slices`: which part of the (sorted) keys falls into the key range of each file.
2. `groups`: which row groups of a file can hold one of them, by the bounds of the first key column.
3. `find`: binary search of the keys in the key columns of those row groups.

Cost: reading the key columns of the row groups that remain, and O(keys log rows); nothing per row in Python.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.format.files import DataFile
from lsmlake.kernels.keys import comparable


def slices(keys: pa.Table, files: Sequence[DataFile]) -> list[tuple[int, int]]:
    """For every file the half-open range of rows of `keys` (ascending) within its [min_key, max_key]."""
    if not files:
        return []
    low = pa.table(
        [
            pa.array(column, field.type)
            for column, field in zip(zip(*(f.min_key for f in files), strict=True), keys.schema, strict=True)
        ],
        schema=keys.schema,
    )
    high = pa.table(
        [
            pa.array(column, field.type)
            for column, field in zip(zip(*(f.max_key for f in files), strict=True), keys.schema, strict=True)
        ],
        schema=keys.schema,
    )
    wanted, lows, highs = comparable([keys, low, high])
    return list(
        zip(np.searchsorted(wanted, lows, "left").tolist(), np.searchsorted(wanted, highs, "right").tolist(), strict=True)
    )


def groups(keys: pa.Table, low: pa.Array, high: pa.Array) -> np.ndarray:
    """Numbers of the row groups whose bounds [low, high] of the first key column hold one of `keys`; null bound = may."""
    known = np.asarray(low.is_valid()) & np.asarray(high.is_valid())
    may = ~known
    if known.any():
        first, lows, highs = comparable([_one(keys.column(0)), _one(low.drop_null()), _one(high.drop_null())])
        may[known] = np.searchsorted(first, lows, "left") < np.searchsorted(first, highs, "right")
    return np.flatnonzero(may)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table([column], names=["key"])


def find(keys: pa.Table, stored: pa.Table, *, repeats: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(rows of `keys`, rows of `stored`) that are equal, ascending. Both ascending; `keys` unique, `stored` unique unless it
    `repeats`."""
    if not keys.num_rows or not stored.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wanted, there = comparable([keys, stored])
    if repeats:
        at = np.searchsorted(wanted, there)
        at[at == len(wanted)] = 0
        hit = wanted[at] == there
        return at[hit], np.flatnonzero(hit)
    at = np.searchsorted(there, wanted)
    at[at == len(there)] = 0
    hit = there[at] == wanted
    return np.flatnonzero(hit), at[hit]
