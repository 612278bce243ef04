"""Intervals between Arrow and DuckDB: columns of results, and of rows that the caller gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.dialect.types import duck_name, quoted, text
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.interval_text import parts
from lsmlake.types.intervals import DURATION, Interval, has_interval, interval_of, is_interval


def result_sql(sql: str, kind: pa.DataType, level: int = 0) -> str:
    """An expression of DuckDB as it comes out in a result: Arrow casts a number of microseconds to a duration itself."""
    if not has_interval(kind):
        return f"CAST({sql} AS {duck_name(kind)})"
    t, inner = pa.types, f"e{level}"
    if is_interval(kind):
        if kind.is_calendar:
            return f"spark_calendar_result({sql})"
        return f"to_months(CAST({sql} AS INTEGER))" if kind.is_months else f"CAST({sql} AS BIGINT)"
    if t.is_list(kind):
        return f"list_transform({sql}, lambda {inner}: {result_sql(inner, kind.value_type, level + 1)})"
    if t.is_map(kind):
        parts = (("key", kind.key_type), ("value", kind.item_type))
        made = _packed(inner, parts, level + 1)
        return f"map_from_entries(list_transform(map_entries({sql}), lambda {inner}: {made}))"
    made = _packed(inner, [(field.name, field.type) for field in kind], level + 1)
    return f"list_transform([{sql}], lambda {inner}: CASE WHEN {inner} IS NOT NULL THEN {made} END)[1]"


def _packed(struct: str, parts: object, level: int) -> str:
    fields = (f"{quoted(name)} := {result_sql(f'struct_extract({struct}, {text(name)})', kind, level)}" for name, kind in parts)
    return f"struct_pack({', '.join(fields)})"


def stored(rows: pa.Table) -> pa.Table:
    """Rows with columns of intervals, for DuckDB: as numbers, or as structs. Raises InvalidQuery for what is no such interval."""
    columns = [_stored(column, field) for column, field in zip(rows.columns, rows.schema, strict=True)]
    return rows if all(map(lambda a, b: a is b, columns, rows.columns)) else pa.table(columns, names=rows.column_names)


def _stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    kind = interval_of(field)
    if kind is None:
        return column
    if kind.arrow == DURATION:
        return column.cast(DURATION).cast(pa.int64())
    return pa.chunked_array([_numbers(chunk, field, kind) for chunk in column.chunks], kind.storage_type)


def _numbers(chunk: pa.Array, field: pa.Field, kind: Interval) -> pa.Array:
    """The months of intervals, or structs of their parts."""
    values = parts(chunk)
    nulls = chunk.is_null().to_numpy(zero_copy_only=False)
    microseconds, rest = np.divmod(values["nanoseconds"], 1000)
    wrong = rest != 0 if kind.is_calendar else (values["days"] != 0) | (values["nanoseconds"] != 0)
    if (wrong & ~nulls).any():
        expected = "whole microseconds" if kind.is_calendar else "months"
        found = chunk[int(np.flatnonzero(wrong & ~nulls)[0])]
        raise InvalidQuery(f"a value is no {kind}", where=f"column {field.name!r}", expected=expected, found=found)
    if kind.is_months:
        return pa.array(values["months"].copy(), mask=nulls)
    columns = (values["months"].copy(), values["days"].copy(), microseconds)
    return pa.StructArray.from_arrays([pa.array(one) for one in columns], fields=list(kind.storage_type), mask=pa.array(nulls))
