"""Retained deletes: for a time, a delete keeps its sequence, and rows with smaller sequences that arrive later are ignored. Pure.

The state of a key is: no row, a row, or deleted with a sequence and a time. Rows are applied in order of arrival; the time of a
row is that of its commit's level-0 file.

1. In the state "deleted", a row or delete with a smaller sequence is ignored if it is not later than the delete by more than the
   limit. If it is later, it applies as to a new key. A row or delete whose sequence is not smaller applies always.
2. Otherwise rows and deletes apply as the merge rule says. A delete of a key without a row makes the state "deleted", too.

Without the ignored rows, the merge rule `deduplicate`, under which a delete forgets its sequence, makes the same states. So
readers and compactions remove the ignored rows from level 0 and then merge as if no delete was retained. Rows at deeper levels
need not be known: a row that is late against one of them never decides.

`settle` finds the ignored rows of all keys at once: the row with the greatest sequence of a key always applies. If it is a
delete, the rows after it are ignored up to the first row that is later than the limit; from that row on the key begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import numbers, of_sorted
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places
from lsmlake.schema.rowkind import DELETE, ERASE, ERASES, plain


class Settled(NamedTuple):
    """`ignored`: flags rows. `first`: the first row of each key, in key order; `deleted`: the delete that is the state of the key
    after all rows, -1 in other states. Both are row numbers."""

    ignored: np.ndarray
    first: np.ndarray
    deleted: np.ndarray


def settle(
    rows: pa.Table, kinds: np.ndarray, times_ms: np.ndarray, key: tuple[str, ...], sequence: SequenceFields, limit_ms: int
) -> Settled:
    """Applies the rows of each key in their order in `rows`. O(rows log rows), once per delete that a key outlives by the limit.

    Args:
        rows: The key and sequence columns, at least one row.
        kinds: The row kinds, as stored.
        times_ms: The time of each row.
        key: The key columns.
        sequence: The order of the rows of a key.
        limit_ms: A delete is retained for this time, inclusive.
    """
    groups = group(comparable([rows.select(key)])[0])
    order, starts, count = groups.rows, groups.starts, rows.num_rows
    number, kinds, times_ms = numbers(starts, count), kinds[order], times_ms[order]
    ranks = sequence.ranks(rows, every=True)[order]
    ignored, deleted = np.zeros(count, bool), np.full(len(starts), -1)
    erased = np.maximum.reduceat(np.where(kinds & ERASES, np.arange(count), -1), starts)
    places = np.flatnonzero((np.arange(count) >= erased[number]) & (kinds != ERASE))
    while len(places):
        key_starts = of_sorted(number[places])
        greatest = places[newest_places(ranks[places], key_starts)]
        keys = number[greatest]
        is_delete = plain(kinds[greatest]) == DELETE
        deleted[keys] = np.where(is_delete, order[greatest], -1)
        decisive = np.full(len(starts), count)
        decisive[keys[is_delete]] = greatest[is_delete]
        after = places[places > decisive[number[places]]]
        late = after[times_ms[after] - times_ms[decisive[number[after]]] > limit_ms]
        again = np.full(len(starts), count)
        np.minimum.at(again, number[late], late)
        begins_anew = after >= again[number[after]]
        ignored[order[after[~begins_anew]]] = True
        places = after[begins_anew]
    return Settled(ignored, groups.first, deleted)
