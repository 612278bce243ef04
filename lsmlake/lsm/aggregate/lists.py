"""collect: concatenates the elements of all lists, in order; with `distinct` each element occurs once.

Elements are compared by value. Retracting a list removes, for each of its elements, the oldest equal element, if there is one. So
equal elements form a queue, and the newest remain in it: the number added, less the number retracted, plus the number retracted
while the queue was empty. With `distinct` a retraction removes the element.
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
