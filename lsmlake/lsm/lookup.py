"""Lookup: finds the row positions of given keys in older files by binary search, because files are sorted by key.

1. `slices` returns, for each file, the part of the sorted keys that lies in its key range.
2. `groups` returns the row groups of a file that may hold one of the keys, by the bounds of the first key column.
3. `find` searches the key columns of those row groups.

Cost: one read of the key columns of those row groups, and O(keys log rows) comparisons; no Python loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lsmlake.format.data_files import DataFile
from lsmlake.kernels.keys import comparable, filter_of

Part = TypeVar("Part")


def slices(keys: pa.Table, files: Sequence[DataFile]) -> list[tuple[int, int]]:
    """Returns for each file the half-open range of rows of `keys` (ascending) inside its [min_key, max_key]."""
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
    """Returns the numbers of the row groups that may hold one of `keys`.

    `low` and `high` are inclusive bounds of the first key column; a row group with a null bound may hold any key.
    """
    bounded = np.asarray(low.is_valid()) & np.asarray(high.is_valid())
    may_match = ~bounded
    if bounded.any():
        first, lows, highs = comparable([_key_table(keys.column(0)), _key_table(low.drop_null()), _key_table(high.drop_null())])
        may_match[bounded] = np.searchsorted(first, lows, "left") < np.searchsorted(first, highs, "right")
    return np.flatnonzero(may_match)


def _key_table(column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table([column], names=["key"])


def find(keys: pa.Table, stored: pa.Table, *, repeats: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Returns (rows of `keys`, rows of `stored`) with equal keys, ascending. Both inputs ascend and hold each key once; with
    `repeats`, `stored` may hold a key several times."""
    if not keys.num_rows or not stored.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wanted, stored_keys = comparable([keys, stored])
    return common(wanted, stored_keys, repeats=repeats)


def common(wanted: np.ndarray, stored: np.ndarray, *, repeats: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """As `find`, for scalars from one call of `comparable`. With `repeats`, each scalar of `stored` is searched in `wanted`:
    O(stored log wanted)."""
    if not len(wanted) or not len(stored):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if repeats:
        at = np.searchsorted(wanted, stored)
        at[at == len(wanted)] = 0
        hit = wanted[at] == stored
        return at[hit], np.flatnonzero(hit)
    at = np.searchsorted(stored, wanted)
    at[at == len(stored)] = 0
    hit = stored[at] == wanted
    return np.flatnonzero(hit), at[hit]


def search_among(wanted: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns a function of `stored` that does the same as `common` with `repeats`, and filters by hash before the binary search.
    `wanted` ascends; `stored` need not."""
    may_match = filter_of(wanted)

    def search(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(may_match(stored))
        rows, hits = common(wanted, stored[places], repeats=True)
        return rows, places[hits]

    return search


def in_batches(parts: Iterable[Part], rows_of: Callable[[Part], int], least: int) -> Iterator[list[Part]]:
    """Joins successive parts to lists of at least `least` rows, but for the last list: a call of `comparable` takes long for few
    rows."""
    waiting: list[Part] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += rows_of(part)
        if rows >= least:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting
