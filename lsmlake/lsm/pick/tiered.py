"""Tiered compaction for tables with deletion vectors, whose readers skip bits and never merge: bytes written count for more
than runs standing.

Levels from 1 on are slots for runs, the newest run in the lowest slot taken; an empty tree starts at the last slot and fills
towards level 1. The weight of a run is the bytes of its live rows. All of level 0 counts as one run, since it goes together.

1. Level 0 goes up into the free slot next to the newest run. A single run needs no merge there and moves by metadata;
   several are merged with each other.
2. Full tiers. Walking from new to old, a run belongs to the tier at hand unless it weighs more than sqrt(`tier_runs`) times
   the mean of that tier; then the next tier starts. (What `tier_runs` runs are merged into weighs up to `tier_runs` times as
   much, less the rows it drops; the square root is the middle.) A tier of `tier_runs` runs is merged together with everything
   newer, and the outcome counts as one run when the older tiers are looked at, so one merge may complete several tiers.
3. No free slot: the newest runs are merged, level 1 included, to the end of a tier.
4. The output goes to the slot just newer than the next older run, to the last slot if no run is left: what is free stays on
   the new side.
5. If there is nothing of this to do, dead rows: the files with more than `reclaim_dead_percent` of them are rewritten where they
   stand, and when the bucket as a whole has more than `reclaim_bucket_share`, so are the dirtiest until it has not. One run
   at a time, the one with most to gain first.

Every choice of 1-4 is a prefix of the runs with all of level 0 in it, so level order stays time order; 5 moves nothing.
Applied again and again it comes to an end: 1-3 leave level 0 empty or fewer runs, 5 fewer dead rows.

Source: the size-tiered family (Bigtable's minor and merging compactions, Cassandra's size-tiered strategy), kept in time order;
rule 5 is the cleaning of log-structured file systems (Rosenblum and Ousterhout 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import sqrt

from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.lsm.pick.compaction import Compaction, last_level_of, stretches, whole_runs
from lsmlake.options.compaction import CompactionOptions


def pick_tiered(levels: Levels, options: CompactionOptions) -> Compaction | None:
    """The next compaction, or `None` if the bucket is in order. O(runs), and O(files log files) for rule 5."""
    max_level = last_level_of(options, levels)
    fresh, older = levels.level0_runs, levels.older_runs
    heads = ([fresh] if fresh else []) + [(run,) for run in older]
    weights = [sum(run.live_bytes for run in head) for head in heads]
    count, reason = full_tiers(weights, options), "full tier"
    if not count and fresh:
        count, reason = 1, "level 0"
    if count == 1 and older and older[0].level == 1:
        count, reason = _make_room(weights, older, options), "no free level"
    if not count:
        return _reclaim(levels, options, max_level)
    taken = [run for head in heads[:count] for run in head]
    output_level = heads[count][0].level - 1 if count < len(heads) else max_level
    return whole_runs(taken, output_level, max_level, reason, options.dead_share)


def tiers(weights: Sequence[int], options: CompactionOptions) -> list[int]:
    """Ends of the tiers: the first holds runs [0, ends[0]), the next [ends[0], ends[1]), ..."""
    ends, start, total = [], 0, 0
    for number, weight in enumerate(max(weight, options.small_run_bytes) for weight in weights):
        if number > start and weight * (number - start) > total * sqrt(options.tier_runs):
            ends.append(number)
            start, total = number, 0
        total += weight
    return [*ends, len(weights)] if weights else []


def full_tiers(weights: Sequence[int], options: CompactionOptions) -> int:
    """Rule 2: how many of the newest runs to merge, 0 if no tier is full."""
    count = 0
    while True:
        merged = [sum(weights[:count])] if count else []
        ends = [0, *tiers([*merged, *weights[count:]], options)]
        full = next((end for start, end in pairwise(ends) if end - start >= options.tier_runs), 0)
        if not full:
            return count
        count = full - len(merged) + count


def _make_room(weights: Sequence[int], older: Sequence[SortedRun], options: CompactionOptions) -> int:
    """Rule 3: level 0 and level 1 are merged at least."""
    return next(end for end in tiers(weights, options) if end > 1)


def _reclaim(levels: Levels, options: CompactionOptions, max_level: int) -> Compaction | None:
    """Rule 5."""
    chosen = _dirty(levels, options)
    if not chosen:
        return None
    gain = {run.level: sum(levels.dead[file.name] for file in run.files if file.name in chosen) for run in levels.older_runs}
    run = max(levels.older_runs, key=lambda run: gain[run.level])
    return Compaction(stretches(run.files, chosen), run.level, max_level, "dead rows")


def _dirty(levels: Levels, options: CompactionOptions) -> frozenset[str]:
    """Names of the files to be rewritten for their dead rows."""
    files = [file for run in levels.older_runs for file in run.files if levels.dead.get(file.name)]
    files.sort(key=lambda file: levels.dead[file.name] / file.rows, reverse=True)
    dead = [levels.dead[file.name] for file in files]
    surplus = _surplus(levels.older_runs, options.reclaim_bucket_share)
    return frozenset(
        file.name
        for file, own, before in zip(files, dead, accumulate(dead, initial=0), strict=False)
        if before < surplus or own == file.rows or own > options.dead_share * file.rows
    )


def _surplus(runs: Sequence[SortedRun], share: float) -> float:
    """Dead rows that must go until at most `share` of the rows of these runs is dead."""
    if share >= 1:
        return 0.0
    rows, live = sum(run.rows for run in runs), sum(run.live_rows for run in runs)
    return (rows - live - share * rows) / (1 - share)
