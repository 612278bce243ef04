"""Chunked columns: some chunks are empty, and Arrow cannot join every empty chunk that its own casts make (ArrowIndexError)."""

from __future__ import annotations

import pyarrow as pa


def filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without empty chunks."""
    if all(map(len, column.chunks)):
        return column
    return pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; no copy if there is one chunk."""
    column = filled(column)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
