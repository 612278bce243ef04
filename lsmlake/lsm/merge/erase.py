"""Rows that erase their key: whatever was written before them is gone, whatever its sequence and whatever the merge rule.

An erasing delete counts by arrival, and merge rules order rows by sequence. So erasures are carried out before an rule sees
the rows:

1. of every key, the rows that arrived before its last erasing row are dropped, and so are erasing rows that hold nothing else;
2. the rule merges the rows that are left;
3. unless no older row of the key can exist (`complete`), the first row of such a key says that it erases (`rowkind.ERASES`), or,
   where no row is left, a row of kind `rowkind.ERASE` does. So older files that this merge did not read are erased by the next
   one.

Runs are ordered by arrival, and an erasing row is the first of its key in its run. So the row number tells what came before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa

from lsmlake.kernels.gather import gather
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import numbers
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.row_kinds import kinds_of, with_kind
from lsmlake.schema.rowkind import ERASE, ERASES, plain


def merge(
    rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str], pool: Executor | None, *, complete: bool
) -> pa.Table:
    """`MergeRule.merge` for rows that may erase their key. `rows` stand in order of arrival. Without an erasing row the only cost
    is one look at the kinds."""
    kinds = kinds_of(rows)
    if kinds is None or not (kinds & ERASES).any():
        return rule.merge(rows, groups, pool, complete=complete)
    of_key = numbers(groups.starts, len(groups.rows))
    sorted_kinds = kinds[groups.rows]
    last = np.maximum.reduceat(np.where(sorted_kinds & ERASES, groups.rows, -1), groups.starts)
    kept = (groups.rows >= last[of_key]) & (sorted_kinds != ERASE)
    alive, starts = np.unique(of_key[kept], return_index=True)
    gone = np.setdiff1d(np.arange(len(groups.starts)), alive)
    made = rows.slice(0, 0)
    if len(alive):
        made = rule.merge(with_kind(rows, plain(kinds)), Groups(groups.rows[kept], starts), pool, complete=complete)
    made_of, first = _keys_of(made, gather(rows.select(key), groups.first[alive]), key) if len(alive) else (alive, alive)
    made_kinds = np.zeros(made.num_rows, np.int8) if kinds_of(made) is None else kinds_of(made).copy()
    if not complete:
        made_kinds[first[last[alive] >= 0]] |= ERASES
    parts = [with_kind(made, made_kinds), with_kind(gather(rows, last[gone], pool), ERASE)]
    return gather(pa.concat_tables(parts), np.argsort(np.concatenate([alive[made_of], gone]), kind="stable"), pool)


def _keys_of(made: pa.Table, alive: pa.Table, key: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Of every row in `made` the number of its key in `alive`; of every key in `alive` its first row in `made`."""
    if made.num_rows == alive.num_rows:
        every = np.arange(made.num_rows)
        return every, every
    own, there = comparable([made.select(key), alive.select(key)])
    return np.searchsorted(there, own), np.searchsorted(own, there)
