"""`fields.<column>.overflow = null`: a result that does not fit the type of its column becomes null, and a warning is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.lsm.aggregate import segments
from lsmlake.lsm.aggregate.function import Function, Overflow

_log = logging.getLogger("lsmlake")


@dataclass(frozen=True)
class OverflowAsNull(Function):
    """`inner`, with null for every group whose result does not fit. Later rows of the key begin anew from that null, so unlike
    any other result it depends on which rows are combined at once."""

    inner: Function
    where: str

    @property
    def retracts(self) -> bool:
        return self.inner.retracts

    @property
    def associative_adds(self) -> bool:
        return self.inner.associative_adds

    @property
    def commutative_adds(self) -> bool:
        return self.inner.commutative_adds

    @property
    def skips_nulls(self) -> bool:
        return self.inner.skips_nulls

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        try:
            return self.inner.reduce(values, starts, retract)
        except Overflow:
            ends = np.append(starts, len(values))

            def attempt(first: int, last: int) -> None:
                rows = slice(ends[first], ends[last])
                self.inner.reduce(values[rows], starts[first:last] - starts[first], None if retract is None else retract[rows])

            over = list(failing(len(starts), attempt, Overflow))
        _log.warning("%s: the aggregate of %d keys does not fit the column and becomes null", self.where, len(over))
        keep = np.isin(segments.numbers(starts, len(values)), over, invert=True)
        kept, groups = segments.kept(keep, starts)
        if not len(groups):
            return pa.nulls(len(starts), values.type)
        reduced = self.inner.reduce(values.filter(pa.array(keep)), kept, None if retract is None else retract[keep])
        return segments.spread(reduced, groups, len(starts))

    def validate(self, values: pa.Array) -> None:
        self.inner.validate(values)


def failing(count: int, attempt: Callable[[int, int], object], error: type[InvalidData] = InvalidData) -> Iterator[int]:
    """The numbers below `count`, ascending, for which `attempt` raises `error`. `attempt(first, last)` tries the numbers from
    `first` up to, not including, `last`. O(failing numbers * log count) attempts."""
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
