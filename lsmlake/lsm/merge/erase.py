"""Erasing deletes: they remove all earlier rows of their key, whatever the sequence of those rows and the merge rule.

An erasing delete applies in order of arrival, while merge rules order rows by sequence. So erasures are applied before the rule:

1. For each key, drop the rows that arrived before its last erasing row, and drop rows that only erase (kind `rowkind.ERASE`).
2. Let the rule merge the remaining rows.
3. Unless no older row of the key can exist (`complete`), keep the erasure for the next merge, which may read older files: set
   the flag `rowkind.ERASES` on the first row of the key, or emit a row of kind `rowkind.ERASE` if no row is left.

Runs are ordered by arrival, and an erasing row is the first of its key in its run, so row numbers show the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.kernels.groups import Groups, gather
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import numbers
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.schema.rowkind import ERASE, ERASES, kinds_of, plain, with_kind


def merge(
    rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str], pool: Threads | None, *, complete: bool
) -> pa.Table:
    """`MergeRule.merge` for rows in order of arrival that may erase their key. Without an erasing row it only reads the kinds."""
    kinds = kinds_of(rows)
    if kinds is None or not (kinds & ERASES).any():
        return rule.merge(rows, groups, pool, complete=complete)
    key_numbers = numbers(groups.starts, len(groups.rows))
    sorted_kinds = kinds[groups.rows]
    last_erasing = np.maximum.reduceat(np.where(sorted_kinds & ERASES, groups.rows, -1), groups.starts)
    kept = (groups.rows >= last_erasing[key_numbers]) & (sorted_kinds != ERASE)
    live, starts = np.unique(key_numbers[kept], return_index=True)
    erased = np.setdiff1d(np.arange(len(groups.starts)), live)
    made = rows.slice(0, 0)
    if len(live):
        made = rule.merge(with_kind(rows, plain(kinds)), Groups(groups.rows[kept], starts), pool, complete=complete)
    made_keys, first = _match_keys(made, gather(rows.select(key), groups.first[live]), key) if len(live) else (live, live)
    made_kinds = np.zeros(made.num_rows, np.int8) if kinds_of(made) is None else kinds_of(made).copy()
    if not complete:
        made_kinds[first[last_erasing[live] >= 0]] |= ERASES
    parts = [with_kind(made, made_kinds), with_kind(gather(rows, last_erasing[erased], pool), ERASE)]
    return gather(pa.concat_tables(parts), np.argsort(np.concatenate([live[made_keys], erased]), kind="stable"), pool)


def _match_keys(made: pa.Table, live: pa.Table, key: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each row of `made` the number of its key in `live`, and for each key of `live` its first row in `made`."""
    if made.num_rows == live.num_rows:
        every = np.arange(made.num_rows)
        return every, every
    made_keys, live_keys = comparable([made.select(key), live.select(key)])
    return np.searchsorted(live_keys, made_keys), np.searchsorted(made_keys, live_keys)
