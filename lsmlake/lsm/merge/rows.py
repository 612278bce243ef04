"""Moving rows of Arrow tables about: gathering them, and the `_row_kind` column that some runs have and others have not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.chunks import joined
from lsmlake.format.rowkind import DELETE, INSERT, UPDATE_BEFORE, is_retract
from lsmlake.format.schema import ROW_KIND, ROW_KIND_FIELD

Column = TypeVar("Column")
_KIND = ROW_KIND_FIELD.remove_metadata()
_ROWS_WORTH_A_TASK = 1 << 12


def by_column(make: Callable[[Column], pa.Array], columns: Iterable[Column], rows: int, pool: Executor | None) -> list[pa.Array]:
    """What `make` makes of every column, `rows` long: a column a task, where there is a pool and it is worth a thread."""
    return list(pool.map(make, columns)) if pool and rows >= _ROWS_WORTH_A_TASK else [make(column) for column in columns]


def gather(table: pa.Table, rows: np.ndarray, pool: Executor | None = None) -> pa.Table:
    """`table.take(rows)`, a column a task if there is a pool. Columns are joined first: Arrow looks the chunk of every row up."""
    indices = pa.array(rows)
    take = lambda column: pc.take(joined(column), indices, boundscheck=False)  # noqa: E731
    return pa.table(by_column(take, table.columns, len(rows), pool), schema=table.schema)


def kinds_of(table: pa.Table) -> np.ndarray | None:
    """The `_row_kind` column; `None` if there is none, so that all rows are +I."""
    return np.asarray(table[ROW_KIND]) if ROW_KIND in table.column_names else None


def takes_back(kinds: np.ndarray) -> np.ndarray:
    """True where the kind is -U or -D."""
    return (kinds == UPDATE_BEFORE) | (kinds == DELETE)


def with_kind(table: pa.Table, kinds: np.ndarray | int) -> pa.Table:
    """The table with these kinds as its `_row_kind`."""
    table = table.drop_columns([ROW_KIND]) if ROW_KIND in table.column_names else table
    return table.append_column(_KIND, pa.array(np.full(table.num_rows, kinds, np.int8)))


def with_kinds(runs: Sequence[pa.Table], *, always: bool = False) -> list[pa.Table]:
    """The runs with `_row_kind` on all of them or, unless `always`, on none: a run without it holds only +I."""
    if not always and not any(ROW_KIND in run.column_names for run in runs):
        return list(runs)
    return [run if ROW_KIND in run.column_names else with_kind(run, INSERT) for run in runs]


def without_deletes(table: pa.Table) -> pa.Table:
    """The rows that stand: deletes and the `_row_kind` column dropped."""
    if ROW_KIND not in table.column_names:
        return table
    kinds = table[ROW_KIND]
    return table.drop_columns([ROW_KIND]).filter(pc.invert(is_retract(kinds)))
