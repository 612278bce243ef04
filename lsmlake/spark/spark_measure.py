"""Measures the rows of a plan in one Spark aggregation. `read.measure` does the same without Spark and describes the result."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lsmlake.format.manifest import has_order
from lsmlake.read.measure import ColumnMeasure, Measured, has_lengths
from lsmlake.read.measure import measure as measure_here
from lsmlake.read.plan import Plan
from lsmlake.spark.read import AUTO, frame
from lsmlake.types.type_text import backticked

_LOG2_REGISTERS = 14  # a sketch of 16 KiB with a standard error of 0.8 %


def measure(spark, plan: Plan, columns: Sequence[str]) -> Measured:
    """Measures the columns of a plan. A count alone needs no job: it comes from metadata, and from the level-0 rows."""
    if not columns:
        return measure_here(plan, columns)
    types = [plan.schema.plain_columns.field(name).type for name in columns]
    terms = ["count(1)", *(term for name, type_ in zip(columns, types, strict=True) for term in _terms(backticked(name), type_))]
    named = [f"{term} as _{number}" for number, term in enumerate(terms)]
    aggregates = frame(spark, plan, None, AUTO).selectExpr(*named).toArrow()
    values = iter(aggregates.columns)
    rows = next(values)[0].as_py()
    return Measured(rows, {name: _measured(values, type_, rows) for name, type_ in zip(columns, types, strict=True)})


def _terms(column: str, type_: pa.DataType) -> list[str]:
    """The aggregates of one column, in the order in which `_measured` reads them."""
    terms = [f"count({column})"]
    if has_order(type_):
        terms += [_distinct(column), f"min({column})", f"max({column})"]
    if has_lengths(type_):
        length = f"length({column})"  # of text in characters, of binary values in bytes
        terms += [f"sum({length})", f"max({length})"]
    return terms


def _distinct(column: str) -> str:
    """The approximate number of distinct values. `approx_count_distinct` with this error would add 1,600 columns to the plan."""
    hashed = f"if({column} is null, null, xxhash64({column}))"
    return f"hll_sketch_estimate(hll_sketch_agg({hashed}, {_LOG2_REGISTERS}))"


def _measured(values, type_: pa.DataType, rows: int) -> ColumnMeasure:
    nulls = rows - next(values)[0].as_py()
    distinct = least = greatest = length = longest = None
    if has_order(type_):
        distinct, least, greatest = next(values)[0].as_py(), _value(next(values), type_), _value(next(values), type_)
    if has_lengths(type_):
        length, longest = (next(values)[0].as_py() or 0 for _ in range(2))
    return ColumnMeasure(distinct, least, greatest, nulls, length, longest)


def _value(column: pa.ChunkedArray, type_: pa.DataType) -> object:
    value = column.cast(type_)[0].as_py()
    return value + 0.0 if pa.types.is_floating(type_) and value is not None else value  # -0.0 equals 0.0
