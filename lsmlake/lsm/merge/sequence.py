"""The user's order of the rows of a key: sequence columns, compared one after the other; a null is older than any value.

Rows whose sequences are equal go by arrival. The direction concerns values only: a null is the oldest either way.
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
    """`columns` in order of significance, none = by arrival alone. `descending`: the smaller value is the newer."""

    columns: tuple[str, ...] = ()
    descending: bool = False

    def __bool__(self) -> bool:
        return bool(self.columns)

    def order(self, rows: pa.Table) -> list[np.ndarray]:
        """Arrays, a value a row, that order the rows of this table by sequence: the most significant first, greater = newer."""
        return [array for name in self.columns for array in _arrays(rows[name], self.descending)]

    def given(self, rows: pa.Table) -> np.ndarray:
        """True where at least one of the columns has a value."""
        found = np.zeros(rows.num_rows, bool)
        for name in self.columns:
            found |= np.asarray(rows[name].is_valid())
        return found

    def ranks(self, rows: pa.Table, *, every: bool = False) -> np.ndarray:
        """One uint64 a row that orders the rows that are `given`; of the others it means something only if asked for `every`."""
        order = self.order(rows)
        if len(self.columns) == 1 and order[-1].dtype == np.uint64:
            only_nulls_apart = len(order) == 2 and rows[self.columns[0]].null_count > 0
            if len(order) == 1 or (only_nulls_apart and not every):
                return order[-1]
        return _dense(order)

    def stand(self, newer: pa.Table, older: pa.Table) -> np.ndarray:
        """Row by row: whether the row that arrived later wins, that is, is not older by sequence. Tables of one length."""
        count = newer.num_rows
        loses, equal = np.zeros(count, bool), np.ones(count, bool)
        for array in self.order(pa.concat_tables([newer.select(self.columns), older.select(self.columns)])):
            mine, other = array[:count], array[count:]
            loses |= equal & (mine < other)
            equal &= mine == other
        return ~loses


def newest_places(ranks: np.ndarray, starts: np.ndarray, given: np.ndarray | None = None) -> np.ndarray:
    """The place of every group with the greatest rank, the last of several; of those `given`, -1 where none is."""
    counted = ranks if given is None else np.where(given, ranks, 0)
    best = ranks == np.repeat(np.maximum.reduceat(counted, starts), lengths(starts, len(ranks)))
    return last_where(both(best, given), starts, len(ranks))


def _dense(order: list[np.ndarray]) -> np.ndarray:
    """The arrays of `order` as one."""
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
