"""Picks the buckets of a partition to split or to merge. Pure.

Under `bucket = auto`:

1. A bucket with more live bytes than `bucket.target-size` splits into as many buckets as bring each to at most a quarter of this
   size. So rows are rewritten once each time that the partition has grown eightfold.
2. Two sister buckets (n, T) and (n + T/2, T) merge into (n, T/2) if together they have less than an eighth of the target; the
   result may merge again. So a bucket that was split does not merge before it has shrunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lsmlake.lsm.cover import Cover, Share

SLOTS_MAX = 1 << 15
"""Of a partition that is split by itself."""
_SPLIT_SHARE, _MERGE_SHARE, _ROWS_MIN = 4, 8, 4


@dataclass(frozen=True)
class Reshaping:
    """Buckets to replace by other buckets that hold the same keys."""

    sources: tuple[Share, ...]
    targets: tuple[Share, ...]


def pick_reshapings(
    cover: Cover, sizes: Mapping[Share, int], target_bytes: int, rows: Mapping[Share, int] | None = None
) -> list[Reshaping]:
    """Returns the buckets of a partition to split and to merge.

    Args:
        sizes: the live bytes of the buckets with files; other buckets are empty.
        rows: their live rows. A bucket of few large rows is not split into buckets without rows.
    """
    splits = []
    for share, size in sizes.items():
        parts = parts_of(size, target_bytes)
        while share.total * parts > SLOTS_MAX or (rows is not None and _ROWS_MIN * parts > rows[share]):
            parts //= 2
        if parts > 1:
            splits.append(Reshaping((share,), share.parts(parts)))
    return splits + _merges(cover, sizes, target_bytes)


def parts_of(size: int, target_bytes: int) -> int:
    """How many buckets rows of this size should have: a power of two that leaves each a quarter of the target at most; one bucket
    if they fit the target."""
    parts = 1
    while size > target_bytes and parts < SLOTS_MAX and size > parts * target_bytes // _SPLIT_SHARE:
        parts *= 2
    return parts


def _merges(cover: Cover, sizes: Mapping[Share, int], target_bytes: int) -> list[Reshaping]:
    most = target_bytes // _MERGE_SHARE
    if cover.slots % 2 or all(size >= most for size in sizes.values()):
        return []
    groups = {share: (sizes.get(share, 0), (share,)) for share in cover.shares}
    total = cover.slots
    while total % 2 == 0:
        for number in range(total // 2):
            sisters = Share(number, total), Share(number + total // 2, total)
            if all(sister in groups for sister in sisters):
                (one, members), (other, others) = (groups[sister] for sister in sisters)
                if one + other < most:
                    del groups[sisters[0]], groups[sisters[1]]
                    groups[Share(number, total // 2)] = one + other, (*members, *others)
        total //= 2
    return [Reshaping(members, (share,)) for share, (size, members) in groups.items() if len(members) > 1 and size]


def to_cover(now: Cover, wanted: Cover) -> list[Reshaping]:
    """Returns the steps that bring a partition from one cover to another, as many independent steps as possible."""
    steps, left = [], {share for share in now.shares if not wanted.has(share)}
    while left:
        sources, targets, reached = set(), set(), {min(left)}
        while reached:
            sources |= reached
            targets |= {target for source in reached for target in wanted.meeting(source)}
            reached = {source for target in targets for source in now.meeting(target)} - sources
        steps.append(Reshaping(tuple(sorted(sources)), tuple(sorted(targets))))
        left -= sources
    return steps
