"""An aggregate function: what a column of a merge rule becomes when several rows of a key meet. Arrow in, Arrow out.

The invariant: `reduce` is the left fold of every group, oldest row first, starting from no value. The result of a fold may stand
for the rows it was made of as the first added row of another fold. Functions are values without state. The three classes at the
end wrap another function: one guards a function that is not built in, two decide what a retract row (-U, -D) does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, LakeError
from lsmlake.kernels import nested, segments


class Overflow(InvalidData):
    """A result does not fit the type of its column. Only the rows of a key together tell, so no writer can refuse them."""


class Function(Protocol):
    """Subclass it: a property that is not set has the value that is always safe.

    `retracts`: rows can be taken back. `associative_adds`: neighbouring added rows may be reduced on their own and the result put
    in their place. `commutative_adds`: the value there is and an added row may change places, so a row that comes late needs no
    other treatment. `skips_nulls`: an added null leaves the value as it is. Rounding of floats and the layout of a sketch's bytes
    do not count as a difference.
    """

    retracts: bool = False
    associative_adds: bool = False
    commutative_adds: bool = False
    skips_nulls: bool = False

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        """One value a group, of the type of `values`.

        `values`: the rows of all groups one after the other, oldest first in each. `starts`: int64, ascending, the first row of
        every group, `starts[0] == 0`, none empty. `retract`: bool a row, True = take the row's value back; None = no such row.
        Raises InvalidData for values that it cannot combine.
        """
        ...

    def validate(self, values: pa.Array) -> None:
        """Raises InvalidData for an added value that `reduce` could never take, whatever it is combined with. Writers ask before
        they write."""

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        """One flag a group: False only if `reduce` raises Overflow whenever a value does not fit that changes the fold from there
        on. Asked under `overflow = null`, which then folds the other groups row by row. Arguments as for `reduce`."""
        return np.ones(len(starts), bool)


@dataclass(frozen=True)
class Wrapper(Function):
    """`inner` with another way to reduce; a subclass says which."""

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
    """`inner`, a function that is not built in: what it raises, or returns instead of a value for each group, is InvalidData."""

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
            raise self._refused(f"raised {type(error).__name__}: {error}", "values that it can take") from error

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        return self.inner.may_overflow_midway(values, starts, retract)


@dataclass(frozen=True)
class NoRetract(Wrapper):
    """`inner`, which cannot take rows back; being asked to raises InvalidData."""

    where: str
    cure: str

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if retract is not None and retract.any():
            raise InvalidData(
                "the aggregate function of this column cannot take rows back",
                where=self.where,
                expected="only +I and +U rows",
                found=f"{int(retract.sum())} rows of kind -U or -D",
                cure=self.cure,
            )
        return self.inner.reduce(values, starts, None)


@dataclass(frozen=True)
class IgnoreRetract(Wrapper):
    """`inner` without the retract rows; a group of nothing else has no value (null).

    If `inner` does not skip nulls, a retract at the beginning of a group counts as a null: that is what a table holds after it.
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
