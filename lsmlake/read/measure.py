"""Measures the visible rows of a plan for statistics: counts, extremes, lengths and distinct values, in one pass.

Memory: the chunks of the read and, for each column, a sketch of at most 256 KiB (`kernels.distinct`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.manifest import has_order
from lsmlake.kernels.distinct import DistinctSketch
from lsmlake.read.aggregate_pushdown import Side, count, extreme_of
from lsmlake.read.plan import Plan
from lsmlake.read.scan import read_plan


class ColumnMeasure(NamedTuple):
    """Of one column: as `ColumnStatistics`, with values. `length`: of all values together; None if the type has no lengths."""

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
    """Read a plan, whose columns include `columns`, and measure these. Without columns, read what a count needs."""
    named = list(columns)
    if not named:
        return Measured(count(plan), {})
    rows, running = 0, {name: _Column(plan.schema.plain_columns.field(name).type) for name in named}
    for table in read_plan(plan):
        rows += table.num_rows
        for name, column in running.items():
            column.add(table[name])
    return Measured(rows, {name: column.measured() for name, column in running.items()})


class _Column:
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
            found = extreme_of(joined, side)
            self.extremes[side] = found if known is None else extreme_of(pa.array([known, found], self.type), side)
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
