"""Applying the rows of a key one at a time, in the order they arrived, when some of them are late.

With state `s` and row `r`, `f` being an aggregate function:

1. an added row that is not late makes `f(s, r)`; a late one makes `f(r, s)`, as if it had come before everything else;
2. a row that is taken back is taken back from `s`, late or not.

`Function.reduce` folds rows from left to right, so late rows go to the front, the last one first. A late row that arrives after a
retract cannot go there, because the retract takes nothing from it: it begins a *turn*, which starts from the state so far.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.lsm.aggregate import Function


class Fold:
    """Rows in order of arrival: each key begins at one of `starts`. `retract`, `late`: one flag a row, None = no such row."""

    def __init__(self, starts: np.ndarray, rows: int, retract: np.ndarray | None, late: np.ndarray | None) -> None:
        self.starts, self.rows, self.retract = starts, rows, retract
        late = late if late is None or retract is None else late & ~retract
        self.late = late if late is not None and late.any() else None

    def reduce(self, function: Function, values: pa.Array) -> pa.Array:
        """One value a key; `values` has one a row."""
        if self.late is None or function.commutative_adds:
            return function.reduce(values, self.starts, self.retract)
        turns = self._turns(function.associative_adds)
        if not turns.any():
            order = self._front_first(np.arange(self.rows))
            retract = None if self.retract is None else self.retract[order]
            return function.reduce(segments.take(values, order), self.starts, retract)
        return self._by_turns(function, values, turns)

    def late_first(self) -> np.ndarray:
        """The rows of every key in the order in which `reduce` sees them if none is a retract: late ones from the last to the
        first, then the others."""
        return np.arange(self.rows) if self.late is None else self._front_first(np.arange(self.rows))

    def _front_first(self, places: np.ndarray) -> np.ndarray:
        late = self.late[places]
        keys = segments.numbers(self.starts, self.rows)[places]
        return places[np.lexsort((np.where(late, -places, places), ~late, keys))]

    def _turns(self, associative: bool) -> np.ndarray:
        """The number of the turn of every row. Where adds can be combined freely a late row begins one only if a row was taken
        back since the late row before it."""
        begins = np.flatnonzero(self.late)
        keys = segments.numbers(self.starts, self.rows)
        if associative:
            taken = np.zeros(self.rows + 1, np.int64)  # rows taken back before this one
            taken[1:] = np.cumsum(self.retract) if self.retract is not None else 0
            since = self.starts[keys[begins]]
            since[1:] = np.maximum(since[1:], begins[:-1])
            begins = begins[taken[begins] > taken[since]]
        begun = np.zeros(self.rows, np.int64)
        begun[begins] = 1
        turns = np.cumsum(begun)
        return turns - turns[self.starts][keys]

    def _by_turns(self, function: Function, values: pa.Array, turns: np.ndarray) -> pa.Array:
        """One reduction a turn, all keys that have so many turns at once; each begins with the state the turn before left."""
        keys = segments.numbers(self.starts, self.rows)
        made: list[pa.Array] = []
        newest = np.zeros(len(self.starts), np.int64)  # the state of every key, as a place in all that was made
        count = 0
        for places in _parts(turns):
            owners = keys[places]
            playing = owners[segments.of_sorted(owners)]
            late = self.late[places]
            state = None if not made else made[-1].take(pa.array(newest[playing] - (count - len(made[-1]))))
            before = 0 if state is None else len(state)
            all_owners = np.concatenate([playing[:before], owners])
            rank = np.concatenate([np.ones(before, np.int64), np.where(late, 0, 2)])
            within = np.concatenate([np.zeros(before, np.int64), np.where(late, -places, places)])
            order = np.lexsort((within, rank, all_owners))
            rows = segments.take(values, places)
            pool = rows if state is None else pa.concat_arrays([state, rows])
            retract = None
            if self.retract is not None:
                retract = np.concatenate([np.zeros(before, bool), self.retract[places]])[order]
            made.append(function.reduce(segments.take(pool, order), segments.of_sorted(all_owners[order]), retract))
            newest[playing] = count + np.arange(len(playing))
            count += len(playing)
        return segments.take(pa.concat_arrays(made), newest)


def _parts(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """The places of number 0, of number 1 and so on, ascending."""
    order = np.argsort(numbers, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
