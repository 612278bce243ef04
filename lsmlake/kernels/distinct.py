"""Estimates the number of distinct values of a column that is seen in parts, in bounded memory.

1. A value is represented by its 32-bit hash (`kernels.bucket_hash`). Equal values have equal hashes; NaN is one value.
2. The sketch keeps all distinct hashes below a limit, at first all there are. If it has more than `KEPT_MAX`, the limit is halved
   until it has not. Hashes are uniform, so each distinct value is kept with the same probability, however often it occurs.
3. The number of distinct hashes is the number kept, divided by that probability. The number of distinct values follows from it,
   because hashes collide at random.

The estimate is exact, except for collisions, up to `KEPT_MAX` distinct values. Beyond, its standard error is less than 0.6 %.

Source: adaptive sampling, by Wegman; analysed by Flajolet, "On adaptive sampling", Computing 43 (1990). It is the theta sketch of
Apache DataSketches with halved limits. DuckDB and DataSketches estimate as well, but are optional packages, and the latter takes
one call per value.
"""

from __future__ import annotations

from math import log1p

import numpy as np
import pyarrow as pa

from lsmlake.kernels.bucket_hash import spark_hash

KEPT_MAX = 1 << 16
_HASHES = 1 << 32


class DistinctSketch:
    """The distinct values seen so far."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint32)  # ascending
        self._added: list[np.ndarray] = []  # hashes below the limit that are not merged yet, because a merge sorts all
        self._limit = _HASHES

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add values, of a type that has an order; nulls do not count."""
        values = values.drop_null()
        if not len(values):
            return
        hashes = spark_hash([values]).view(np.uint32)
        if self._limit < _HASHES:
            hashes = hashes[hashes < self._limit]
        self._added.append(hashes)
        if sum(map(len, self._added)) > KEPT_MAX:
            self._merge()

    def _merge(self) -> None:
        hashes, self._added = np.sort(np.concatenate([self._kept, *self._added])), []
        first = np.ones(len(hashes), bool)
        first[1:] = hashes[1:] != hashes[:-1]
        self._kept = hashes[first]  # np.unique would be ten times slower
        while len(self._kept) > KEPT_MAX:
            self._limit //= 2
            self._kept = self._kept[: np.searchsorted(self._kept, self._limit)]

    @property
    def estimate(self) -> int:
        """The number of distinct values, about."""
        self._merge()
        share = min(len(self._kept) / self._limit, 1 - 1 / _HASHES)  # of all hashes
        return round(-_HASHES * log1p(-share))
