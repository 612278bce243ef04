"""Sequence columns: the user-defined order of the rows of a key. Columns are compared one after the other.

A null is older than any value, in both sort directions. Of rows with equal sequences the one that arrived last is newer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        found = np.zeros(rows.num_rows, bool)
        for name in self.columns:
            found |= np.asarray(rows[name].is_valid())
        return found

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
    found = np.empty(len(rows), np.uint64)
    found[rows] = np.cumsum(changes)
    return found


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
