"""The `partial-update` engine: of every column the newest value that is not null, so that each stream may bring its own columns.

Columns of a *sequence group* follow the group's own sequence columns instead:

1. a row whose sequence columns of the group are all null does not concern the group;
2. of the others the one newest by that sequence - the last to arrive among equals - gives all columns of the group, nulls too; if
   it is a -U or -D, its columns are null, and only the sequence is kept;
3. a column of the group with an aggregate function takes the values of all of them, in the order of the sequence.

Source: Apache Paimon, `PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.field_options import AGGREGATE
from lsmlake.format.chunks import joined
from lsmlake.format.rowkind import DELETE, INSERT, UPDATE_AFTER
from lsmlake.format.schema import Schema
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.aggregate.segments import both, kept, last_where, lengths, spread, take, valid
from lsmlake.lsm.merge import field_settings
from lsmlake.lsm.merge.combine import combine, is_retract, last_delete, validate
from lsmlake.lsm.merge.engine import Engine, Old
from lsmlake.lsm.merge.groups import Groups
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places


@dataclass(frozen=True)
class SequenceGroup:
    """`sequence` orders the values of `columns`; `functions`: of the columns among them that are aggregated."""

    sequence: SequenceFields
    columns: tuple[str, ...]
    functions: Mapping[str, Function]
    removes: bool

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (*self.sequence.columns, *self.columns)


@dataclass(frozen=True)
class PartialUpdate(Engine):
    """`sequence`: orders whole rows. `remove_on_delete`: a -D row removes its key."""

    primary_key: tuple[str, ...]
    sequence: SequenceFields
    groups: tuple[SequenceGroup, ...]
    remove_on_delete: bool

    old = Old.JOINS
    in_order = True
    settles_late = True

    @property
    def folds_adds(self) -> bool:
        return all(function.associative_adds for group in self.groups for function in group.functions.values())

    @property
    def deletes_by_key(self) -> bool:
        return self.remove_on_delete

    @staticmethod
    def of(schema: Schema, sequence: SequenceFields, where: str) -> PartialUpdate:
        """Raises InvalidOption."""
        options = schema.parsed_options
        groups = field_settings.sequence_groups(schema, where)
        functions = _functions(schema, groups, where)
        removing = options.remove_on_sequence_group
        if unknown := [name for name in removing if not any(name in fields for fields in groups)]:
            raise InvalidOption(
                "partial-update.remove-record-on-sequence-group names no sequence column of a group",
                where=where,
                expected=f"some of {[name for fields in groups for name in fields]}",
                found=unknown,
                cure="correct the names",
            )
        if options.remove_on_delete and groups:
            raise InvalidOption(
                "partial-update.remove-record-on-delete contradicts sequence groups: a -D row takes back single groups",
                where=where,
                found=[",".join(fields) for fields in groups],
                cure="use partial-update.remove-record-on-sequence-group, or no groups",
            )
        made = (
            SequenceGroup(SequenceFields(fields), columns, {n: functions[n] for n in columns if n in functions}, removes)
            for fields, columns in groups.items()
            for removes in [any(name in removing for name in fields)]
        )
        return PartialUpdate(schema.primary_key, sequence, tuple(made), options.remove_on_delete)

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, settle: bool) -> pa.Table:
        winners = _Winners(self.groups, rows, groups)
        column = partial(self._column, winners)
        return combine(rows, groups, pool, column, self._removes, settle=settle, folds_adds=self.folds_adds)

    def _column(self, winners: _Winners, name: str, rows: pa.Table, groups: Groups, kinds: np.ndarray | None) -> pa.Array:
        values = joined(rows[name])
        if name in self.primary_key:
            return take(values, groups.first)
        group = next((group for group in self.groups if name in group.all_columns), None)
        if group is None:
            return _newest_value(values, groups, kinds)
        found = winners.of(group, groups, kinds)
        if name in group.functions:
            return _aggregated(values, group.functions[name], groups, kinds, found)
        newest = found.newest
        if kinds is not None and name in group.columns:
            newest = np.where((newest >= 0) & ~is_retract(kinds)[newest], newest, -1)
        return take(values, np.where(newest >= 0, groups.rows[newest], -1))

    def _removes(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray | None:
        if self.remove_on_delete:
            return last_delete(rows, groups, kinds)
        removing = [group for group in self.groups if group.removes]
        if not removing:
            return None
        return np.maximum.reduce([_last_removal(group.sequence, rows, groups, kinds) for group in removing])

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        wanted = {*columns, *self.sequence.columns}
        for group in self.groups:
            if group.removes or wanted & set(group.all_columns):
                wanted |= set(group.sequence.columns)
        return frozenset(wanted)

    def validate(self, rows: pa.Table) -> None:
        for group in self.groups:
            validate(group.functions, rows)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """As they are; +U counts as +I."""
        retracts = is_retract(kinds)
        if retracts.any() and not (self.remove_on_delete or self.groups):
            raise InvalidData(
                "merge-engine = partial-update takes no row back as this table is set up",
                expected="only +I and +U rows",
                found=f"{int(retracts.sum())} rows of kind -U or -D",
                cure="set ignore-delete, partial-update.remove-record-on-delete or sequence groups",
            )
        return np.where(kinds == UPDATE_AFTER, INSERT, kinds).astype(np.int8)


def _functions(schema: Schema, groups: Mapping[tuple[str, ...], tuple[str, ...]], where: str) -> dict[str, Function]:
    """Of the columns in groups. Outside of them a column takes its newest value that is not null, whatever is said."""
    named = field_settings.aggregates(schema, where)
    sequences = {name for fields in groups for name in fields}
    members = {name for columns in groups.values() for name in columns}
    for column, name in named.items():
        if column in sequences:
            raise InvalidOption(
                f"sequence column {column!r} of a group has an aggregate function",
                where=where,
                found=name,
                cure=f"leave fields.{column}.{AGGREGATE} out: the column holds the newest sequence",
            )
        if column not in members and name != field_settings.LAST_NON_NULL:
            raise InvalidOption(
                f"column {column!r} has an aggregate function but is in no sequence group",
                where=where,
                expected=f"a group, or {field_settings.LAST_NON_NULL!r}",
                found=name,
                cure=f"put it into a group: fields.<sequence column>.sequence-group = {column}",
            )
    if default := field_settings.default_aggregate(schema):
        named = dict.fromkeys(members, default) | named
    field_settings.check_settings(schema, set(named), where)
    return {column: field_settings.make(name, column, schema, where) for column, name in named.items() if column in members}


def _newest_value(values: pa.Array, groups: Groups, kinds: np.ndarray | None) -> pa.Array:
    has_value = valid(values)
    mask = None if has_value is None else has_value[groups.rows]
    if kinds is not None:
        mask = both(mask, ~is_retract(kinds))
    newest = last_where(mask, groups.starts, len(groups.rows))
    return take(values, np.where(newest >= 0, groups.rows[newest], -1))


# -- sequence groups --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """Of one sequence group: `concerned` places (None: all), their `ranks` by sequence, the `newest` place of each key or -1."""

    concerned: np.ndarray | None
    ranks: np.ndarray
    newest: np.ndarray


class _Winners:
    """The newest rows of the sequence groups, each found once though many columns ask."""

    def __init__(self, groups: tuple[SequenceGroup, ...], rows: pa.Table, keys: Groups) -> None:
        self.rows, self.known = rows, {}

    def of(self, group: SequenceGroup, keys: Groups, kinds: np.ndarray | None) -> _Found:
        asked = group.sequence.columns, id(keys)
        if asked not in self.known:
            self.known[asked] = _found(group.sequence, self.rows, keys), keys  # the keys are kept so that their id stays theirs
        return self.known[asked][0]


def _found(sequence: SequenceFields, rows: pa.Table, keys: Groups) -> _Found:
    given = sequence.given(rows)[keys.rows]
    order = sequence.ranks(rows)[keys.rows]
    concerned = None if given.all() else given
    return _Found(concerned, order, newest_places(order, keys.starts, concerned))


def _aggregated(values: pa.Array, function: Function, keys: Groups, kinds: np.ndarray | None, found: _Found) -> pa.Array:
    count = len(keys.rows)
    places, starts, present = np.arange(count), keys.starts, None
    if found.concerned is not None:
        starts, present = kept(found.concerned, keys.starts)
        places = places[found.concerned]
        if not len(present):
            return pa.nulls(len(keys.starts), values.type)
    numbers = np.repeat(np.arange(len(starts)), lengths(starts, len(places)))
    places = places[np.lexsort((found.ranks[places], numbers))]
    retract = None if kinds is None else is_retract(kinds)[places]
    reduced = function.reduce(take(values, keys.rows[places]), starts, retract)
    return reduced if present is None else spread(reduced, present, len(keys.starts))


def _last_removal(sequence: SequenceFields, rows: pa.Table, keys: Groups, kinds: np.ndarray) -> np.ndarray:
    """The last place of every key at which a -D that is not older, by the group's sequence, than what stands removes it, or -1.

    A removal makes the sequence begin anew, so removals are found one after the other; keys have few.
    """
    count, last = len(keys.rows), np.full(len(keys.starts), -1)
    given = sequence.given(rows)[keys.rows]
    dense = np.unique(sequence.ranks(rows)[keys.rows], return_inverse=True)[1]
    order = np.where(given, dense, -1)
    number = np.repeat(np.arange(len(keys.starts)), lengths(keys.starts, count))
    span = order.max(initial=0) + 2
    candidates = given & (kinds == DELETE)
    while candidates.any():
        after = np.arange(count) > last[number]
        seen = np.maximum.accumulate(np.where(after, order, -1) + number * span) - number * span  # up to and with this place
        removing = candidates & after & (order >= seen)
        first = np.minimum.reduceat(np.where(removing, np.arange(count), count), keys.starts)
        if (first == count).all():
            break
        last = np.where(first < count, first, last)
        candidates &= np.arange(count) > last[number]
    return last
