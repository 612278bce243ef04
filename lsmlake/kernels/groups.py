"""The rows of every key side by side, oldest first: what all merge rules begin with.

One sort by key does it. Rows stand in order of arrival before it - runs oldest first, a batch as given - and equal keys keep
that. A sequence is looked at only among rows of one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_DISORDER = 0.01  # rows below the one before them; of random keys half are


class Groups(NamedTuple):
    """`rows`: row numbers of a table by (bucket code, key, age). `starts`: the place in `rows` where each key begins, ascending
    from 0, none empty."""

    rows: np.ndarray
    starts: np.ndarray

    @property
    def unique(self) -> bool:
        """Whether every key has one row."""
        return len(self.starts) == len(self.rows)

    @property
    def last(self) -> np.ndarray:
        """The row number of the newest row of every key."""
        return self.rows if self.unique else self.rows[np.append(self.starts[1:], len(self.rows)) - 1]

    @property
    def first(self) -> np.ndarray:
        """The row number of the oldest row of every key."""
        return self.rows if self.unique else self.rows[self.starts]

    def part(self, first: int, last: int) -> Groups:
        """The keys number `first` up to, not including, `last`."""
        start = self.starts[first]
        stop = self.starts[last] if last < len(self.starts) else len(self.rows)
        return Groups(self.rows[start:stop], self.starts[first:last] - start)


def group(keys: np.ndarray, order: Sequence[np.ndarray] = (), codes: np.ndarray | None = None) -> Groups:
    """Group rows by (code, key); in a group by `order`, arrays the most significant first, then as they stand.

    O(rows log rows) compares at most.
    """
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
    """Row numbers by key, those of equal keys ascending.

    NumPy's stable sort gallops over what is sorted already, such as runs. Of keys in no order its default sort takes a third of
    the time, as it compares many at once; it leaves equal keys anyhow, so these are put in order afterwards.
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
    """The rows of every group sorted by `order`; only rows that share their key are looked at."""
    shared = ~first
    shared[:-1] |= ~first[1:]
    among = rows[shared]
    sorted_by = np.lexsort((*(each[among] for each in reversed(order)), np.cumsum(first)[shared]))
    rows = rows.copy()
    rows[shared] = among[sorted_by]
    return rows


def _narrow(codes: np.ndarray) -> np.ndarray:
    """16-bit integers sort by radix."""
    return codes.astype(np.uint16) if codes.max() < 1 << 16 else codes
