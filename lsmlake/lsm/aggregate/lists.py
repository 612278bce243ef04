"""collect: the elements of all lists in one list, in order; with `distinct`, each but once.

Elements are equal by value, whatever their type. Taking a list back removes one equal element, the oldest, for each of its own;
what is not there is not owed. So elements of equal value are a queue, and those left in it are the newest: as many as were added
less those taken, plus those that were asked of an empty queue. With `distinct` an element taken back is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.elements import Timeline, added, assemble, explode, timeline
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class Collect(Function):
    """Null less a list is null; the list that lost its last element is empty."""

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
    """Places in `time.order` of the elements that no equal one took out."""
    taken = retract[time.order]
    steps = np.where(taken, -1, 1)
    lengths = segments.lengths(time.starts, len(steps))
    held = np.cumsum(steps)
    held -= np.repeat((held - steps)[time.starts], lengths)
    owed = np.minimum(np.minimum.reduceat(held, time.starts), 0)
    left = held[time.starts + lengths - 1] - owed
    adds = np.cumsum(~taken)
    adds_after = np.repeat(adds[time.starts + lengths - 1], lengths) - adds  # in the same queue
    return np.flatnonzero(~taken & (adds_after < np.repeat(left, lengths)))
