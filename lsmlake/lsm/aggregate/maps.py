"""merge_map and merge_map_with_keytime: merge maps key by key. Keys are ordered by insertion, as in a Python dict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.elements import Elements, added, assemble, explode, timeline
from lsmlake.lsm.aggregate.function import Function


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
