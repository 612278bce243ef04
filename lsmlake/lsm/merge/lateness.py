"""Which rows of a key count, and which of them are late, when rows are applied one at a time in the order they arrived.

The rows of a key are *places*: neighbours in order of arrival, each key beginning at one of `starts`. A row is late if its
sequence is smaller than that of the row it is applied to, which is the greatest sequence applied before it. All functions work on
whole arrays; only `last_removals` takes a step for each removal that an even later removal does not hide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lsmlake.kernels import segments


def late_places(
    ranks: np.ndarray, starts: np.ndarray, raising: np.ndarray | None = None, loses_ties: np.ndarray | None = None
) -> np.ndarray | None:
    """Where a row is late: its rank is smaller than the greatest rank before it in its key. `None`: nowhere.

    `raising`: the rows whose rank counts for those after them (None: all). `loses_ties`: rows that are late even if their rank
    equals the greatest before them. O(rows) if the ranks of every key ascend, O(rows log rows) otherwise.
    """
    descends = np.zeros(len(ranks), bool)
    np.less(ranks[1:], ranks[:-1], out=descends[1:])
    if loses_ties is not None:
        descends |= loses_ties
    descends[starts] = False
    keys = segments.anywhere(descends, starts)
    if not keys.any():
        return None
    asked = np.flatnonzero(np.repeat(keys, segments.lengths(starts, len(ranks))))
    number = segments.numbers(starts, len(ranks))[asked]
    steps = 2 * np.unique(ranks[asked], return_inverse=True)[1] + 2  # a tie that is lost is half a step
    span = number * (int(steps.max()) + 1)
    reached = np.maximum.accumulate(span + (steps if raising is None else np.where(raising[asked], steps, 0)))
    before = span.copy()
    before[1:] = np.maximum(reached[:-1], span[1:])  # of the same key only
    late = np.zeros(len(ranks), bool)
    late[asked] = span + steps - (0 if loses_ties is None else loses_ties[asked]) < before
    return late if late.any() else None


def not_late(late: np.ndarray | None, rows: int) -> np.ndarray:
    """The opposite of what `late_places` found, as an array in any case."""
    return np.ones(rows, bool) if late is None else ~late


def after_first_add(adds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The rows from the first added one of every key on. What stands before it takes something back from a row that is not
    there, which does nothing."""
    count = len(adds)
    first = segments.first_where(adds, starts, count)
    return np.arange(count) >= np.repeat(np.where(first < 0, count, first), segments.lengths(starts, count))


Judge = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(places, the start of each key among them) -> which of these rows remove their key, if no row before them does."""


def last_removals(deletes: np.ndarray, begins: np.ndarray, starts: np.ndarray, judge: Judge) -> np.ndarray:
    """The last place of every key whose row removes it, -1 where none does. Rows before the first one that `begins` the row of
    its key do not count, and only `deletes` remove.

    A removal takes the sequence with it: the rows after it are applied as if nothing had been there. A row that would remove its
    key even if no row before it had removed it does so in any case, so the last one of these is looked for, then again in the
    rows after it.
    """
    last = np.full(len(starts), -1)
    asked = segments.anywhere(deletes, starts)
    number = segments.numbers(starts, len(deletes))
    places = np.flatnonzero(asked[number])
    while len(places):
        own = segments.of_sorted(number[places])
        places = places[after_first_add(begins[places], own)]
        if not len(places):
            break
        own = segments.of_sorted(number[places])
        found = segments.last_where(judge(places, own) & deletes[places], own, len(places))
        removed = np.flatnonzero(found >= 0)
        keys = number[places[own[removed]]]
        last[keys] = places[found[removed]]
        again = np.zeros(len(starts), bool)
        again[keys] = True
        places = places[again[number[places]] & (places > last[number[places]])]
    return last
