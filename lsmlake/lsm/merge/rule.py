"""Merge rules: how the rows of a key become one. `MergeRule` is their interface; `merge_runs` merges sorted runs in memory by a
rule; `merge_windows` merges runs that are larger than memory.

Erasing deletes remove all earlier rows of their key, whatever the sequence of those rows and the merge rule. An erasing delete
applies in order of arrival, while merge rules order rows by sequence. So erasures are applied before the rule (`merge`):

1. For each key, drop the rows that arrived before its last erasing row, and drop rows that only erase (kind `rowkind.ERASE`).
2. Let the rule merge the remaining rows.
3. Unless no older row of the key can exist (`complete`), keep the erasure for the next merge, which may read older files: set
   the flag `rowkind.ERASES` on the first row of the key, or emit a row of kind `rowkind.ERASE` if no row is left.

Runs are ordered by arrival, and an erasing row is the first of its key in its run, so row numbers show the order of arrival.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidData
from lsmlake.kernels.groups import Groups, gather, group
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import numbers
from lsmlake.lsm.merge.contested import Contest
from lsmlake.lsm.merge.merge_errors import merge_or_name_keys
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import ERASE, ERASES, kinds_of, plain, with_kind, with_kinds
from lsmlake.schema.schema import ROW_KIND


class OldRow(Enum):
    """What a compaction of a level-0 row does with the row of the same key at a deeper level."""

    REPLACED = "the new row replaces it"
    KEPT = "it is kept and the new row is dropped"
    BY_SEQUENCE = "the row with the smaller sequence is dropped"
    MERGED = "it is merged with the new row; the result replaces both"


class MergeRule(ABC):
    """How the rows of a key become one. A value without state, made from a schema by `rule_of`.

    The result of a merge is that of applying the rows one at a time in the order of their arrival. It does not depend on how rows
    are divided into batches, files and compactions.

    Attributes:
        old_row: see `OldRow`.
        sequence: the columns of `sequence.field`; empty if the rule does not use them.
        repeats_keys: a run may hold several rows of a key, because their result depends on a row that is older than the run.
        deletes_by_key: a -D row with only the key columns removes the row of the key.
        retains: deletes keep their sequence for a time (`lsm.merge.retained_deletes`).
    """

    old_row: OldRow
    sequence: SequenceFields
    repeats_keys: bool
    deletes_by_key: bool
    retains: bool = False

    def of_one_commit(self) -> MergeRule:
        """The rule for rows of one commit that are merged before it."""
        return self

    @abstractmethod
    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        """Merges the rows of each key.

        Args:
            rows: the key and any columns that are closed under `needs`, with or without `_row_kind`.
            groups: the rows of every key in the order of their arrival.
            pool: threads that compute columns in parallel, or None.
            complete: no older row of these keys exists, so the result has one row per key. Otherwise a rule that `repeats_keys`
                may leave several rows of a key in the result, in the order of their arrival.

        Returns:
            The merged rows in the order of the groups. A key that is deleted has a -D row. The result may have the column
            `_row_kind` if `rows` has it.
        """

    @abstractmethod
    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        """The row numbers, key by key. Applying the rows of a key in this order, without comparing sequences, gives the merged
        row."""

    @abstractmethod
    def contests(self, columns: Sequence[str]) -> list[Contest]:
        """The parts of the merged row that depend on the order of rows. `columns`: all columns outside the key."""

    @abstractmethod
    def needs(self, columns: Collection[str]) -> frozenset[str]:
        """The columns that are required to merge `columns`, including `columns`."""

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        """Refuses rows that the rule could never merge: a value that no merge accepts, such as bytes that are not a sketch, or a
        kind that does not fit the columns. Called before rows are written.

        Args:
            rows: the rows of a batch, all columns.
            kinds: their row kinds (int8, `schema.rowkind`) as the writer gave them. None: all are +I.

        Raises:
            InvalidData: there is such a row.
        """
        return None  # the default: every row is accepted

    @abstractmethod
    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """The row kinds to store, for a batch that passed `validate`."""


# -- erasing deletes --------------------------------------------------------------------------------------------------


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
    merged = rows.slice(0, 0)
    if len(live):
        merged = rule.merge(with_kind(rows, plain(kinds)), Groups(groups.rows[kept], starts), pool, complete=complete)
    merged_keys, first = _match_keys(merged, gather(rows.select(key), groups.first[live]), key) if len(live) else (live, live)
    merged_kinds = np.zeros(merged.num_rows, np.int8) if kinds_of(merged) is None else kinds_of(merged).copy()
    if not complete:
        merged_kinds[first[last_erasing[live] >= 0]] |= ERASES
    parts = [with_kind(merged, merged_kinds), with_kind(gather(rows, last_erasing[erased], pool), ERASE)]
    return gather(pa.concat_tables(parts), np.argsort(np.concatenate([live[merged_keys], erased]), kind="stable"), pool)


def _match_keys(made: pa.Table, live: pa.Table, key: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each row of `made` the number of its key in `live`, and for each key of `live` its first row in `made`."""
    if made.num_rows == live.num_rows:
        every = np.arange(made.num_rows)
        return every, every
    merged_keys, live_keys = comparable([made.select(key), live.select(key)])
    return np.searchsorted(live_keys, merged_keys), np.searchsorted(merged_keys, live_keys)


# -- runs -------------------------------------------------------------------------------------------------------------


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
    groups = group(np.concatenate(keys))
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
        merge_or_name_keys(checked, rows, group(comparable([rows.select(key)])[0]), key)


def distinct(keys: Sequence[pa.Table]) -> pa.Table:
    """Returns the distinct keys of the tables of key columns, ascending."""
    return pa.concat_tables(keys).take(pa.array(group(np.concatenate(comparable(keys))).first))
