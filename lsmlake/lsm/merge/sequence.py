"""Sequence columns: the user-defined order of the rows of a key; and the rows that are late by it. Columns are compared one after
the other.

A null is older than any value, in both sort directions. Of rows with equal sequences the one that arrived last is newer.

Rules that apply rows one at a time, in order of arrival, find late rows and removals of keys here. All arrays have one element
per row: the rows of a key are neighbours in order of arrival, `starts` holds the first row of each key, and a *place* is an index
into these arrays. A row is late if its sequence is smaller than the greatest sequence applied before it. All functions work on
whole arrays; only `last_removals` loops, once per removal that no later one replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import segments
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import both, last_where, lengths


@dataclass(frozen=True)
class SequenceFields:
    """`columns` in order of significance, empty = order of arrival only. `descending`: the smaller value is newer."""

    columns: tuple[str, ...] = ()
    descending: bool = False

    def __bool__(self) -> bool:
        return bool(self.columns)

    def order(self, rows: pa.Table) -> list[np.ndarray]:
        """Returns sort keys of the rows of one table, the most significant array first. A greater value is newer."""
        return [array for name in self.columns for array in _arrays(rows[name], self.descending)]

    def any_valid(self, rows: pa.Table) -> np.ndarray:
        """Flags the rows in which at least one sequence column is not null."""
        valid = np.zeros(rows.num_rows, bool)
        for name in self.columns:
            valid |= np.asarray(rows[name].is_valid())
        return valid

    def ranks(self, rows: pa.Table, *, every: bool = False) -> np.ndarray:
        """Returns one uint64 per row that orders the rows, greater = newer. Without `every`, ranks of rows whose sequence columns
        are all null are undefined."""
        order = self.order(rows)
        if len(self.columns) == 1 and order[-1].dtype == np.uint64:
            only_nulls_apart = len(order) == 2 and rows[self.columns[0]].null_count > 0
            if len(order) == 1 or (only_nulls_apart and not every):
                return order[-1]
        return _dense(order)

    def on_time(self, newer: pa.Table, older: pa.Table) -> np.ndarray:
        """Flags the rows of `newer`, which arrived later, whose sequence is not smaller than that of the same row of `older`."""
        count = newer.num_rows
        late, equal = np.zeros(count, bool), np.ones(count, bool)
        for array in self.order(pa.concat_tables([newer.select(self.columns), older.select(self.columns)])):
            new, old = array[:count], array[count:]
            late |= equal & (new < old)
            equal &= new == old
        return ~late


def newest_places(ranks: np.ndarray, starts: np.ndarray, eligible: np.ndarray | None = None) -> np.ndarray:
    """Returns per group the place of the greatest rank, the last one of equals, among the `eligible` rows; -1 if none is."""
    counted = ranks if eligible is None else np.where(eligible, ranks, 0)
    best = ranks == np.repeat(np.maximum.reduceat(counted, starts), lengths(starts, len(ranks)))
    return last_where(both(best, eligible), starts, len(ranks))


def _dense(order: list[np.ndarray]) -> np.ndarray:
    """Combines the sort keys of `order` into one array of dense ranks."""
    rows = np.lexsort(order[::-1])
    changes = np.zeros(len(rows), bool)
    for array in order:
        changes[1:] |= array[rows[1:]] != array[rows[:-1]]
    ranks = np.empty(len(rows), np.uint64)
    ranks[rows] = np.cumsum(changes)
    return ranks


def _arrays(column: pa.ChunkedArray, descending: bool) -> list[np.ndarray]:
    valid = np.asarray(column.is_valid())
    flags = [] if valid.all() else [valid]
    if pa.types.is_floating(column.type):
        nan = np.asarray(pc.fill_null(pc.is_nan(column), False))  # the greatest number, as in Spark
        if nan.any():
            flags.append(nan ^ descending)
            column = pc.if_else(pa.array(nan), pa.scalar(0.0, column.type), column)
    (values,) = comparable([pa.table([column.drop_null()], names=["value"])])
    if descending:
        values = (
            ~values
            if values.dtype == np.uint64
            else np.uint64(len(values)) - np.unique(values, return_inverse=True)[1].astype(np.uint64)
        )
    if valid.all():
        return [*flags, values]
    filled = np.zeros(len(valid), values.dtype)
    filled[valid] = values
    return [*flags, filled]


# -- late rows --------------------------------------------------------------------------------------------------------


def late_rows(
    ranks: np.ndarray, starts: np.ndarray, advances: np.ndarray | None = None, loses_ties: np.ndarray | None = None
) -> np.ndarray | None:
    """Flags the late rows: their rank is smaller than the greatest rank before them in their key. None: no row is late.

    Args:
        ranks: The sequences as numbers, greater = newer.
        starts: The first row of each key.
        advances: Flags the rows whose rank applies to later rows (None: all).
        loses_ties: Flags the rows that are late even if their rank equals the greatest one before them.
    """
    descends = np.zeros(len(ranks), bool)
    np.less(ranks[1:], ranks[:-1], out=descends[1:])
    if loses_ties is not None:
        descends |= loses_ties
    descends[starts] = False
    keys = segments.anywhere(descends, starts)
    if not keys.any():
        return None
    places = np.flatnonzero(np.repeat(keys, segments.lengths(starts, len(ranks))))
    number = segments.numbers(starts, len(ranks))[places]
    steps = 2 * np.unique(ranks[places], return_inverse=True)[1] + 2  # a lost tie is half a step
    span = number * (int(steps.max()) + 1)
    reached = np.maximum.accumulate(span + (steps if advances is None else np.where(advances[places], steps, 0)))
    before = span.copy()
    before[1:] = np.maximum(reached[:-1], span[1:])  # of the same key only
    late = np.zeros(len(ranks), bool)
    late[places] = span + steps - (0 if loses_ties is None else loses_ties[places]) < before
    return late if late.any() else None


def on_time_rows(late: np.ndarray | None, rows: int) -> np.ndarray:
    """Inverts the result of `late_rows`; always returns an array."""
    return np.ones(rows, bool) if late is None else ~late


def from_first_add(adds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Flags the rows of each key from its first added row on. Retractions before it have no effect, since no row exists yet."""
    count = len(adds)
    first = segments.first_where(adds, starts, count)
    return np.arange(count) >= np.repeat(np.where(first < 0, count, first), segments.lengths(starts, count))


RemovalTest = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(places, the start of each key among them) -> flags the rows that remove their key if no row before them does."""


def last_removals(deletes: np.ndarray, adds: np.ndarray, starts: np.ndarray, removes: RemovalTest) -> np.ndarray:
    """Returns per key the place of the last row that removes the key, -1 if none does.

    Only `deletes` remove a key. Rows before the first of `adds` in their key have no effect.

    A removal also removes the sequence: the rows after it are applied as to a new key. A row that removes its key when earlier
    removals are ignored also does so when they are applied. So the loop finds the last such row, then continues with the rows
    after it.
    """
    last = np.full(len(starts), -1)
    has_delete = segments.anywhere(deletes, starts)
    number = segments.numbers(starts, len(deletes))
    places = np.flatnonzero(has_delete[number])
    while len(places):
        key_starts = segments.of_sorted(number[places])
        places = places[from_first_add(adds[places], key_starts)]
        if not len(places):
            break
        key_starts = segments.of_sorted(number[places])
        last_removing = segments.last_where(removes(places, key_starts) & deletes[places], key_starts, len(places))
        removed = np.flatnonzero(last_removing >= 0)
        keys = number[places[key_starts[removed]]]
        last[keys] = places[last_removing[removed]]
        again = np.zeros(len(starts), bool)
        again[keys] = True
        places = places[again[number[places]] & (places > last[number[places]])]
    return last
