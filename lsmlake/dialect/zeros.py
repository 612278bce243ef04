"""Negative zero: Spark compares it as equal to 0.0, and gives 0.0 for both where it makes one value of equal ones: in groups,
DISTINCT, set operations, sets and the keys of maps."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.dialect.types import duck_name, holds, quoted, text


def one_zero(sql: str, kind: pa.DataType, depth: int = 0) -> str:
    """An expression of DuckDB with 0.0 for -0.0, also inside of arrays and structs. `depth`: how many of these are around it."""
    if pa.types.is_floating(kind):
        return f"({sql} + CAST(0 AS {duck_name(kind)}))"
    if not holds(kind, pa.types.is_floating):
        return sql
    inside = f"z{depth}"
    if pa.types.is_list(kind):
        return f"list_transform({sql}, lambda {inside}: {one_zero(inside, kind.value_type, depth + 1)})"
    fields = (
        f"{quoted(one.name)} := {one_zero(f'struct_extract({inside}, {text(one.name)})', one.type, depth + 1)}" for one in kind
    )
    made = f"CASE WHEN {inside} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    return f"list_transform([{sql}], lambda {inside}: {made})[1]"
