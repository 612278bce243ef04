"""bool_and and bool_or. Nulls are skipped; a group of nulls only is null."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function


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
