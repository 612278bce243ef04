"""An aggregate function: what a column of a merge engine becomes when several rows of a key meet. Arrow in, Arrow out.

The invariant: `reduce` is the left fold of every group, oldest row first, starting from "no value" (null); one value a group
comes out. Functions are values without state; the two here wrap another one to settle what a retract row (-U, -D) does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.lsm.aggregate import segments


class Overflow(InvalidData):
    """A result does not fit the type of its column. Only the rows of a key together tell, so no writer can refuse them."""


class Function(Protocol):
    """Subclass it: what is not said defaults to the answer that is always safe.

    `retracts`: rows can be taken back. `associative`: any run of neighbouring rows may be reduced on its own and the result put
    in its place as one added row, retract rows among them or not. `associative_adds`: the same as long as no row is a retract.
    `skips_nulls`: an added null leaves the value as it is. Floats count as associative up to rounding, sketches up to the
    layout of their bytes, and overflow is found in whatever is reduced.
    """

    retracts: bool = False
    associative: bool = False
    associative_adds: bool = False
    skips_nulls: bool = False

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        """One value a group, of the type of `values`.

        `values`: the rows of all groups one after the other, oldest first in each. `starts`: int64, ascending, the first row of
        every group, `starts[0] == 0`, none empty. `retract`: bool a row, True = take the row's value back; None = no such row.
        Raises InvalidData for values that it cannot combine.
        """
        ...

    def validate(self, values: pa.Array) -> None:
        """Raises InvalidData for a value that `reduce` could never take, whatever it is combined with. Writers ask before they
        write."""


@dataclass(frozen=True)
class NoRetract(Function):
    """`inner`, which cannot take rows back; being asked to raises InvalidData."""

    inner: Function
    where: str
    cure: str

    @property
    def associative(self) -> bool:
        return self.inner.associative_adds

    @property
    def associative_adds(self) -> bool:
        return self.inner.associative_adds

    @property
    def skips_nulls(self) -> bool:
        return self.inner.skips_nulls

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

    def validate(self, values: pa.Array) -> None:
        self.inner.validate(values)


@dataclass(frozen=True)
class IgnoreRetract(Function):
    """`inner` without the retract rows, as if they had never been; a group of nothing else has no value (null).

    That null would overwrite a value if `inner` does not skip nulls, so then it is not associative.
    """

    inner: Function
    retracts = True

    @property
    def associative(self) -> bool:
        return self.inner.associative_adds and self.inner.skips_nulls

    @property
    def associative_adds(self) -> bool:
        return self.inner.associative_adds

    @property
    def skips_nulls(self) -> bool:
        return self.inner.skips_nulls

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if retract is None or not retract.any():
            return self.inner.reduce(values, starts, None)
        kept, groups = segments.kept(~retract, starts)
        if not len(groups):
            return pa.nulls(len(starts), values.type)
        reduced = self.inner.reduce(values.filter(pa.array(~retract)), kept, None)
        return segments.spread(reduced, groups, len(starts))

    def validate(self, values: pa.Array) -> None:
        self.inner.validate(values)
