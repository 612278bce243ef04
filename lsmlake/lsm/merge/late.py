"""Finds late rows and removals of keys, for rules that apply rows one at a time in order of arrival.

All arrays have one element per row: the rows of a key are neighbours in order of arrival, `starts` holds the first row of each
key, and a *place* is an index into these arrays. A row is late if its sequence is smaller than the greatest sequence applied
before it. All functions work on whole arrays; only `last_removals` loops, once per removal that no later one replaces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lsmlake.kernels import segments


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
        found = segments.last_where(removes(places, key_starts) & deletes[places], key_starts, len(places))
        removed = np.flatnonzero(found >= 0)
        keys = number[places[key_starts[removed]]]
        last[keys] = places[found[removed]]
        again = np.zeros(len(starts), bool)
        again[keys] = True
        places = places[again[number[places]] & (places > last[number[places]])]
    return last
