"""The `partial-update` rule: each column keeps its newest value that is not null, so several streams can fill different columns.

Under `sequence.field` a row is late if its sequence is smaller than that of the current row: it only fills columns that are null.
Columns of a sequence group have their own sequence columns instead:

1. The group ignores rows whose sequence columns of the group are all null. The others are its *sequenced rows*.
2. The sequenced row with the greatest sequence sets all columns of the group, including nulls. If it is a -U or -D, the columns
   become null and the sequence is kept. Of equal sequences the last to arrive wins, unless it is late by `sequence.field`.
3. A column with an aggregate function aggregates all sequenced rows. A row is late if its sequence in the group is smaller than
   that of the current row.

Source: Apache Paimon, `PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.kernels import nested, segments
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import joined
from lsmlake.kernels.segments import both, kept, last_where, spread, take, valid
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.merge.combine import MakeColumn, Uncombined, check_retracts, combine, replayed, validate
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.fold import LAST_NON_NULL, Fold, contests_of, function_for
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.lsm.merge.sequence import SequenceFields, from_first_add, last_removals, late_rows, newest_places, on_time_rows
from lsmlake.options.column_options import FUNCTION
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_AFTER, retractions
from lsmlake.schema.schema import Schema


@dataclass(frozen=True)
class SequenceGroup:
    """`sequence` orders the values of `columns`; `functions`: the aggregate functions by column. `removes`: a -D that is on time
    in this group removes its key."""

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
        contests = [
            contest._replace(only_sequenced=True)
            for name, made in functions
            for contest in contests_of(name, made, self.sequence)
        ]
        return [Contest(plain, self.sequence, Decisive.NEWEST, only_sequenced=True), *contests] if plain else contests

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
        sequenced = group.sequenced_rows(rows, groups)
        count = len(groups.rows)
        ordered = any(name in rows.column_names and not f.commutative_adds for name, f in group.functions.items())
        on_time = sequenced.on_time(groups.starts, loses_ties) if ordered or loses_ties is not None else None
        if on_time is None:
            self.newest = newest_places(sequenced.ranks, groups.starts, sequenced.flags)
        else:
            self.newest = last_where(on_time, groups.starts, count)
        self.values_from = self.newest if retract is None else np.where(retract[self.newest], -1, self.newest)
        places = np.arange(count) if sequenced.flags is None else np.flatnonzero(sequenced.flags)
        starts, self.present = (groups.starts, None) if sequenced.flags is None else kept(sequenced.flags, groups.starts)
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


# -- the rule ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartialUpdate(MergeRule):
    """`sequence`: orders whole rows. `remove_on_delete`: a -D removes its key."""

    primary_key: tuple[str, ...]
    sequence: SequenceFields
    groups: tuple[SequenceGroup, ...]
    remove_on_delete: bool

    old_row = OldRow.MERGED
    repeats_keys = True

    @property
    def deletes_by_key(self) -> bool:
        return self.remove_on_delete

    @staticmethod
    def of(schema: Schema, sequence: SequenceFields, where: str) -> PartialUpdate:
        """Raises InvalidOption."""
        options = schema.parsed_options
        groups = options.columns.sequence_groups
        _check_sequence(sequence, groups, where)
        functions = _functions(schema, groups, where)
        removing = options.merge.remove_on_sequence_group
        if unknown := [name for name in removing if not any(name in fields for fields in groups)]:
            raise InvalidOption(
                "partial-update.remove-record-on-sequence-group names a column that is not a sequence column of a group",
                where=where,
                expected=f"some of {[name for fields in groups for name in fields]}",
                found=unknown,
                cure="correct the names",
            )
        if options.merge.remove_on_delete and groups:
            raise InvalidOption(
                "partial-update.remove-record-on-delete excludes sequence groups, where a -D row retracts single groups",
                where=where,
                found=[",".join(fields) for fields in groups],
                cure="use partial-update.remove-record-on-sequence-group, or no groups",
            )
        sequence_groups = (
            SequenceGroup(SequenceFields(fields), columns, {n: functions[n] for n in columns if n in functions}, removes)
            for fields, columns in groups.items()
            for removes in [any(name in removing for name in fields)]
        )
        return PartialUpdate(schema.primary_key, sequence, tuple(sequence_groups), options.merge.remove_on_delete)

    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        return combine(rows, groups, pool, self, complete=complete)

    def uncombined_adds(self) -> Uncombined:
        functions = [function for group in self.groups for function in group.functions.values()]
        uncombined = Uncombined.of(functions, sequenced=True)
        return Uncombined.REPEATS if self.sequence and uncombined is Uncombined.NONE else uncombined

    def columns(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> MakeColumn:
        late = None if groups.unique else self.late(rows, groups, retract)
        makers: dict[str, GroupColumns] = {}
        for group in self.groups:
            if group.sequence.columns[0] in rows.column_names:
                makers |= dict.fromkeys(group.all_columns, GroupColumns(group, rows, groups, retract, late))
        adds = None if retract is None else ~retract
        order = Fold(groups.starts, len(groups.rows), retract, late).late_first()
        applied = Groups(groups.rows[order], groups.starts)
        added = None if adds is None else adds[order]
        newest = last_where(both(adds, None if late is None else ~late), groups.starts, len(groups.rows))

        def column(name: str) -> pa.Array:
            values = joined(rows[name])
            if name in self.primary_key:
                return take(values, groups.first)
            if name in makers:
                return makers[name].make(name, values)
            if name in self.sequence.columns:
                return take(values, groups.rows[newest])
            return _newest_value(values, applied, added)

        return column

    def late(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> np.ndarray | None:
        """A retraction does not change the sequence, unless `sequence.field` is the sequence of a group."""
        if not self.sequence:
            return None
        ranks = self.sequence.ranks(rows, every=True)[groups.rows]
        advances = None if retract is None or self._sequence_belongs_to_group else ~retract
        return late_rows(ranks, groups.starts, advances)

    @property
    def _sequence_belongs_to_group(self) -> bool:
        return any(group.sequence.columns == self.sequence.columns for group in self.groups)

    def contributing(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray:
        starts, retract, deletes = groups.starts, retractions(kinds), kinds == DELETE
        removing = [group.sequenced_rows(rows, groups) for group in self.groups if group.removes]
        if self.remove_on_delete and not self.sequence:
            last = last_where(deletes, starts, len(kinds))
        elif self.remove_on_delete or removing:

            def removes(places: np.ndarray, key_starts: np.ndarray) -> np.ndarray:
                late = self.late(rows, Groups(groups.rows[places], key_starts), retract[places])
                on_time = on_time_rows(late, len(places))
                removed = [on_time & group.at(places).on_time(key_starts, late) for group in removing]
                return np.logical_or.reduce(removed) if removing else on_time

            last = last_removals(deletes, ~retract, starts, removes)
        else:
            return from_first_add(~retract, starts)
        keep = np.arange(len(kinds)) > np.repeat(last, segments.lengths(starts, len(kinds)))
        keep &= from_first_add(~retract & keep, starts)
        return keep & ~self._late_deletes(rows, groups, kinds, keep)

    def _late_deletes(self, rows: pa.Table, groups: Groups, kinds: np.ndarray, keep: np.ndarray) -> np.ndarray:
        """Flags the -D rows among those to `keep` that fail to remove their key because they are late by `sequence.field`. They
        have no effect."""
        deletes = keep & (kinds == DELETE)
        if self.remove_on_delete or not self.sequence or not deletes.any():
            return deletes if self.remove_on_delete else np.zeros(len(kinds), bool)
        places = np.flatnonzero(keep)
        starts, _ = segments.kept(keep, groups.starts)
        late = self.late(rows, Groups(groups.rows[places], starts), retractions(kinds[places]))
        if late is None:
            return np.zeros(len(kinds), bool)
        deletes[places] &= late
        removing = (group.sequenced_rows(rows, groups).flags for group in self.groups if group.removes)
        sequenced = [np.ones(len(kinds), bool) if flags is None else flags for flags in removing]
        return deletes & np.logical_or.reduce(sequenced) if sequenced else np.zeros(len(kinds), bool)

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        return replayed(self, rows, groups)

    def contests(self, columns: Sequence[str]) -> list[Contest]:
        grouped = {name for group in self.groups for name in group.all_columns}
        alone = [name for name in columns if name not in grouped and name not in self.sequence.columns]
        contests = [Contest((name,), self.sequence, Decisive.NEWEST, skips_nulls=True) for name in alone]
        contests += [contest for group in self.groups for contest in group.contests()]
        removes = self.remove_on_delete or any(group.removes for group in self.groups)
        return [*contests, Contest((), self.sequence)] if removes else contests

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        wanted = {*columns, *self.sequence.columns}
        for group in self.groups:
            if group.removes or wanted & set(group.all_columns):
                wanted |= set(group.sequence.columns)
        return frozenset(wanted)

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        sequenced = [(group, group.sequence.any_valid(rows)) for group in self.groups if group.functions]
        retracts = None if kinds is None else retractions(kinds)
        for group, flags in sequenced:
            validate(group.functions, rows, flags if retracts is None else flags & ~retracts)
        if retracts is None or not retracts.any():
            return
        if not (self.remove_on_delete or self.groups):
            raise InvalidData(
                "merge-engine = partial-update does not support deletes with the options of this table",
                expected="only +I and +U rows",
                found=f"{int(retracts.sum())} rows of kind -U or -D",
                cure="set ignore-delete, partial-update.remove-record-on-delete or sequence groups",
            )
        for group, flags in sequenced:
            scope = f" of the sequence group {','.join(group.sequence.columns)}"
            check_retracts(group.functions, rows, kinds, retracts & flags, self.primary_key, scope)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """Stores +U as +I, other kinds unchanged."""
        return np.where(kinds == UPDATE_AFTER, INSERT, kinds).astype(np.int8)


def _check_sequence(sequence: SequenceFields, groups: Mapping[tuple[str, ...], tuple[str, ...]], where: str) -> None:
    """`sequence.field` may share columns with a group only if it is the group's sequence: other columns of a group may become
    smaller or null."""
    for fields, columns in groups.items():
        shared = [name for name in sequence.columns if name in (*fields, *columns)]
        if shared and (sequence.columns != fields or sequence.descending):
            raise InvalidOption(
                f"sequence.field and the sequence group of {','.join(fields)} share {shared}",
                where=where,
                expected="columns outside of all groups, or exactly the sequence columns of one group, in ascending order",
                found=f"sequence.field = {','.join(sequence.columns)}",
                cure="name other columns, or remove sequence.field: the columns of a group follow the group's own sequence",
            )


def _functions(schema: Schema, groups: Mapping[tuple[str, ...], tuple[str, ...]], where: str) -> dict[str, Function]:
    """Returns the functions of columns in groups. Columns outside of groups always take the newest value that is not null."""
    options = schema.parsed_options.columns
    named = options.functions
    sequences = {name for fields in groups for name in fields}
    members = {name for columns in groups.values() for name in columns}
    for column, name in named.items():
        if column in sequences:
            raise InvalidOption(
                f"sequence column {column!r} of a group has an aggregate function",
                where=where,
                found=name,
                cure=f"remove fields.{column}.{FUNCTION}: the column holds the newest sequence",
            )
        if column not in members and name != LAST_NON_NULL:
            raise InvalidOption(
                f"column {column!r} has an aggregate function but is in no sequence group",
                where=where,
                expected=f"a group, or {LAST_NON_NULL!r}",
                found=name,
                cure=f"add the column to a group: fields.<sequence column>.sequence-group = {column}",
            )
    if default := options.default_function:
        named = dict.fromkeys(members, default) | named
    options.check_settings(named, where)
    return {column: function_for(column, name, schema, where) for column, name in named.items() if column in members}


def _newest_value(values: pa.Array, groups: Groups, adds: np.ndarray | None) -> pa.Array:
    """Returns per key the last value that is not null and belongs to an added row."""
    has_value = valid(values)
    mask = both(None if has_value is None else has_value[groups.rows], adds)
    newest = last_where(mask, groups.starts, len(groups.rows))
    return take(values, np.where(newest >= 0, groups.rows[newest], -1))
