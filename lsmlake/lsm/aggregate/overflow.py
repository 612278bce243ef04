"""`fields.<column>.overflow = null`: a result that does not fit its column becomes null, and a warning is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Overflow, Wrapper

_log = logging.getLogger("lsmlake.lsm")


@dataclass(frozen=True)
class OverflowAsNull(Wrapper):
    """Applies `inner` one row at a time: if the result of a step does not fit, the value becomes null and later rows continue
    from that null.

    Rows of a key cannot be combined in parts, because a part may fit although the fold from the oldest row does not. So
    `associative_adds` is False: rows are stored uncombined until the older row of their key is known. Groups that cannot overflow
    at an intermediate step are still reduced at once.
    """

    where: str

    associative_adds = False

    @property
    def retracts(self) -> bool:
        return self.inner.retracts

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        stepwise = self.inner.may_overflow_midway(values, starts, retract)
        at_once = np.flatnonzero(~stepwise)
        reduced, over = self._fitting(*_part(~stepwise, values, starts, retract))
        if not over.any() and not stepwise.any():
            return reduced
        stepwise[at_once[over]] = True
        stepped, overflowed = self._by_steps(*_part(stepwise, values, starts, retract))
        if overflowed.any():
            _log.warning(
                "%s: the aggregate of %d keys does not fit the column and becomes null", self.where, np.count_nonzero(overflowed)
            )
        places = np.empty(len(starts), np.int64)
        places[at_once] = np.arange(len(at_once))
        places[stepwise] = len(at_once) + np.arange(len(stepped))
        return segments.take(pa.concat_arrays([reduced, stepped]), places)

    def _fitting(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> tuple[pa.Array, np.ndarray]:
        """Reduces each group with `inner`, null if the result does not fit. Returns the values and flags the groups that do not
        fit."""
        over = np.zeros(len(starts), bool)
        if not len(starts):
            return values, over
        try:
            return self.inner.reduce(values, starts, retract), over
        except Overflow:
            ends = np.append(starts, len(values))

            def attempt(first: int, last: int) -> None:
                rows = slice(ends[first], ends[last])
                self.inner.reduce(values[rows], starts[first:last] - starts[first], None if retract is None else retract[rows])

            over[list(failing(len(starts), attempt, Overflow))] = True
        if over.all():
            return pa.nulls(len(starts), values.type), over
        reduced = self.inner.reduce(*_part(~over, values, starts, retract))
        return segments.spread(reduced, np.flatnonzero(~over), len(starts)), over

    def _by_steps(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> tuple[pa.Array, np.ndarray]:
        """Folds each group row by row; returns the values and flags the groups in which a step overflowed. Step n applies row n
        of all groups with more than n rows, so the longest group determines the number of steps."""
        lengths = segments.lengths(starts, len(values))
        longest_first = np.argsort(-lengths, kind="stable")
        falling = -lengths[longest_first]
        state, overflowed = values.slice(0, 0), np.zeros(len(starts), bool)
        for step in range(int(lengths.max())):
            groups = longest_first[: np.searchsorted(falling, -step)]
            rows = starts[groups] + step
            before = min(1, step)  # from step 1 on, the state of each group precedes its row
            pool = pa.concat_arrays([state.slice(0, before * len(groups)), segments.take(values, rows)])
            order = np.arange(len(pool)).reshape(before + 1, -1).T.ravel()
            flags = None if retract is None else np.concatenate([np.zeros(before * len(groups), bool), retract[rows]])[order]
            pairs = np.arange(len(groups)) * (before + 1)
            made, over = self._fitting(segments.take(pool, order), pairs, flags)
            overflowed[groups[over]] = True
            state = pa.concat_arrays([made, state.slice(len(groups))])
        return segments.take(state, np.argsort(longest_first)), overflowed


def _part(
    chosen: np.ndarray, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None
) -> tuple[pa.Array, np.ndarray, np.ndarray | None]:
    """Returns the arguments of `Function.reduce` for the `chosen` groups (one flag per group)."""
    if chosen.all():
        return values, starts, retract
    rows = np.repeat(chosen, segments.lengths(starts, len(values)))
    return values.filter(pa.array(rows)), segments.kept(rows, starts)[0], None if retract is None else retract[rows]


def failing(count: int, attempt: Callable[[int, int], object], error: type[InvalidData] = InvalidData) -> Iterator[int]:
    """Yields the numbers below `count`, ascending, for which `attempt` raises `error`. `attempt(first, last)` tries the half-open
    range [first, last). O(failing numbers * log count) attempts."""
    ranges = [(0, count)]
    while ranges:
        first, last = ranges.pop()
        try:
            attempt(first, last)
        except error:
            if last - first == 1:
                yield first
                continue
            middle = (first + last) // 2
            ranges += [(middle, last), (first, middle)]
