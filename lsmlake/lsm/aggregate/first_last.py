"""last_value, last_non_null_value, first_value, first_non_null_value, primary_key: select one row of the group.

Only a row number is computed, so all types are supported. If the selected last row is a retraction, the value is null.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
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
