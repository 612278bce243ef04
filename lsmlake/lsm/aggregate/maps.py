"""merge_map and merge_map_with_keytime: maps merged key by key.

A key keeps the place in the map at which it last came in, as in a Python dict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.elements import Elements, added, assemble, explode, timeline
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class MergeMap(Function):
    """The newest value of every key. Taking a map back removes its keys, whatever their values; from null it leaves null."""

    retracts = associative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        entries = explode(values, starts, retract)
        time = timeline(entries.groups, codes.equality(entries.items.field(0)), entries.retract)
        places, newest = time.newest()
        items = entries.items.take(pa.array(newest))
        return assemble(values.type, items, entries.groups[places], added(values, starts, retract), len(starts))


@dataclass(frozen=True)
class MergeMapWithKeyTime(Function):
    """Values are structs that carry their time in field number `time_field`; the latest of every key wins, of equal times the
    oldest. A null value removes the key; a null time is passed over.

    The first map of a group stands as it is: its null values and null times stay until something replaces them. Not associative:
    a map that is first in a part of the rows keeps no mark of the keys it should remove.
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
        """A number an entry, ordered as the times; -1 where there is none."""
        times = codes.order(entries.items.field(1).field(self.time_field))
        return np.where(_presence(entries), times, -1)


def _presence(entries: Elements) -> np.ndarray:
    present = segments.valid(entries.items.field(1))
    return np.ones(len(entries.items), bool) if present is None else present
