"""Joins chunked columns without their empty chunks: Arrow fails to join some empty chunks of its own casts (ArrowIndexError)."""

from __future__ import annotations

import pyarrow as pa


def filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column without empty chunks."""
    if all(map(len, column.chunks)):
        return column
    return pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array, without a copy if it has one chunk."""
    column = filled(column)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
