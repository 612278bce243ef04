"""Columns of collections element by element: what collect, the maps and the nested tables share.

A fold over collections is a timeline of events, each an element added or taken back, kept by identity: the group and the number
of what makes two elements the same one. Elements keep the order in which they came to stay, as a Python dict's keys do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments


class Elements(NamedTuple):
    """The elements of all rows in order: a list's, or a map's as structs of key and value. `groups`, `rows`: the group and row of
    each; `retract`: bool, of a row taken back."""

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
    """Which groups have a value: a row that is neither null nor taken back. None = all."""
    return segments.anywhere(segments.both(segments.valid(values), None if retract is None else ~retract), starts)


def assemble(type_: pa.DataType, items: pa.Array, groups: np.ndarray, some: np.ndarray | None, count: int) -> pa.Array:
    """The inverse of `explode`: `count` lists or maps of the items, whose `groups` ascend; null where `some` is False."""
    offsets = np.searchsorted(groups, np.arange(count + 1)).astype(np.int32)
    return pa.Array.from_buffers(type_, count, [segments.validity(some), pa.py_buffer(offsets)], children=[items])


class Timeline(NamedTuple):
    """`order`: event numbers, those of one identity together and by time; `starts`: the first of each identity in it; `standing`:
    bool, in that order, for added elements that nothing of their identity was taken back after."""

    order: np.ndarray
    starts: np.ndarray
    standing: np.ndarray

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every identity that stands: its number, and the event that first brought it to stay, as places in `order`."""
        first = segments.first_where(self.standing, self.starts, len(self.order))
        stands = np.flatnonzero(first >= 0)
        return stands, first[stands]

    def newest(self) -> tuple[np.ndarray, np.ndarray]:
        """(event that brought the identity to stay, its newest event), event numbers, by time of the former."""
        _, first = self.places()
        last = segments.last_where(self.standing, self.starts, len(self.order))
        return _by_time(self.order[first], self.order[last[last >= 0]])

    def best(self, ranks: list[np.ndarray], newest: bool) -> tuple[np.ndarray, np.ndarray]:
        """As `newest`, but the event of the greatest `ranks` (one array a column, a number an event, first column first); of
        equal ones the newest or the oldest."""
        _, first = self.places()
        standing = np.flatnonzero(self.standing)
        identity = segments.numbers(self.starts, len(self.order))[standing]
        events = self.order[standing]
        ascending = np.lexsort((events if newest else -events, *(rank[events] for rank in reversed(ranks)), identity))
        runs = segments.of_sorted(identity[ascending])
        last = ascending[segments.last_where(None, runs, len(ascending))]
        return _by_time(self.order[first], events[last])


def _by_time(places: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(places, kind="stable")
    return places[order], events[order]


def timeline(groups: np.ndarray, identities: np.ndarray, retract: np.ndarray) -> Timeline:
    """The events, in order of time, by identity within their groups."""
    keys = codes.joint(groups, identities)
    order = np.argsort(keys, kind="stable")
    starts = segments.of_sorted(keys[order])
    if not retract.any():
        return Timeline(order, starts, np.ones(len(order), bool))
    last = segments.last_where(retract[order], starts, len(order))
    return Timeline(order, starts, np.arange(len(order)) > np.repeat(last, segments.lengths(starts, len(order))))
