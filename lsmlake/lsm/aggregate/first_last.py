"""last_value, last_non_null_value, first_value, first_non_null_value, primary_key: one row of the group is the answer.

Only a row number is computed, so any type will do. The last row that has a say decides: if it is a retract, there is no value,
whatever came before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class Last(Function):
    """The newest row, or with `skips_nulls` the newest that is not null. Taking a row back leaves null (a null row taken back
    leaves all as it is with `skips_nulls`), unless it `keeps_retracted`: then its value stands, as a key's must."""

    skips_nulls: bool = False
    keeps_retracted: bool = False
    retracts = True
    associative_adds = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        speaks = segments.valid(values) if self.skips_nulls else None
        rows = segments.last_where(speaks, starts, len(values))
        if retract is not None and not self.keeps_retracted:
            rows = np.where(retract[rows], -1, rows)
        return segments.take(values, rows)


@dataclass(frozen=True)
class First(Function):
    """The oldest row, or with `skips_nulls` the oldest that is not null."""

    skips_nulls: bool = False
    associative_adds = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        speaks = segments.valid(values) if self.skips_nulls else None
        return segments.take(values, segments.first_where(speaks, starts, len(values)))
