"""The `deduplicate` engine: of all rows of a key the newest wins; if that is a delete, the key is gone.

Runs are Arrow tables sorted by key; recency is their order in the list. One stable sort over the concatenation does it: stable
sorting gallops over the runs, which are sorted already, and leaves equal keys in order of age, so the last of a group wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.rowkind import is_retract
from lsmlake.format.schema import ROW_KIND, ROW_KIND_FIELD
from lsmlake.lsm.keys import comparable


def merge_runs(runs: Sequence[pa.Table], key: Sequence[str], pool: Executor | None = None) -> pa.Table:
    """Merge sorted runs, oldest first, into one: ascending by key, keys unique, the newest row of each, deletes kept.

    All runs have the same columns, `_row_kind` included if any has it (`with_kinds`). O(rows log runs) compares. With a `pool`
    columns are gathered in parallel.
    """
    runs = [run for run in runs if run.num_rows]
    if len(runs) == 1:
        return runs[0]
    winners = newest(comparable([run.select(key) for run in runs]))
    return gather(pa.concat_tables(runs), winners, pool)


def newest(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Row numbers, in the concatenation of `keys` (oldest first), of the newest row of every key, in key order."""
    joined = np.concatenate(keys) if len(keys) > 1 else keys[0]
    order = np.argsort(joined, kind="stable")
    ordered = joined[order]
    last = np.empty(len(order), bool)
    last[-1:] = True
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    return order if last.all() else order[last]


def gather(table: pa.Table, rows: np.ndarray, pool: Executor | None = None) -> pa.Table:
    """`table.take(rows)`, a column a task if there is a pool."""
    indices = pa.array(rows)
    take = lambda column: _take(column, indices)  # noqa: E731
    columns = list(pool.map(take, table.columns)) if pool else [take(column) for column in table.columns]
    return pa.table(columns, schema=table.schema)


def _take(column: pa.ChunkedArray, indices: pa.Array) -> pa.Array:
    # one chunk first: taking from many chunks resolves the chunk of every row
    return pc.take(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0), indices, boundscheck=False)


def with_kinds(runs: Sequence[pa.Table]) -> list[pa.Table]:
    """The runs with `_row_kind` on all of them or on none: a run without it holds only +I."""
    if not any(ROW_KIND in run.column_names for run in runs):
        return list(runs)
    return [
        run if ROW_KIND in run.column_names else run.append_column(_KIND, pa.array(np.zeros(run.num_rows, np.int8)))
        for run in runs
    ]


_KIND = ROW_KIND_FIELD.remove_metadata()


def without_deletes(table: pa.Table) -> pa.Table:
    """The rows that stand: deletes and the `_row_kind` column dropped."""
    if ROW_KIND not in table.column_names:
        return table
    kinds = table[ROW_KIND]
    return table.drop_columns([ROW_KIND]).filter(pc.invert(is_retract(kinds)))
