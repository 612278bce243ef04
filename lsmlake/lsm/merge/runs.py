"""Merges sorted runs in memory by a table's merge rule. `windows` merges runs that are larger than memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidData
from lsmlake.kernels.groups import Groups, group
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.erase import merge
from lsmlake.lsm.merge.merge_errors import merge_or_name_keys
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.schema.rowkind import with_kinds
from lsmlake.schema.schema import ROW_KIND


def merge_runs(
    runs: Sequence[pa.Table], key: Sequence[str], rule: MergeRule, pool: Threads | None = None, *, complete: bool = True
) -> pa.Table:
    """Merges sorted runs, oldest first, into one run that ascends by key and keeps -D rows.

    Args:
        runs: Tables with the same columns; only `_row_kind` may be missing in some.
        key: The key columns.
        rule: The merge rule of the table.
        pool: Threads that build columns in parallel, or None.
        complete: True if no older row of these keys exists; the result then has one row per key (see `MergeRule.merge`).

    Raises:
        Unmergeable: The rows of a key cannot be merged.
    """
    runs = with_kinds([run for run in runs if run.num_rows] or runs[:1])
    if len(runs) == 1 and not (rule.repeats_keys and ROW_KIND in runs[0].column_names):
        return runs[0]
    rows = pa.concat_tables(runs)
    keys = comparable([run.select(key) for run in runs])
    groups = grouped(np.concatenate(keys))
    return merge_or_name_keys(lambda some: merge(rows, some, rule, key, pool, complete=complete), rows, groups, key)


def check_each(rule: MergeRule, rows: pa.Table, key: Sequence[str]) -> None:
    """Raises Unmergeable with the keys of the added `rows` that the rule can never merge. Each key has one row."""

    def checked(some: Groups) -> pa.Table:
        part = rows.take(pa.array(some.rows))
        rule.validate(part, None)
        return part

    try:
        rule.validate(rows, None)
    except InvalidData:
        merge_or_name_keys(checked, rows, grouped(comparable([rows.select(key)])[0]), key)


def distinct(keys: Sequence[pa.Table]) -> pa.Table:
    """Returns the distinct keys of the tables of key columns, ascending."""
    return pa.concat_tables(keys).take(pa.array(group(np.concatenate(comparable(keys))).first))


def grouped(keys: np.ndarray, arrival: np.ndarray | None = None, codes: np.ndarray | None = None) -> Groups:
    """Groups row numbers by `codes` and key; the rows of a key are ordered by `arrival` (default: by row number)."""
    return group(keys, [] if arrival is None else [arrival], codes)
