"""Merging sorted runs by a table's rule, and folding a batch before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels.groups import Groups, group
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.blame import merged
from lsmlake.lsm.merge.erase import merge
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.row_kinds import with_kinds
from lsmlake.schema.schema import ROW_KIND


def merge_runs(
    runs: Sequence[pa.Table], key: Sequence[str], rule: MergeRule, pool: Executor | None = None, *, complete: bool = True
) -> pa.Table:
    """Merge sorted runs, oldest first, into one, ascending by key, -D rows kept: one row a key if the runs are `complete`, that
    is, if no older row of their keys exists (see `MergeRule.merge`).

    The runs have the same columns but for `_row_kind`. O(rows log runs) compares. With a `pool` columns are made in parallel.
    Raises Unmergeable.
    """
    runs = with_kinds([run for run in runs if run.num_rows] or runs[:1])
    if len(runs) == 1 and not (rule.repeats_keys and ROW_KIND in runs[0].column_names):
        return runs[0]
    rows = pa.concat_tables(runs)
    keys = comparable([run.select(key) for run in runs])
    groups = grouped(np.concatenate(keys))
    return merged(lambda some: merge(rows, some, rule, key, pool, complete=complete), rows, groups, key)


def check_each(rule: MergeRule, rows: pa.Table, key: Sequence[str]) -> None:
    """Raises Unmergeable, which names the keys of the added `rows` that the rule could never merge. Each key has one row."""

    def checked(some: Groups) -> pa.Table:
        part = rows.take(pa.array(some.rows))
        rule.validate(part, None)
        return part

    try:
        rule.validate(rows, None)
    except InvalidData:
        merged(checked, rows, grouped(comparable([rows.select(key)])[0]), key)


def distinct(keys: Sequence[pa.Table]) -> pa.Table:
    """The keys (tables of key columns, in any order) ascending, each once."""
    return pa.concat_tables(keys).take(pa.array(group(np.concatenate(comparable(keys))).first))


def grouped(keys: np.ndarray, arrival: np.ndarray | None = None, codes: np.ndarray | None = None) -> Groups:
    """Row numbers by code and key, those of a key by `arrival` (default: as they stand)."""
    return group(keys, [] if arrival is None else [arrival], codes)
