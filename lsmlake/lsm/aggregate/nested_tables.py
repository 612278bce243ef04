"""nested_update and nested_partial_update: treat a list of structs as a small table, optionally with a key.

Null elements are dropped. Rows keep the order in which their keys were added. For a null in a key, `merge` treats it as a value,
`ignore` drops the row, `error` raises InvalidData; retracted rows are not checked.
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
    """The numbers of the key fields of the struct; empty = the whole struct. `nulls`: merge, ignore or error."""

    fields: tuple[int, ...]
    nulls: str
    where: str

    def admitted(self, elements: Elements) -> Elements:
        """Drops null elements and, with `ignore`, elements with a null in the key."""
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
                found=f"{int(broken.sum())} elements with a null",
                cure="fill the key, or set nested-key-null-strategy to ignore or merge",
            )
        return elements.where(~broken)

    def validate(self, values: pa.Array) -> None:
        """Raises InvalidData for a null in the key if `nulls` is error."""
        if self.nulls == "error":
            self.admitted(explode(values, np.zeros(min(1, len(values)), np.int64), None))

    def identities(self, items: pa.Array) -> np.ndarray:
        if not self.fields:
            return codes.equality(items)
        return codes.equality(pa.StructArray.from_arrays([items.field(i) for i in self.fields], [str(i) for i in self.fields]))


@dataclass(frozen=True)
class NestedUpdate(Function):
    """With a key, keeps per key the newest row, or the row with the greatest `sequence` fields (nulls first, of equals the
    newest). Without a key, keeps all rows. A retraction removes the rows with equal key, without a key all equal rows; retracting
    from null gives null.

    `limit`: a table with this many rows takes no new rows, but its rows still change, so adds are not associative. With a limit,
    the fold needs one step per change from retractions to added rows in a group.
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
        """Folds each group. With a limit, no group may have an added row after a retraction."""
        elements = self.key.admitted(explode(values, starts, retract))
        if self.limit is not None:
            elements = self._limited(elements)
        identities = self.key.identities(elements.items)
        time = timeline(elements.groups, identities, elements.retract)
        if not self.key.fields:
            events = places = np.sort(time.order[time.remaining])
        elif self.sequence:
            ranks = [codes.order(elements.items.field(field)) for field in self.sequence]
            places, events = time.best(ranks, newest=True)
        else:
            places, events = time.newest()
        items = elements.items.take(pa.array(events))
        return assemble(values.type, items, elements.groups[places], added(values, starts, retract), len(starts))

    def _limited(self, elements: Elements) -> Elements:
        """Drops the added elements that exceed the limit."""
        adds = np.flatnonzero(~elements.retract)
        groups = elements.groups[adds]
        identities = self.key.identities(elements.items.take(pa.array(adds))) if self.key.fields else np.arange(len(adds))
        _, first, element_numbers = np.unique(codes.joint(groups, identities), return_index=True, return_inverse=True)
        new = np.zeros(len(adds), np.int64)
        new[first] = 1
        rows_before = np.cumsum(new) - new  # new rows before this one, in all groups
        opened = segments.of_sorted(groups)
        rank = rows_before - np.repeat(rows_before[opened], segments.lengths(opened, len(groups)))
        keep = elements.retract.copy()
        keep[adds] = rank[first][element_numbers] < self.limit
        return elements.where(keep)

    def _by_turns(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray) -> pa.Array:
        """Runs one fold per turn over all groups: the table so far, the next added rows, the next retractions."""
        groups = segments.numbers(starts, len(values))
        again = np.zeros(len(values), np.int64)
        again[1:] = retract[:-1] & ~retract[1:]
        turns = np.cumsum(again)
        turns -= turns[starts][groups]
        tables = pa.nulls(len(starts), values.type)
        for turn in range(int(turns.max()) + 1):
            rows = np.flatnonzero(turns == turn)
            active = np.unique(groups[rows])
            owners = np.concatenate([active, groups[rows]])
            order = np.argsort(owners, kind="stable")
            pool = pa.concat_arrays([tables.take(pa.array(active)), values.take(pa.array(rows))])
            taken = np.concatenate([np.zeros(len(active), bool), retract[rows]])[order]
            folded = self._fold(pool.take(pa.array(order)), segments.of_sorted(owners[order]), taken)
            choice = np.arange(len(starts))
            choice[active] = len(starts) + np.arange(len(active))
            tables = pa.concat_arrays([tables, folded]).take(pa.array(choice))
        return tables


@dataclass(frozen=True)
class NestedPartialUpdate(Function):
    """One row per key; each field has its newest value that is not null."""

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
