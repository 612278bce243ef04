"""Sequence groups of the `partial-update` rule: columns that follow sequence columns of their own.

1. A row whose sequence columns of the group are all null does not concern the group.
2. Of the others the row with the greatest sequence gives all columns of the group, nulls too. If it is a -U or -D, the columns
   are null and only the sequence is kept. Of equal sequences the last to arrive wins, unless it is late by `sequence.field`.
3. A column with an aggregate function takes the values of all rows that concern the group. A row is late if its sequence of the
   group is smaller than that of the row it is applied to.
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
from lsmlake.lsm.merge.fold import Fold
from lsmlake.lsm.merge.lateness import late_places, not_late
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places


@dataclass(frozen=True)
class SequenceGroup:
    """`sequence` orders the values of `columns`; `functions`: of the columns among them that are aggregated. `removes`: a -D that
    is not late in this group removes its key."""

    sequence: SequenceFields
    columns: tuple[str, ...]
    functions: Mapping[str, Function]
    removes: bool

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (*self.sequence.columns, *self.columns)

    def concerns(self, rows: pa.Table, groups: Groups) -> Concerned:
        """Which of `groups.rows` concern this group, and how new they are."""
        given = self.sequence.given(rows)[groups.rows]
        return Concerned(None if given.all() else given, self.sequence.ranks(rows)[groups.rows])


class Concerned(NamedTuple):
    """`places`: which rows concern a group (None: all). `ranks`: by its sequence; of other rows they mean nothing."""

    places: np.ndarray | None
    ranks: np.ndarray

    def at(self, chosen: np.ndarray) -> Concerned:
        return Concerned(None if self.places is None else self.places[chosen], self.ranks[chosen])

    def on_time(self, starts: np.ndarray, loses_ties: np.ndarray | None) -> np.ndarray:
        """The rows that concern the group and are not late in it."""
        late = late_places(self.ranks, starts, self.places, loses_ties)
        on_time = not_late(late, len(self.ranks))
        return on_time if self.places is None else on_time & self.places


class GroupColumns:
    """Makes the columns of one sequence group. `groups` and `retract` as in `combine.Combining.columns`; `loses_ties`: the rows
    that are late by `sequence.field`."""

    def __init__(
        self, group: SequenceGroup, rows: pa.Table, groups: Groups, retract: np.ndarray | None, loses_ties: np.ndarray | None
    ) -> None:
        self.group, self.groups = group, groups
        found = group.concerns(rows, groups)
        count = len(groups.rows)
        ordered = any(name in rows.column_names and not f.commutative_adds for name, f in group.functions.items())
        on_time = found.on_time(groups.starts, loses_ties) if ordered or loses_ties is not None else None
        if on_time is None:
            self.newest = newest_places(found.ranks, groups.starts, found.places)
        else:
            self.newest = last_where(on_time, groups.starts, count)
        self.values_from = self.newest if retract is None else np.where(retract[self.newest], -1, self.newest)
        places = np.arange(count) if found.places is None else np.flatnonzero(found.places)
        starts, self.present = (groups.starts, None) if found.places is None else kept(found.places, groups.starts)
        self.rows = groups.rows[places]
        self.fold = Fold(
            starts, len(places), None if retract is None else retract[places], None if on_time is None else ~on_time[places]
        )

    def make(self, name: str, values: pa.Array) -> pa.Array:
        """The column, one value a key."""
        count = len(self.groups.starts)
        if name in self.group.functions:
            if not len(self.rows):
                return nested.nulls(count, values.type)
            reduced = self.fold.reduce(self.group.functions[name], take(values, self.rows))
            return reduced if self.present is None else spread(reduced, self.present, count)
        places = self.values_from if name in self.group.columns else self.newest
        return take(values, np.where(places >= 0, self.groups.rows[places], -1))
