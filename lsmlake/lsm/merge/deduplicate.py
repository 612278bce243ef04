"""The `deduplicate` rule: a row replaces the row of its key, unless its sequence is smaller; a delete removes that row.

Rows count one at a time in the order they arrived. A delete removes the sequence with the row, so under `sequence.field` a row
that arrives after a delete is a new row, whatever its own sequence is. What the rows of a run do to an older row therefore
depends on two of them at most:

1. the row with the greatest sequence. If it is late for the older row, all rows of the run are; if not, it replaces that row and
   all that came before itself;
2. if that row is a delete, the row that stands after it. So a run may hold two rows of a key: the delete, then the new row.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.kernels.gather import gather
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.merge.lateness import last_removals, late_places, not_late
from lsmlake.lsm.merge.rule import MergeRule, Old
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places
from lsmlake.lsm.row_kinds import kinds_of
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_AFTER


@dataclass(frozen=True)
class Deduplicate(MergeRule):
    sequence: SequenceFields
    deletes_by_key = True

    @property
    def old(self) -> Old:
        return Old.BY_SEQUENCE if self.sequence else Old.DIES

    @property
    def repeats_keys(self) -> bool:
        return bool(self.sequence)

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, complete: bool) -> pa.Table:
        if not self.sequence or groups.unique:
            return gather(rows, groups.last, pool)
        deciding, standing = self._places(rows, groups)
        places = standing if complete else np.union1d(deciding, standing)
        return gather(rows, groups.rows[places], pool)

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        if not self.sequence or groups.unique:
            return groups.rows
        count = len(groups.rows)
        last = np.zeros(count, np.int64)
        for number, places in enumerate(self._places(rows, groups), 1):
            last[places] = number
        ranks = self.sequence.ranks(rows, every=True)[groups.rows]
        return groups.rows[np.lexsort((ranks, last, segments.numbers(groups.starts, count)))]

    def _places(self, rows: pa.Table, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
        """Of every key the row with the greatest sequence, and the row that stands at the end. They differ if the former is a
        delete and another row follows it."""
        starts, count = groups.starts, len(groups.rows)
        ranks = self.sequence.ranks(rows, every=True)[groups.rows]
        deciding = newest_places(ranks, starts)
        kinds = kinds_of(rows)
        if kinds is None:
            return deciding, deciding
        kinds = kinds[groups.rows]
        revived = (kinds[deciding] == DELETE) & (deciding < starts + segments.lengths(starts, count) - 1)
        after = np.flatnonzero(np.repeat(revived, segments.lengths(starts, count)))
        number = segments.numbers(starts, count)
        after = after[after > deciding[number[after]]]
        if not len(after):
            return deciding, deciding
        own = segments.of_sorted(number[after])
        kinds, ranks = kinds[after], ranks[after]

        def removes(places: np.ndarray, of_keys: np.ndarray) -> np.ndarray:
            return not_late(late_places(ranks[places], of_keys), len(places))

        removed = last_removals(kinds == DELETE, kinds != DELETE, own, removes)
        counts = (np.arange(len(after)) > np.repeat(removed, segments.lengths(own, len(after)))) & (kinds != DELETE)
        newest = newest_places(ranks, own, counts)
        standing = deciding.copy()
        standing[number[after[own[newest >= 0]]]] = after[newest[newest >= 0]]
        return deciding, standing

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns) | frozenset(self.sequence.columns)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """-U counts as -D: the row as it was is gone."""
        return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), INSERT, DELETE).astype(np.int8)
