"""Aggregate functions: how the values of a column are combined when rows of a key are merged. Arrow in, Arrow out.

Invariant: `reduce` is the left fold of every group, oldest row first, starting from no value. The result of a fold may replace
its rows as the first added row of another fold. Functions are values without state. The three wrappers at the end guard functions
that are not built in, and decide what a retract row (-U, -D) does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, LakeError
from lsmlake.kernels import nested, segments


class Overflow(InvalidData):
    """A result does not fit the type of its column. Only merging the rows of a key shows this, so no writer can refuse them."""


class Function(ABC):
    """Base class of aggregate functions. The default of every property is always safe.

    Attributes:
        retracts: the function supports retraction.
        associative_adds: neighbouring added rows may be reduced separately and replaced by their result.
        commutative_adds: the current value and an added row may be swapped, so a late row needs no special treatment.
        skips_nulls: an added null leaves the value unchanged.

    Rounding of floats and the byte layout of a sketch do not count as differences.
    """

    retracts: bool = False
    associative_adds: bool = False
    commutative_adds: bool = False
    skips_nulls: bool = False

    @abstractmethod
    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        """Return one value per group, of the type of `values`.

        Args:
            values: the rows of all groups, group after group; within a group, oldest first.
            starts: int64, ascending: the first row of every group. `starts[0] == 0`; no group is empty.
            retract: one bool per row: True retracts the value of the row. None: no row is retracted.

        Raises:
            InvalidData: the values cannot be combined.
        """

    def validate(self, values: pa.Array) -> None:
        """Refuse an added value that `reduce` could never accept, whatever it is combined with. Called before rows are written.

        Raises:
            InvalidData: there is such a value.
        """
        return None  # the default: every value is accepted

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        """Return one flag per group: False only if `reduce` raises Overflow for every intermediate value that does not fit and
        affects the result. Called under `overflow = null`, which folds the groups with True row by row. Arguments as for
        `reduce`."""
        return np.ones(len(starts), bool)


@dataclass(frozen=True)
class Wrapper(Function):
    """Base class of functions that change how `inner` reduces."""

    inner: Function

    @property
    def associative_adds(self) -> bool:
        return self.inner.associative_adds

    @property
    def commutative_adds(self) -> bool:
        return self.inner.commutative_adds

    @property
    def skips_nulls(self) -> bool:
        return self.inner.skips_nulls

    def validate(self, values: pa.Array) -> None:
        self.inner.validate(values)


@dataclass(frozen=True)
class Guarded(Wrapper):
    """`inner`, a function that is not built in. Its exceptions, and results that are not one value per group, become
    InvalidData."""

    name: str
    where: str

    @property
    def retracts(self) -> bool:
        return self.inner.retracts

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        try:
            reduced = self.inner.reduce(values, starts, retract)
        except LakeError:
            raise
        except Exception as error:
            raise self._refused(f"raised {type(error).__name__}: {error}", "one value for each group") from error
        if not isinstance(reduced, pa.Array):
            raise self._refused(f"returned {type(reduced).__name__}", "a pyarrow.Array")
        if (reduced.type, len(reduced)) != (values.type, len(starts)):
            expected = f"{len(starts)} values of type {values.type}"
            raise self._refused(f"returned {len(reduced)} values of type {reduced.type}", expected)
        return reduced

    def _refused(self, fault: str, expected: str) -> InvalidData:
        what = f"the aggregate function {self.name!r}, which is not built in, {fault}"
        return InvalidData(what, where=self.where, expected=expected, cure="correct the function")

    def validate(self, values: pa.Array) -> None:
        try:
            self.inner.validate(values)
        except LakeError:
            raise
        except Exception as error:
            raise self._refused(f"raised {type(error).__name__}: {error}", "values that it accepts") from error

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        return self.inner.may_overflow_midway(values, starts, retract)


@dataclass(frozen=True)
class NoRetract(Wrapper):
    """Wraps a function without retraction: a retraction raises InvalidData."""

    where: str
    cure: str

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if retract is not None and retract.any():
            raise InvalidData(
                "the aggregate function of this column does not support retraction",
                where=self.where,
                expected="only +I and +U rows",
                found=f"{int(retract.sum())} rows of kind -U or -D",
                cure=self.cure,
            )
        return self.inner.reduce(values, starts, None)


@dataclass(frozen=True)
class IgnoreRetract(Wrapper):
    """`inner` without the retract rows. A group of retract rows only has no value (null).

    If `inner` does not skip nulls, a retract row at the start of a group counts as a null, because that is what a table holds
    after it.
    """

    retracts = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if retract is None or not retract.any():
            return self.inner.reduce(values, starts, None)
        rows, ignored = np.arange(len(values)), retract
        if not self.inner.skips_nulls:
            first = np.zeros(len(values), bool)
            first[starts] = True
            rows, ignored = np.where(retract, -1, rows), retract & ~first
        kept, groups = segments.kept(~ignored, starts)
        if not len(groups):
            return nested.nulls(len(starts), values.type)
        reduced = self.inner.reduce(segments.take(values, rows[~ignored]), kept, None)
        return segments.spread(reduced, groups, len(starts))
