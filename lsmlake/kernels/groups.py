"""Rows by key, oldest first: the first step of all merge rules. `group` orders row numbers, `gather` takes the rows.

Grouping is a stable sort by key. The input is in order of arrival (runs oldest first, a batch in input order), so the rows of
each key are too. Additional sort keys are only compared among rows of one key.

Rows are taken column by column, in parallel if there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.beside import Threads
from lsmlake.kernels.keys import joined

_DISORDER = 0.01  # share of rows with a smaller key than the row before; 0.5 for random keys


class Groups(NamedTuple):
    """`rows`: row numbers of a table, by (bucket code, key, age). `starts`: the index in `rows` of the first row of each key,
    ascending from 0; no group is empty."""

    rows: np.ndarray
    starts: np.ndarray

    @property
    def unique(self) -> bool:
        """Whether each key has one row."""
        return len(self.starts) == len(self.rows)

    @property
    def last(self) -> np.ndarray:
        """The row number of the newest row of each key."""
        return self.rows if self.unique else self.rows[np.append(self.starts[1:], len(self.rows)) - 1]

    @property
    def first(self) -> np.ndarray:
        """The row number of the oldest row of each key."""
        return self.rows if self.unique else self.rows[self.starts]

    def part(self, first: int, last: int) -> Groups:
        """Returns the groups [first, last)."""
        start = self.starts[first]
        stop = self.starts[last] if last < len(self.starts) else len(self.rows)
        return Groups(self.rows[start:stop], self.starts[first:last] - start)


def group(keys: np.ndarray, order: Sequence[np.ndarray] = (), codes: np.ndarray | None = None) -> Groups:
    """Groups rows by (code, key). The rows of a group are sorted by `order` (most significant array first), then by row
    number."""
    rows = _by_key(keys)
    if codes is not None and codes.any():
        rows = rows[np.argsort(_narrow(codes)[rows], kind="stable")]
    ordered = keys[rows]
    first = np.ones(len(rows), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    if codes is not None:
        first[1:] |= codes[rows[1:]] != codes[rows[:-1]]
    if order and not first.all():
        rows = _by_age(rows, first, order)
    return Groups(rows, np.flatnonzero(first))


def _by_key(keys: np.ndarray) -> np.ndarray:
    """Returns row numbers by key; ascending for equal keys.

    NumPy's stable sort is fast for input that is mostly sorted, such as runs. For random keys its default sort, which uses SIMD,
    takes a third of the time; it does not preserve the order of equal keys, so these are sorted afterwards.
    """
    if keys.dtype != np.uint64 or np.count_nonzero(keys[1:] < keys[:-1]) < len(keys) * _DISORDER:
        return np.argsort(keys, kind="stable")
    rows = np.argsort(keys)
    ordered = keys[rows]
    repeats = ordered[1:] == ordered[:-1]
    if repeats.any():
        numbers = np.cumsum(np.append(True, ~repeats)) * len(keys)  # of distinct keys, so far apart that a row fits between
        rows = np.sort(numbers + rows) - numbers
    return rows


def _by_age(rows: np.ndarray, first: np.ndarray, order: Sequence[np.ndarray]) -> np.ndarray:
    """Sorts the rows of each group by `order`; skips groups of one row."""
    shared = ~first
    shared[:-1] |= ~first[1:]
    among = rows[shared]
    sorted_by = np.lexsort((*(each[among] for each in reversed(order)), np.cumsum(first)[shared]))
    rows = rows.copy()
    rows[shared] = among[sorted_by]
    return rows


def _narrow(codes: np.ndarray) -> np.ndarray:
    """Converts codes to 16 bits if they fit: NumPy sorts these by radix."""
    return codes.astype(np.uint16) if codes.max() < 1 << 16 else codes


# -- gathering --------------------------------------------------------------------------------------------------------


Column = TypeVar("Column")
_ROWS_WORTH_A_TASK = 1 << 12


def by_column(make: Callable[[Column], pa.Array], columns: Iterable[Column], rows: int, pool: Threads | None) -> list[pa.Array]:
    """Applies `make` to each column, in parallel if there is a pool and enough `rows` to justify a task per column."""
    return list(pool.map(make, columns)) if pool and rows >= _ROWS_WORTH_A_TASK else [make(column) for column in columns]


def gather(table: pa.Table, rows: np.ndarray, pool: Threads | None = None) -> pa.Table:
    """Returns `table.take(rows)`, one task per column if there is a pool. Joins the chunks that have the rows first: Arrow would
    look up the chunk of each row."""
    if len(rows) and any(column.num_chunks > 1 for column in table.columns):
        first, last = int(rows.min()), int(rows.max())
        table, rows = table.slice(first, last - first + 1), rows - first
    indices = pa.array(rows)
    take = lambda column: pc.take(joined(column), indices, boundscheck=False)  # noqa: E731
    return pa.table(by_column(take, table.columns, len(rows), pool), schema=table.schema)
