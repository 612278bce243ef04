"""Measures the visible rows of a plan for statistics: counts, extremes, lengths and distinct values, in one pass.

Memory: the chunks of the read and, for each column, a sketch of at most 256 KiB, which estimates the number of distinct values:

1. A value is represented by its 32-bit hash (`kernels.bucket_hash`). Equal values have equal hashes; NaN is one value.
2. The sketch keeps all distinct hashes below a limit, at first all hashes. While it has more than `KEPT_MAX`, the limit is
   halved. Hashes are uniform, so each distinct value is kept with the same probability, however often it occurs.
3. The number of distinct hashes is the number kept, divided by that probability. The number of distinct values follows from it,
   because hashes collide at random.

The estimate is exact, except for collisions, up to `KEPT_MAX` distinct values. Beyond, its standard error is less than 0.6 %.

Source: adaptive sampling, by Wegman; analysed by Flajolet, "On adaptive sampling", Computing 43 (1990). It is the theta sketch of
Apache DataSketches with halved limits. DuckDB and DataSketches estimate as well, but are optional packages, and the latter takes
one call per value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log1p
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.manifest import has_order
from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.read.aggregate_pushdown import Side, count, extreme_of
from lsmlake.read.arrow_scan import read_plan
from lsmlake.read.plan import Plan


class ColumnMeasure(NamedTuple):
    """The measures of one column: as `ColumnStatistics`, with values. `length`: the total length of all values; None if the type
    has no lengths."""

    distinct: int | None
    least: object
    greatest: object
    nulls: int
    length: int | None
    longest: int | None


class Measured(NamedTuple):
    """The number of rows, and the measures by column."""

    rows: int
    columns: Mapping[str, ColumnMeasure]


def measure(plan: Plan, columns: Iterable[str]) -> Measured:
    """Reads a plan, whose columns include `columns`, and measures these columns. Without columns, only counts the rows."""
    named = list(columns)
    if not named:
        return Measured(count(plan), {})
    rows, running = 0, {name: _ColumnMeasures(plan.schema.plain_columns.field(name).type) for name in named}
    for table in read_plan(plan):
        rows += table.num_rows
        for name, column in running.items():
            column.add(table[name])
    return Measured(rows, {name: column.measured() for name, column in running.items()})


class _ColumnMeasures:
    """The measures of a column, so far."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.sketch = DistinctSketch() if has_order(type_) else None
        self.extremes: dict[Side, object] = {"min": None, "max": None}
        self.nulls = 0
        self.length = self.longest = 0 if has_lengths(type_) else None

    def add(self, values: pa.ChunkedArray) -> None:
        self.nulls += values.null_count
        if self.sketch is None or values.null_count == len(values):
            return
        joined = values.drop_null().combine_chunks()
        self.sketch.add(joined)
        for side, known in self.extremes.items():
            value = extreme_of(joined, side)
            self.extremes[side] = value if known is None else extreme_of(pa.array([known, value], self.type), side)
        if self.longest is not None:
            lengths = pc.utf8_length(joined) if pa.types.is_string(self.type) else pc.binary_length(joined)
            self.length += pc.sum(lengths).as_py()
            self.longest = max(self.longest, pc.max(lengths).as_py())

    def measured(self) -> ColumnMeasure:
        distinct = None if self.sketch is None else self.sketch.estimate
        return ColumnMeasure(distinct, self.extremes["min"], self.extremes["max"], self.nulls, self.length, self.longest)


def has_lengths(type_: pa.DataType) -> bool:
    """Whether statistics tell the lengths of values of this type."""
    return pa.types.is_string(type_) or pa.types.is_binary(type_)


KEPT_MAX = 1 << 16
_HASHES = 1 << 32


class DistinctSketch:
    """The distinct values seen so far."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint32)  # ascending
        self._added: list[np.ndarray] = []  # hashes below the limit that are not merged yet, because a merge sorts all
        self._limit = _HASHES

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Adds values, of a type that has an order; nulls do not count."""
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
        """The estimated number of distinct values."""
        self._merge()
        share = min(len(self._kept) / self._limit, 1 - 1 / _HASHES)  # of all hashes
        return round(-_HASHES * log1p(-share))
