"""Casts of whole tables."""

from __future__ import annotations

import pyarrow as pa


def cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table.cast(schema)`, for tables of few rows too: Arrow calls a kernel even for a column that has its type already."""
    if table.schema.equals(schema):
        return table
    columns = table.columns
    if table.column_names != schema.names or not all(map(_fits, columns, schema)):
        return table.cast(schema)
    return pa.Table.from_arrays(columns, schema=schema)


def _fits(column: pa.ChunkedArray, field: pa.Field) -> bool:
    return column.type.equals(field.type) and (field.nullable or not column.null_count)
