"""Which parts of a log to merge, so that a commit costs the same however many commits and files there are. Pure.

The manifests of a table, and the index manifests of its vectors, are logs: a commit appends a part, and readers fold all parts.
Parts are merged by size, as the runs of a size-tiered LSM tree: each tier holds parts up to eight times larger than the one
before it, and a tier that is full becomes one part. So an entry is written once per tier, and n commits leave O(log n) parts.
"""

from __future__ import annotations

from collections.abc import Sequence

_FIRST_TIER = 1_000  # entries; a part with fewer is cheap to write again
_FAN = 8


def full_tail(sizes: Sequence[int], most: int) -> int:
    """Returns how many parts at the end of the log to merge into one; 0: none.

    Args:
        sizes: The entries of each part, in commit order.
        most: The number of parts that fill the first tier. `_FAN` parts fill any other.
    """
    merged = tier = count = 0
    for number, size in enumerate(reversed(sizes), start=1):
        own = _tier(size)
        if own > tier:
            tier, count = own, 0
        count += own == tier
        if count >= (_FAN if tier else most):
            merged = number
    return merged


def _tier(entries: int) -> int:
    tier, end = 0, _FIRST_TIER
    while entries >= end:
        tier, end = tier + 1, end * _FAN
    return tier
