"""Gathers rows of Arrow tables by position, column by column.

Chunked columns are joined without their empty chunks: Arrow fails to join some empty chunks of its own casts (ArrowIndexError).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.beside import Threads

Column = TypeVar("Column")
_ROWS_WORTH_A_TASK = 1 << 12


def by_column(make: Callable[[Column], pa.Array], columns: Iterable[Column], rows: int, pool: Threads | None) -> list[pa.Array]:
    """Applies `make` to each column, in parallel if there is a pool and `rows` are enough to justify a task per column."""
    return list(pool.map(make, columns)) if pool and rows >= _ROWS_WORTH_A_TASK else [make(column) for column in columns]


def gather(table: pa.Table, rows: np.ndarray, pool: Threads | None = None) -> pa.Table:
    """Returns `table.take(rows)`, one task per column if there is a pool. Joins chunks first: Arrow would look up the chunk of
    each row."""
    indices = pa.array(rows)
    take = lambda column: pc.take(joined(column), indices, boundscheck=False)  # noqa: E731
    return pa.table(by_column(take, table.columns, len(rows), pool), schema=table.schema)


def filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column without empty chunks."""
    if all(map(len, column.chunks)):
        return column
    return pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array, without a copy if it has one chunk."""
    column = filled(column)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def in_one_chunk(table: pa.Table) -> pa.Table:
    """Returns the table with one chunk per column; copies only columns of several chunks."""
    return pa.table([joined(column) for column in table.columns], schema=table.schema)
