"""Folds columns of collections element by element: collect, merge_map and merge_map_with_keytime; nested tables do so, too.

A fold over collections is a timeline of events: each adds or retracts an element. Events belong to an identity: the group and a
number that equal elements share. Remaining elements keep the order in which they were added, like the keys of a Python dict.

collect concatenates the elements of all lists, in order; with `distinct` each element occurs once. Elements are compared by
value. Retracting a list removes, for each of its elements, the oldest equal element, if there is one. So equal elements form a
queue, and the newest remain in it: the number added, less the number retracted, plus the number retracted while the queue was
empty. With `distinct` a retraction removes the element. The maps are merged key by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.function import Function


class Elements(NamedTuple):
    """The elements of all rows in order: list elements, or map entries as structs of key and value. `groups`, `rows`: the group
    and row of each element; `retract`: True if its row is retracted."""

    items: pa.Array
    groups: np.ndarray
    rows: np.ndarray
    retract: np.ndarray

    def where(self, keep: np.ndarray) -> Elements:
        if keep.all():
            return self
        return Elements(self.items.filter(pa.array(keep)), self.groups[keep], self.rows[keep], self.retract[keep])


def explode(values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> Elements:
    items, lengths = codes.items(values)
    rows = np.repeat(np.arange(len(values)), lengths)
    taken = np.zeros(len(rows), bool) if retract is None else retract[rows]
    return Elements(items, segments.numbers(starts, len(values))[rows], rows, taken)


def added(values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray | None:
    """Flags the groups that have a value: an added row that is not null. None = all."""
    return segments.anywhere(segments.both(segments.valid(values), None if retract is None else ~retract), starts)


def assemble(type_: pa.DataType, items: pa.Array, groups: np.ndarray, some: np.ndarray | None, count: int) -> pa.Array:
    """The inverse of `explode`: builds `count` lists or maps from items whose `groups` ascend; null where `some` is False."""
    offsets = np.searchsorted(groups, np.arange(count + 1)).astype(np.int32)
    return pa.Array.from_buffers(type_, count, [segments.validity(some), pa.py_buffer(offsets)], children=[items])


class Timeline(NamedTuple):
    """`order`: event numbers, grouped by identity and ordered by time; `starts`: the first event of each identity in `order`;
    `remaining`: flags, in that order, the added elements without a later retraction of their identity."""

    order: np.ndarray
    starts: np.ndarray
    remaining: np.ndarray

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the remaining identities, and for each its first remaining event, as places in `order`."""
        first = segments.first_where(self.remaining, self.starts, len(self.order))
        identities = np.flatnonzero(first >= 0)
        return identities, first[identities]

    def newest(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns event numbers per remaining identity: (first remaining event, newest event), ordered by the first."""
        _, first = self.places()
        last = segments.last_where(self.remaining, self.starts, len(self.order))
        return _by_time(self.order[first], self.order[last[last >= 0]])

    def best(self, ranks: list[np.ndarray], newest: bool) -> tuple[np.ndarray, np.ndarray]:
        """As `newest`, but returns the event with the greatest `ranks` instead of the newest one. `ranks` has one array per
        column, most significant first, one number per event. Of equal events the newest or the oldest wins."""
        _, first = self.places()
        remaining = np.flatnonzero(self.remaining)
        identity = segments.numbers(self.starts, len(self.order))[remaining]
        events = self.order[remaining]
        ascending = np.lexsort((events if newest else -events, *(rank[events] for rank in reversed(ranks)), identity))
        runs = segments.of_sorted(identity[ascending])
        last = ascending[segments.last_where(None, runs, len(ascending))]
        return _by_time(self.order[first], events[last])


def _by_time(places: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(places, kind="stable")
    return places[order], events[order]


def timeline(groups: np.ndarray, identities: np.ndarray, retract: np.ndarray) -> Timeline:
    """Groups events, given in order of time, by group and identity."""
    keys = codes.joint(groups, identities)
    order = np.argsort(keys, kind="stable")
    starts = segments.of_sorted(keys[order])
    if not retract.any():
        return Timeline(order, starts, np.ones(len(order), bool))
    last = segments.last_where(retract[order], starts, len(order))
    return Timeline(order, starts, np.arange(len(order)) > np.repeat(last, segments.lengths(starts, len(order))))


# -- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collect(Function):
    """Retracting from null gives null; a list that loses its last element becomes empty."""

    distinct: bool
    retracts = associative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        elements = explode(values, starts, retract)
        some = added(values, starts, retract)
        if self.distinct or elements.retract.any():
            time = timeline(elements.groups, codes.equality(elements.items), elements.retract)
            stay = time.places()[1] if self.distinct else _left_in_queue(time, elements.retract)
            events = np.sort(time.order[stay])
            elements = elements._replace(items=elements.items.take(pa.array(events)), groups=elements.groups[events])
        return assemble(values.type, elements.items, elements.groups, some, len(starts))


def _left_in_queue(time: Timeline, retract: np.ndarray) -> np.ndarray:
    """Returns the places in `time.order` of the added elements that no retraction removed."""
    retracted = retract[time.order]
    steps = np.where(retracted, -1, 1)
    lengths = segments.lengths(time.starts, len(steps))
    balance = np.cumsum(steps)
    balance -= np.repeat((balance - steps)[time.starts], lengths)
    unmatched = np.minimum(np.minimum.reduceat(balance, time.starts), 0)  # minus the retractions from an empty queue
    left = balance[time.starts + lengths - 1] - unmatched
    adds = np.cumsum(~retracted)
    adds_after = np.repeat(adds[time.starts + lengths - 1], lengths) - adds  # in the same queue
    return np.flatnonzero(~retracted & (adds_after < np.repeat(left, lengths)))


# -- maps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergeMap(Function):
    """The newest value of each key. Retracting a map removes its keys, whatever their values; retracting from null gives null."""

    retracts = associative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        entries = explode(values, starts, retract)
        time = timeline(entries.groups, codes.equality(entries.items.field(0)), entries.retract)
        places, newest = time.newest()
        items = entries.items.take(pa.array(newest))
        return assemble(values.type, items, entries.groups[places], added(values, starts, retract), len(starts))


@dataclass(frozen=True)
class MergeMapWithKeyTime(Function):
    """Values are structs with a time in field number `time_field`; per key the latest value wins, of equal times the oldest.
    A null value removes the key; a value with a null time is ignored.

    The first map of a group is taken unchanged: its null values and null times remain until they are replaced. Not associative: a
    map that is the first of a part of the rows does not record the keys it should remove.
    """

    time_field: int
    skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        first_maps = segments.first_where(segments.valid(values), starts, len(values))
        entries = explode(values, starts, None)
        of_first = entries.rows == first_maps[entries.groups]
        present, times = _presence(entries), self._times(entries)
        keep = of_first | ~present | (times >= 0)
        entries, removes, times = entries.where(keep), ~(of_first | present)[keep], times[keep]
        time = timeline(entries.groups, codes.equality(entries.items.field(0)), removes)
        places, latest = time.best([times], newest=False)
        items = entries.items.take(pa.array(latest))
        return assemble(values.type, items, entries.groups[places], added(values, starts, None), len(starts))

    def _times(self, entries: Elements) -> np.ndarray:
        """Returns one number per entry, ordered like the times; -1 for no time."""
        times = codes.order(entries.items.field(1).field(self.time_field))
        return np.where(_presence(entries), times, -1)


def _presence(entries: Elements) -> np.ndarray:
    present = segments.valid(entries.items.field(1))
    return np.ones(len(entries.items), bool) if present is None else present
