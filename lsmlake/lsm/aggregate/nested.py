"""nested_update and nested_partial_update: a list of structs as a small table of its own, with a key if it has one.

Null elements are dropped. Rows of the table keep the order in which their keys came in. A null in a key: `merge` treats it as a
value like any other, `ignore` drops the row, `error` raises InvalidData; rows taken back are not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.elements import Elements, added, assemble, explode, timeline
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class NestedKey:
    """The fields that make two structs the same row, by number; none = the whole struct. `nulls`: merge, ignore or error."""

    fields: tuple[int, ...]
    nulls: str
    where: str

    def admitted(self, elements: Elements) -> Elements:
        """Without null elements and those whose key has a null that is not wanted."""
        present = segments.valid(elements.items)
        if present is not None:
            elements = elements.where(present)
        if not self.fields or self.nulls == "merge":
            return elements
        broken = np.zeros(len(elements.items), bool)
        for field in self.fields:
            whole = segments.valid(elements.items.field(field))
            broken |= False if whole is None else ~whole
        broken &= ~elements.retract
        if self.nulls == "error" and broken.any():
            raise InvalidData(
                "the nested key has a null",
                where=self.where,
                expected="a value in every field of the nested key",
                found=f"{int(broken.sum())} elements without",
                cure="fill the key, or set nested-key-null-strategy to ignore or merge",
            )
        return elements.where(~broken)

    def validate(self, values: pa.Array) -> None:
        """Raises InvalidData for a null that is an error."""
        if self.nulls == "error":
            self.admitted(explode(values, np.zeros(min(1, len(values)), np.int64), None))

    def identities(self, items: pa.Array) -> np.ndarray:
        if not self.fields:
            return codes.equality(items)
        return codes.equality(pa.StructArray.from_arrays([items.field(i) for i in self.fields], [str(i) for i in self.fields]))


@dataclass(frozen=True)
class NestedUpdate(Function):
    """With a key: the newest row of every key, or the one greatest in the fields `sequence` (nulls first, the newest of equals).
    Without: all rows. Taking rows back removes those of equal key, without a key all that are equal; from null it leaves null.

    `limit`: once a table has so many rows, no more come in; those that are in still change, so adds are not
    associative. With a limit and rows taken back, the fold takes as many steps as rows taken back are followed by added ones in
    a group.
    """

    key: NestedKey
    sequence: tuple[int, ...] = ()
    limit: int | None = None
    retracts = skips_nulls = True

    @property
    def associative_adds(self) -> bool:
        return self.limit is None

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        if self.limit is None or retract is None or not retract.any():
            return self._fold(values, starts, retract)
        return self._by_turns(values, starts, retract)

    def validate(self, values: pa.Array) -> None:
        self.key.validate(values)

    def _fold(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        """The fold; with a limit, no group adds after it takes back."""
        elements = self.key.admitted(explode(values, starts, retract))
        if self.limit is not None:
            elements = self._limited(elements)
        identities = self.key.identities(elements.items)
        time = timeline(elements.groups, identities, elements.retract)
        if not self.key.fields:
            events = places = np.sort(time.order[time.standing])
        elif self.sequence:
            ranks = [codes.order(elements.items.field(field)) for field in self.sequence]
            places, events = time.best(ranks, newest=True)
        else:
            places, events = time.newest()
        items = elements.items.take(pa.array(events))
        return assemble(values.type, items, elements.groups[places], added(values, starts, retract), len(starts))

    def _limited(self, elements: Elements) -> Elements:
        """Without the added elements that find the table full."""
        adds = np.flatnonzero(~elements.retract)
        groups = elements.groups[adds]
        identities = self.key.identities(elements.items.take(pa.array(adds))) if self.key.fields else np.arange(len(adds))
        _, first, which = np.unique(codes.joint(groups, identities), return_index=True, return_inverse=True)
        new = np.zeros(len(adds), np.int64)
        new[first] = 1
        rows_before = np.cumsum(new) - new  # new rows before this one, in all groups
        opened = segments.of_sorted(groups)
        rank = rows_before - np.repeat(rows_before[opened], segments.lengths(opened, len(groups)))
        keep = elements.retract.copy()
        keep[adds] = rank[first][which] < self.limit
        return elements.where(keep)

    def _by_turns(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray) -> pa.Array:
        """One fold a turn, all groups at once: the table so far, the rows added next, the rows taken back next."""
        groups = segments.numbers(starts, len(values))
        again = np.zeros(len(values), np.int64)
        again[1:] = retract[:-1] & ~retract[1:]
        turns = np.cumsum(again)
        turns -= turns[starts][groups]
        tables = pa.nulls(len(starts), values.type)
        for turn in range(int(turns.max()) + 1):
            rows = np.flatnonzero(turns == turn)
            playing = np.unique(groups[rows])
            owners = np.concatenate([playing, groups[rows]])
            order = np.argsort(owners, kind="stable")
            pool = pa.concat_arrays([tables.take(pa.array(playing)), values.take(pa.array(rows))])
            taken = np.concatenate([np.zeros(len(playing), bool), retract[rows]])[order]
            folded = self._fold(pool.take(pa.array(order)), segments.of_sorted(owners[order]), taken)
            choice = np.arange(len(starts))
            choice[playing] = len(starts) + np.arange(len(playing))
            tables = pa.concat_arrays([tables, folded]).take(pa.array(choice))
        return tables


@dataclass(frozen=True)
class NestedPartialUpdate(Function):
    """One row a key, each of its fields the newest that is not null."""

    key: NestedKey
    associative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        elements = self.key.admitted(explode(values, starts, None))
        time = timeline(elements.groups, self.key.identities(elements.items), elements.retract)
        places = time.order[time.starts]
        by_time = np.argsort(places)
        type_ = values.type.value_type
        fields = []
        for i in range(type_.num_fields):
            field = elements.items.field(i).take(pa.array(time.order))
            newest = segments.last_where(segments.valid(field), time.starts, len(field))
            fields.append(segments.take(field, newest[by_time]))
        items = pa.StructArray.from_arrays(fields, fields=list(type_))
        return assemble(values.type, items, elements.groups[places[by_time]], added(values, starts, None), len(starts))

    def validate(self, values: pa.Array) -> None:
        self.key.validate(values)
