"""The aggregate function of a column: creates it from the options, says how its result depends on the order of rows, and applies
it to the rows of a key in order of arrival when some rows are late.

With state `s`, row `r` and aggregate function `f`:

1. An added row that is on time gives `f(s, r)`. A late one gives `f(r, s)`, as if it had arrived before all others.
2. A retraction is always applied to `s`, late or not.

`Function.reduce` folds rows from left to right, so late rows are moved to the front, the last one first. A late row that arrives
after a retraction must not move in front of it. It begins a new *turn*: a separate fold that starts from the state so far.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.lsm.aggregate import Function, function
from lsmlake.lsm.aggregate.chosen import Last
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.schema import Schema

LAST_NON_NULL = "last_non_null_value"


def function_for(column: str, name: str, schema: Schema, where: str) -> Function:
    """The function of that name for the column. Raises InvalidOption."""
    settings = schema.parsed_options.columns.settings(column)
    place = f"{where}, column {column!r}" if where else f"column {column!r}"
    return function(name, schema.typed_columns.field(column).with_nullable(True), settings, place)


def contests_of(column: str, function: Function, sequence: SequenceFields) -> list[Contest]:
    """The parts of the column's value that depend on the order of rows; see `MergeRule.contests`."""
    if function.commutative_adds:
        return []
    decisive = Decisive.NEWEST if isinstance(function, Last) else Decisive.ALL
    taken = Contest((column,), sequence, decisive, skips_nulls=function.skips_nulls)
    return [taken, Contest((), sequence)] if function.retracts else [taken]


# -- folds ------------------------------------------------------------------------------------------------------------


class Fold:
    """Rows in order of arrival; `starts` holds the first row of each key. `retract`, `late`: one flag per row, None = none."""

    def __init__(self, starts: np.ndarray, rows: int, retract: np.ndarray | None, late: np.ndarray | None) -> None:
        self.starts, self.rows, self.retract = starts, rows, retract
        late = late if late is None or retract is None else late & ~retract
        self.late = late if late is not None and late.any() else None

    def reduce(self, function: Function, values: pa.Array) -> pa.Array:
        """Returns one value per key; `values` has one per row."""
        if self.late is None or function.commutative_adds:
            return function.reduce(values, self.starts, self.retract)
        turns = self._turns(function.associative_adds)
        if not turns.any():
            order = self._front_first(np.arange(self.rows))
            retract = None if self.retract is None else self.retract[order]
            return function.reduce(segments.take(values, order), self.starts, retract)
        return self._by_turns(function, values, turns)

    def late_first(self) -> np.ndarray:
        """Returns the rows of each key in the order of `reduce` without retractions: late rows from last to first, then the
        others."""
        return np.arange(self.rows) if self.late is None else self._front_first(np.arange(self.rows))

    def _front_first(self, places: np.ndarray) -> np.ndarray:
        late = self.late[places]
        keys = segments.numbers(self.starts, self.rows)[places]
        return places[np.lexsort((np.where(late, -places, places), ~late, keys))]

    def _turns(self, associative: bool) -> np.ndarray:
        """Returns the turn number of each row. For an associative function a late row begins a turn only if a retraction
        arrived since the previous late row."""
        begins = np.flatnonzero(self.late)
        keys = segments.numbers(self.starts, self.rows)
        if associative:
            retracted = np.zeros(self.rows + 1, np.int64)  # retractions before each row
            retracted[1:] = np.cumsum(self.retract) if self.retract is not None else 0
            since = self.starts[keys[begins]]
            since[1:] = np.maximum(since[1:], begins[:-1])
            begins = begins[retracted[begins] > retracted[since]]
        begun = np.zeros(self.rows, np.int64)
        begun[begins] = 1
        turns = np.cumsum(begun)
        return turns - turns[self.starts][keys]

    def _by_turns(self, function: Function, values: pa.Array, turns: np.ndarray) -> pa.Array:
        """Runs one reduction per turn, over all keys that have this turn. Each starts from the state after the previous turn."""
        keys = segments.numbers(self.starts, self.rows)
        made: list[pa.Array] = []
        newest = np.zeros(len(self.starts), np.int64)  # the state of each key, as a place in the concatenation of `made`
        count = 0
        for places in _places_by_number(turns):
            owners = keys[places]
            active = owners[segments.of_sorted(owners)]
            late = self.late[places]
            state = None if not made else made[-1].take(pa.array(newest[active] - (count - len(made[-1]))))
            before = 0 if state is None else len(state)
            all_owners = np.concatenate([active[:before], owners])
            rank = np.concatenate([np.ones(before, np.int64), np.where(late, 0, 2)])
            within = np.concatenate([np.zeros(before, np.int64), np.where(late, -places, places)])
            order = np.lexsort((within, rank, all_owners))
            rows = segments.take(values, places)
            pool = rows if state is None else pa.concat_arrays([state, rows])
            retract = None
            if self.retract is not None:
                retract = np.concatenate([np.zeros(before, bool), self.retract[places]])[order]
            made.append(function.reduce(segments.take(pool, order), segments.of_sorted(all_owners[order]), retract))
            newest[active] = count + np.arange(len(active))
            count += len(active)
        return segments.take(pa.concat_arrays(made), newest)


def _places_by_number(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the places of number 0, then those of number 1, and so on, each ascending."""
    order = np.argsort(numbers, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
