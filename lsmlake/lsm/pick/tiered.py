"""Tiered compaction, for tables with deletion vectors: readers never merge, so it writes few bytes and allows many runs.

The levels from 1 on are slots for runs. The newest run is at the least deep occupied level; an empty tree fills from the last
level towards level 1. The weight of a run is the bytes of its live rows. Level 0 counts as one run, because it is always picked
as a whole.

1. Level 0 moves to the free level next to the newest run. A single level-0 run moves by metadata; several are merged.
2. Full tiers. From new to old, a run belongs to the current tier unless it weighs more than sqrt(`tier_runs`) times the mean of
   that tier; then it starts the next tier. (Merging `tier_runs` runs gives up to `tier_runs` times the weight, less the dropped
   rows; the square root is the geometric middle.) A tier of `tier_runs` runs is merged together with all newer runs. The result
   counts as one run when the older tiers are checked, so one merge may complete several tiers.
3. No free level: merge the newest runs, including level 1, up to the end of a tier.
4. The output goes to the level just newer than the next older run, or to the last level if there is none, so that the free levels
   stay on the newer side.
5. If no other rule applies, reclaim deleted rows: rewrite in place the files whose share of deleted rows exceeds
   `reclaim_dead_percent`. If the share in the whole bucket exceeds `reclaim_bucket_share`, rewrite further files, those with the
   greatest share first, until it does not. One run per pick, the one with the most deleted rows to drop first. Of a run that is
   not sorted, only files without live rows are dropped: a few of its files, sorted, could overlap the sorted ones.

Rules 1-4 pick the newest runs including all of level 0, so level order stays time order; rule 5 moves no file. Repeated picks
terminate: rules 1-3 leave level 0 empty or fewer runs, rule 5 fewer deleted rows.

Source: the size-tiered family (Bigtable's minor and merging compactions, Cassandra's size-tiered strategy), kept in time order;
rule 5 is the cleaning of log-structured file systems (Rosenblum and Ousterhout 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import sqrt

from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.lsm.pick.picked import Compaction, last_level_of, stretches, whole_runs
from lsmlake.options.compaction_options import CompactionOptions


def pick_tiered(levels: Levels, options: CompactionOptions) -> Compaction | None:
    """Returns the next compaction, None if the bucket needs none. O(runs), and O(files log files) for rule 5."""
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
    """Returns the ends of the tiers: the first holds runs [0, ends[0]), the next [ends[0], ends[1]), ..."""
    ends, start, total = [], 0, 0
    for number, weight in enumerate(max(weight, options.small_run_bytes) for weight in weights):
        if number > start and weight * (number - start) > total * sqrt(options.tier_runs):
            ends.append(number)
            start, total = number, 0
        total += weight
    return [*ends, len(weights)] if weights else []


def full_tiers(weights: Sequence[int], options: CompactionOptions) -> int:
    """Rule 2: returns how many of the newest runs to merge, 0 if no tier is full."""
    count = 0
    while True:
        merged = [sum(weights[:count])] if count else []
        ends = [0, *tiers([*merged, *weights[count:]], options)]
        full = next((end for start, end in pairwise(ends) if end - start >= options.tier_runs), 0)
        if not full:
            return count
        count = full - len(merged) + count


def _make_room(weights: Sequence[int], older: Sequence[SortedRun], options: CompactionOptions) -> int:
    """Rule 3: returns how many of the newest runs to merge, at least levels 0 and 1."""
    return next(end for end in tiers(weights, options) if end > 1)


def _reclaim(levels: Levels, options: CompactionOptions, max_level: int) -> Compaction | None:
    """Rule 5: returns the compaction that drops deleted rows, None if too few rows are deleted."""
    dirty = _dirty(levels, options)
    if not dirty:
        return None
    run = max(levels.older_runs, key=lambda run: sum(levels.dead[file.name] for file in run.files if file.name in dirty))
    return Compaction(stretches(run.files, dirty), run.level, max_level, "dead rows")


def _dirty(levels: Levels, options: CompactionOptions) -> frozenset[str]:
    """Returns the names of the files to rewrite because of their deleted rows."""
    files = [
        file
        for run in levels.older_runs
        for file in run.files
        if (count := levels.dead.get(file.name)) and (run.sorted or count == file.rows)
    ]
    files.sort(key=lambda file: levels.dead[file.name] / file.rows, reverse=True)
    dead = [levels.dead[file.name] for file in files]
    surplus = _surplus([run for run in levels.older_runs if run.sorted], options.reclaim_bucket_share)
    return frozenset(
        file.name
        for file, count, before in zip(files, dead, accumulate(dead, initial=0), strict=False)
        if before < surplus or count == file.rows or count > options.dead_share * file.rows
    )


def _surplus(runs: Sequence[SortedRun], share: float) -> float:
    """Returns how many deleted rows must be dropped until at most `share` of the rows of these runs are deleted."""
    if share >= 1:
        return 0.0
    rows, live = sum(run.rows for run in runs), sum(run.live_rows for run in runs)
    return (rows - live - share * rows) / (1 - share)
