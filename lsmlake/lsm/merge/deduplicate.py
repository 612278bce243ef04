"""The `deduplicate` rule: a row replaces the older row of its key unless its sequence is smaller; a delete removes that row.

Rows are applied one at a time, in order of arrival. A delete removes the sequence together with the row: under `sequence.field`,
a row that arrives after a delete is a new row, whatever its sequence. (Rows that a retained delete ignores, by
`sequence.delete-retained`, are removed before: `lsm.merge.retained_deletes`.) A sorted run therefore keeps at most two rows of a
key:

1. The row with the greatest sequence. If it is late against an older row, all rows of the run are late. If not, it replaces the
   older row and all rows that arrived before it.
2. If that row is a delete: the row that later arrivals leave. The run then holds the delete, followed by the new row.

If deletes are retained, rows of one commit are in the order of their sequences instead: only the first of the two is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.kernels import segments
from lsmlake.kernels.groups import Groups, gather
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.lsm.merge.sequence import SequenceFields, last_removals, late_rows, newest_places, on_time_rows
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_AFTER, kinds_of


@dataclass(frozen=True)
class Deduplicate(MergeRule):
    """`retains`: deletes keep their sequence for a time. `by_sequence`: the rows are of one commit, and ordered by sequence."""

    sequence: SequenceFields
    retains: bool = False
    by_sequence: bool = False
    deletes_by_key = True

    @property
    def old_row(self) -> OldRow:
        return OldRow.BY_SEQUENCE if self.sequence else OldRow.REPLACED

    @property
    def repeats_keys(self) -> bool:
        return bool(self.sequence)

    def of_one_commit(self) -> Deduplicate:
        return replace(self, by_sequence=self.retains)

    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        if not self.sequence or groups.unique:
            return gather(rows, groups.last, pool)
        greatest, final = self._places(rows, groups)
        places = final if complete or final is greatest else np.union1d(greatest, final)
        return gather(rows, groups.rows[places], pool)

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        if not self.sequence or groups.unique:
            return groups.rows
        count = len(groups.rows)
        last = np.zeros(count, np.int64)  # 1: the row with the greatest sequence, 2: a row after it that remains
        for number, places in enumerate(self._places(rows, groups), 1):
            last[places] = number
        shared = segments.shared(groups.starts, count)
        ranks = self.sequence.ranks(rows, every=True)[groups.rows[shared]]
        order = groups.rows.copy()
        order[shared] = groups.rows[shared][np.lexsort((ranks, last[shared], segments.numbers(groups.starts, count)[shared]))]
        return order

    def _places(self, rows: pa.Table, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
        """Returns per key the place of the row with the greatest sequence, and the place of the final row. They differ if the
        former is a delete and a row after it remains."""
        starts, count = groups.starts, len(groups.rows)
        ranks = self.sequence.ranks(rows, every=True)[groups.rows]
        greatest = newest_places(ranks, starts)
        kinds = None if self.by_sequence else kinds_of(rows)
        if kinds is None:
            return greatest, greatest
        kinds = kinds[groups.rows]
        reinserted = (kinds[greatest] == DELETE) & (greatest < starts + segments.lengths(starts, count) - 1)
        after = np.flatnonzero(np.repeat(reinserted, segments.lengths(starts, count)))
        number = segments.numbers(starts, count)
        after = after[after > greatest[number[after]]]
        if not len(after):
            return greatest, greatest
        after_starts = segments.of_sorted(number[after])
        kinds, ranks = kinds[after], ranks[after]

        def removes(places: np.ndarray, key_starts: np.ndarray) -> np.ndarray:
            return on_time_rows(late_rows(ranks[places], key_starts), len(places))

        removed = last_removals(kinds == DELETE, kinds != DELETE, after_starts, removes)
        remaining = (np.arange(len(after)) > np.repeat(removed, segments.lengths(after_starts, len(after)))) & (kinds != DELETE)
        newest = newest_places(ranks, after_starts, remaining)
        final = greatest.copy()
        final[number[after[after_starts[newest >= 0]]]] = after[newest[newest >= 0]]
        return greatest, final

    def contests(self, columns: Sequence[str]) -> list[Contest]:
        newest = Contest(tuple(columns), self.sequence, Decisive.NEWEST, deletes_are_equal=True)
        forgets = self.sequence and not self.retains  # a row that arrives after a delete stays, whatever its sequence
        return [newest, Contest((), self.sequence)] if forgets else [newest]

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns) | frozenset(self.sequence.columns)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """Stores -U as -D, +U as +I."""
        return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), INSERT, DELETE).astype(np.int8)
