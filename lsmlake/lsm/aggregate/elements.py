"""Folds columns of collections element by element; shared by collect, the maps and the nested tables.

A fold over collections is a timeline of events: each adds or retracts an element. Events belong to an identity: the group and a
number that equal elements share. Remaining elements keep the order in which they were added, like the keys of a Python dict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments


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
