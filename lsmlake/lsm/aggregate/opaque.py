"""Unions of binary values that a library interprets. Groups with several values are merged one by one, others are copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function

_BROKEN = ValueError, IndexError, RuntimeError, OverflowError
"""The exceptions of the libraries for invalid bytes."""


@dataclass(frozen=True)
class Union(Function):
    """The union of sets stored as bytes.

    `unite` merges several sets. `check` runs before a value is written and detects faults that `unite` misses. Both raise one of
    `_BROKEN` for invalid bytes, which becomes InvalidData. `kind` describes the expected bytes. `reduce` does not read a value
    that is alone in its group, because `validate` checked it before it was written.
    """

    unite: Callable[[list[bytes]], bytes]
    kind: str
    where: str
    check: Callable[[bytes], None] | None = None
    associative_adds = commutative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        present = segments.valid(values)
        if present is not None:
            kept, groups = segments.kept(present, starts)
            if not len(groups):
                return pa.nulls(len(starts), values.type)
            return segments.spread(self.reduce(values.drop_null(), kept, None), groups, len(starts))
        lengths = segments.lengths(starts, len(values))
        several = np.flatnonzero(lengths > 1)
        united = [
            self._united(values.slice(start, length).to_pylist())
            for start, length in zip(starts[several].tolist(), lengths[several].tolist(), strict=True)
        ]
        rows = starts.copy()
        rows[several] = len(values) + np.arange(len(several))
        return pa.concat_arrays([values, pa.array(united, values.type)]).take(pa.array(rows))

    def _united(self, parts: list[bytes], check: Callable[[bytes], None] | None = None) -> bytes:
        try:
            if check:
                for part in parts:
                    check(part)
            return self.unite(parts)
        except _BROKEN as broken:
            raise InvalidData(
                "the bytes cannot be read", where=self.where, expected=self.kind, found=broken, cure="write bytes of this format"
            ) from broken

    def validate(self, values: pa.Array) -> None:
        for value in values.drop_null().to_pylist():
            self._united([value], self.check)
