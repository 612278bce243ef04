"""Functions whose result is one of the values of a group: last_value, last_non_null_value, first_value, first_non_null_value,
primary_key, max, min, bool_and, bool_or.

The first ones only compute a row number, so all types are supported. If the selected last row is a retraction, the value is null.

max and min go by Spark's order: NaN is the greatest float, text is compared by its bytes. Numbers, dates and times are compared
as numbers, with nulls replaced by the worst value; other types by the ranks of their distinct values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class Last(Function):
    """The newest value, or with `skips_nulls` the newest that is not null. A retraction sets null; with `skips_nulls` a retracted
    null has no effect. With `keeps_retracted` a retracted value is kept, as a key requires."""

    skips_nulls: bool = False
    keeps_retracted: bool = False
    retracts = True
    associative_adds = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        eligible = segments.valid(values) if self.skips_nulls else None
        rows = segments.last_where(eligible, starts, len(values))
        if retract is not None and not self.keeps_retracted:
            rows = np.where(retract[rows], -1, rows)
        return segments.take(values, rows)


@dataclass(frozen=True)
class First(Function):
    """The oldest value, or with `skips_nulls` the oldest that is not null."""

    skips_nulls: bool = False
    associative_adds = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        eligible = segments.valid(values) if self.skips_nulls else None
        return segments.take(values, segments.first_where(eligible, starts, len(values)))


@dataclass(frozen=True)
class Extreme(Function):
    """The greatest value, or the least."""

    greatest: bool
    associative_adds = commutative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        present = segments.valid(values)
        some = segments.anywhere(present, starts)
        if pa.types.is_floating(values.type):
            dtype = np.dtype(values.type.to_pandas_dtype())
            worst, pick = (-np.inf, np.maximum) if self.greatest else (np.nan, np.fmin)  # maximum propagates NaN, fmin skips it
        elif pa.types.is_integer(values.type) or pa.types.is_temporal(values.type):
            dtype = np.dtype(f"i{values.type.bit_width // 8}")
            worst, pick = (np.iinfo(dtype).min, np.maximum) if self.greatest else (np.iinfo(dtype).max, np.minimum)
        else:
            return self._by_rank(values, starts)
        numbers = segments.fixed(values, dtype)
        if present is not None:
            numbers = np.where(present, numbers, dtype.type(worst))
        return segments.array(values.type, pick.reduceat(numbers, starts), some)

    def _by_rank(self, values: pa.Array, starts: np.ndarray) -> pa.Array:
        ranks = codes.order(values)
        if not self.greatest:
            ranks = np.where(ranks < 0, -1, len(values) - ranks)
        best = np.maximum.reduceat(ranks, starts)
        rows = segments.first_where(ranks == np.repeat(best, segments.lengths(starts, len(values))), starts, len(values))
        return segments.take(values, rows)


@dataclass(frozen=True)
class Flags(Function):
    """Whether all values are true, or with `any_of` at least one."""

    any_of: bool
    associative_adds = commutative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if not len(values):
            return values
        flags, present = segments.bits(values.buffers()[1], values.offset, len(values)), segments.valid(values)
        if present is not None:
            flags = np.where(present, flags, not self.any_of)
        best = (np.maximum if self.any_of else np.minimum).reduceat(flags.view(np.uint8), starts).view(bool)
        some = segments.anywhere(present, starts)
        return pa.array(best, mask=None if some is None else ~some)
