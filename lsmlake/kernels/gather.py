"""Gathering rows of Arrow tables by position, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.chunks import joined

Column = TypeVar("Column")
_ROWS_WORTH_A_TASK = 1 << 12


def by_column(make: Callable[[Column], pa.Array], columns: Iterable[Column], rows: int, pool: Executor | None) -> list[pa.Array]:
    """What `make` makes of every column, `rows` long: a column a task, where there is a pool and it is worth a thread."""
    return list(pool.map(make, columns)) if pool and rows >= _ROWS_WORTH_A_TASK else [make(column) for column in columns]


def gather(table: pa.Table, rows: np.ndarray, pool: Executor | None = None) -> pa.Table:
    """`table.take(rows)`, a column a task if there is a pool. Columns are joined first: Arrow looks the chunk of every row up."""
    indices = pa.array(rows)
    take = lambda column: pc.take(joined(column), indices, boundscheck=False)  # noqa: E731
    return pa.table(by_column(take, table.columns, len(rows), pool), schema=table.schema)
