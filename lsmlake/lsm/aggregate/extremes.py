"""max and min of any sortable type, in Spark's order: NaN is the greatest float, text is compared by its bytes.

Numbers, dates and times are compared as numbers, with nulls replaced by the worst value. Other types are compared by the ranks of
their distinct values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.function import Function


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
