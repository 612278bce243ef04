"""Sequence groups of the `partial-update` rule: columns with their own sequence columns.

1. The group ignores rows whose sequence columns of the group are all null. The others are its *sequenced rows*.
2. The sequenced row with the greatest sequence sets all columns of the group, including nulls. If it is a -U or -D, the columns
   become null and the sequence is kept. Of equal sequences the last to arrive wins, unless it is late by `sequence.field`.
3. A column with an aggregate function aggregates all sequenced rows. A row is late if its sequence in the group is smaller than
   that of the current row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels import nested
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.segments import kept, last_where, spread, take
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.fold import Fold, contests_of
from lsmlake.lsm.merge.late import late_rows, on_time_rows
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places


@dataclass(frozen=True)
class SequenceGroup:
    """`sequence` orders the values of `columns`; `functions`: by column, of those that are aggregated. `removes`: a -D that is on
    time in this group removes its key."""

    sequence: SequenceFields
    columns: tuple[str, ...]
    functions: Mapping[str, Function]
    removes: bool

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (*self.sequence.columns, *self.columns)

    def contests(self) -> list[Contest]:
        """See `MergeRule.contests`."""
        plain = tuple(name for name in self.columns if name not in self.functions)
        functions = self.functions.items()
        found = [
            contest._replace(only_sequenced=True)
            for name, made in functions
            for contest in contests_of(name, made, self.sequence)
        ]
        return [Contest(plain, self.sequence, Decisive.NEWEST, only_sequenced=True), *found] if plain else found

    def sequenced_rows(self, rows: pa.Table, groups: Groups) -> SequencedRows:
        """Returns which of `groups.rows` are sequenced rows of this group, and their ranks."""
        flags = self.sequence.any_valid(rows)[groups.rows]
        return SequencedRows(None if flags.all() else flags, self.sequence.ranks(rows)[groups.rows])


class SequencedRows(NamedTuple):
    """`flags`: the sequenced rows of a group (None: all). `ranks`: by its sequence, undefined for other rows."""

    flags: np.ndarray | None
    ranks: np.ndarray

    def at(self, places: np.ndarray) -> SequencedRows:
        return SequencedRows(None if self.flags is None else self.flags[places], self.ranks[places])

    def on_time(self, starts: np.ndarray, loses_ties: np.ndarray | None) -> np.ndarray:
        """Flags the sequenced rows that are not late in the group."""
        late = late_rows(self.ranks, starts, self.flags, loses_ties)
        on_time = on_time_rows(late, len(self.ranks))
        return on_time if self.flags is None else on_time & self.flags


class GroupColumns:
    """Builds the columns of one sequence group. `groups` and `retract` as in `combine.Combining.columns`; `loses_ties` flags the
    rows that are late by `sequence.field`."""

    def __init__(
        self, group: SequenceGroup, rows: pa.Table, groups: Groups, retract: np.ndarray | None, loses_ties: np.ndarray | None
    ) -> None:
        self.group, self.groups = group, groups
        found = group.sequenced_rows(rows, groups)
        count = len(groups.rows)
        ordered = any(name in rows.column_names and not f.commutative_adds for name, f in group.functions.items())
        on_time = found.on_time(groups.starts, loses_ties) if ordered or loses_ties is not None else None
        if on_time is None:
            self.newest = newest_places(found.ranks, groups.starts, found.flags)
        else:
            self.newest = last_where(on_time, groups.starts, count)
        self.values_from = self.newest if retract is None else np.where(retract[self.newest], -1, self.newest)
        places = np.arange(count) if found.flags is None else np.flatnonzero(found.flags)
        starts, self.present = (groups.starts, None) if found.flags is None else kept(found.flags, groups.starts)
        self.rows = groups.rows[places]
        self.fold = Fold(
            starts, len(places), None if retract is None else retract[places], None if on_time is None else ~on_time[places]
        )

    def make(self, name: str, values: pa.Array) -> pa.Array:
        """Returns the column with one value per key."""
        count = len(self.groups.starts)
        if name in self.group.functions:
            if not len(self.rows):
                return nested.nulls(count, values.type)
            reduced = self.fold.reduce(self.group.functions[name], take(values, self.rows))
            return reduced if self.present is None else spread(reduced, self.present, count)
        places = self.values_from if name in self.group.columns else self.newest
        return take(values, np.where(places >= 0, self.groups.rows[places], -1))
