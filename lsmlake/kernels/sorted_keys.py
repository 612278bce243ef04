"""Finds single keys in key columns that stay in memory.

`kernels.keys` encodes all keys each time, to compare many keys at once. Here the stored keys are encoded once: integers, dates
and timestamps become their distances from the smallest value, in as few bytes as possible; other types stay Arrow arrays. A key
is found column by column, by binary search. Unsorted keys are sorted first, together with their row numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.keys import comparable
from lsmlake.types.type_table import as_integers, is_time, of_integers

_NARROW = np.uint8, np.uint16, np.uint32


class Key(NamedTuple):
    """A key as Python values of its columns, and as `SortedKeys` searches it: dates and timestamps as integers."""

    values: tuple
    searched: tuple


def searched(keys: pa.Table) -> list[Key]:
    """Returns the rows of a table of key columns."""
    columns = [column.to_pylist() for column in keys.columns]
    numbers = [
        _integers(column).to_pylist() if is_time(column.type) else values
        for column, values in zip(keys.columns, columns, strict=True)
    ]
    return [Key(*both) for both in zip(zip(*columns, strict=True), zip(*numbers, strict=True), strict=True)]


class SortedKeys:
    """The rows of `keys`, which ascend and have no nulls and no NaN."""

    def __init__(self, keys: pa.Table) -> None:
        self.rows = keys.num_rows
        self.columns = list(map(_column, keys.columns))

    def find(self, key: tuple) -> range:
        """Returns the rows with this key."""
        low, high = 0, self.rows
        for column, value in zip(self.columns, key, strict=True):
            low, high = column.within(value, low, high)
        return range(low, high)

    def take(self, rows: Sequence[int]) -> list[pa.Array]:
        """Returns the key columns of some rows."""
        return [column.take(np.asarray(rows, np.int64)) for column in self.columns]

    @property
    def bytes(self) -> int:
        return sum(column.values.nbytes for column in self.columns)


class ShuffledKeys:
    """The rows of `keys`, in any order; they have no nulls and no NaN."""

    def __init__(self, keys: pa.Table) -> None:
        self.order = np.argsort(comparable([keys])[0], kind="stable")
        self.sorted = SortedKeys(keys.take(pa.array(self.order)))

    def find(self, key: tuple) -> Sequence[int]:
        """Returns the rows with this key, ascending."""
        places = self.sorted.find(key)
        return self.order[places.start : places.stop].tolist()

    def take(self, rows: Sequence[int]) -> list[pa.Array]:
        """Returns the key columns of some rows."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(places))
        return self.sorted.take(places[np.asarray(rows, np.int64)])

    @property
    def bytes(self) -> int:
        return self.order.nbytes + self.sorted.bytes


class _Numbers(NamedTuple):
    """Integers: their distances from `origin`."""

    values: np.ndarray
    least: int
    greatest: int
    origin: int
    type: pa.DataType

    def take(self, rows: np.ndarray) -> pa.Array:
        numbers = pa.array(self.values[rows].astype(np.int64) + self.origin)
        return of_integers(numbers, self.type)

    def within(self, value: int, low: int, high: int) -> tuple[int, int]:
        if not self.least <= value <= self.greatest:
            return low, low
        distance, part = self.values.dtype.type(value - self.origin), self.values[low:high]
        return low + int(part.searchsorted(distance)), low + int(part.searchsorted(distance, "right"))


class _Others(NamedTuple):
    values: pa.Array

    def take(self, rows: np.ndarray) -> pa.Array:
        return self.values.take(pa.array(rows))

    def within(self, value: object, low: int, high: int) -> tuple[int, int]:
        def at(row: int) -> object:
            return self.values[row].as_py()

        low = bisect_left(range(high), value, low, high, key=at)
        return low, low if low == high or at(low) != value else bisect_right(range(high), value, low, high, key=at)


def _column(column: pa.ChunkedArray) -> _Numbers | _Others:
    if not len(column) or not (pa.types.is_integer(column.type) or is_time(column.type)):
        return _Others(pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0))
    values = _integers(column)
    least, greatest = (side.as_py() for side in pc.min_max(values).values())
    numbers = values.to_numpy()
    for narrow in _NARROW:
        if greatest - least <= np.iinfo(narrow).max:
            return _Numbers((numbers - least).astype(narrow), least, greatest, least, column.type)
    return _Numbers(np.array(numbers), least, greatest, 0, column.type)


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers, dates and timestamps as 64-bit integers."""
    return as_integers(column).cast(pa.int64())
