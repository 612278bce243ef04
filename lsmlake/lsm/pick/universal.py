"""Universal compaction: keeps the number of runs small, because readers merge them.

Each rule returns how many of the newest runs to merge; the first rule that applies wins.

1. Early full (at least two runs): the last full compaction is too old, the bucket is small, or the files outside the last level
   are large. Merges all runs.
2. Size amplification: all runs except the oldest exceed a percentage of its size. Merges all runs.
3. Size ratio: starting with the newest run, adds the next older run while it is at most slightly larger than the runs picked so
   far. Once two runs are picked, runs at levels 0 and 1 are added regardless of their size.
4. Number of runs: exceeds the trigger. Merges enough runs to return to the trigger, then extends by rule 3.
5. Forced level 0, if lookups need it empty: merges level 0, then extends by rule 3.

Rules 2 and 3 apply only from the trigger on. The output goes to the level just newer than the next older run, or to the last
level if there is none. It never goes to level 0: instead, runs are added up to and including the first one outside level 0. So
each pick takes all of level 0, and level order stays time order.

The rules keep no state: the newest file of the last level dates the last full compaction, and the number of empty picks in a row
is the number of runs at level 0 less one.

Source: Apache Paimon, `UniversalCompaction`, `EarlyFullCompaction` and `ForceUpLevel0Compaction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.lsm.pick.picked import Compaction, last_level_of, whole_runs
from lsmlake.options.compaction_options import RADICAL, CompactionOptions


def pick_universal(
    levels: Levels, options: CompactionOptions, *, now_ms: int, hour: int | None = None, empty_picks: int | None = None
) -> Compaction | None:
    """Returns the next compaction, None if the bucket needs none.

    Args:
        levels: The bucket.
        options: The picking options.
        now_ms: The current time.
        hour: Hour of the day (0-23), for off-peak hours. None: the hour of `now_ms` in UTC.
        empty_picks: Consecutive picks without a result, for lookup-compact = gentle. None: derived from the number of runs at
            level 0.
    """
    runs, max_level = levels.runs, last_level_of(options, levels)
    ratio = options.size_ratio + offpeak_ratio(options, now_ms // 3_600_000 % 24 if hour is None else hour)
    picked = _first_rule(runs, max_level, options, ratio, now_ms)
    if picked is None and _forced(levels, options, empty_picks):
        picked = extend(runs, len(levels.level0_runs), ratio, forced=True), "level 0"
    if picked is None:
        return None
    taken, output_level = unit(runs, picked[0], max_level)
    if len(taken) == 1 and len(taken[0].files) == 1 and taken[0].level == output_level:
        return None
    return whole_runs(taken, output_level, max_level, picked[1], options.dead_share)


def _first_rule(
    runs: Sequence[SortedRun], max_level: int, options: CompactionOptions, ratio: int, now_ms: int
) -> tuple[int, str] | None:
    """Rules 1 to 4: returns how many of the newest runs to merge, and the reason."""
    if early_full(runs, max_level, options, now_ms):
        return len(runs), "early full"
    trigger = options.sorted_run_trigger
    if len(runs) >= trigger and size_amplified(runs, options.max_size_amplification_percent):
        return len(runs), "size amplification"
    if len(runs) >= trigger and (count := extend(runs, 1, ratio)):
        return count, "size ratio"
    if len(runs) > trigger:
        return extend(runs, len(runs) - trigger + 1, ratio), "number of runs"
    return None


def early_full(runs: Sequence[SortedRun], max_level: int, options: CompactionOptions, now_ms: int) -> bool:
    """Rule 1: whether an early full compaction is due."""
    if len(runs) < 2:
        return False
    interval, small, incremental = (
        options.optimization_interval_ms,
        options.total_size_threshold_bytes,
        options.incremental_size_threshold_bytes,
    )
    last_full = max((file.created_ms for run in runs if run.level == max_level for file in run.files), default=None)
    if interval is not None and (last_full is None or now_ms - last_full > interval):
        return True
    if small is not None and sum(run.bytes for run in runs) < small:
        return True
    return incremental is not None and sum(run.bytes for run in runs if run.level != max_level) > incremental


def size_amplified(runs: Sequence[SortedRun], percent: int) -> bool:
    """Rule 2: whether the runs are too large in relation to the oldest one."""
    if not runs:
        return False
    return sum(run.bytes for run in runs[:-1]) * 100 > percent * runs[-1].bytes


def extend(runs: Sequence[SortedRun], count: int, ratio: int, forced: bool = False) -> int:
    """Rule 3, starting with the `count` newest runs: returns how many runs to merge, 0 if the rule does not apply."""
    merges = forced or count > 1
    picked = sum(run.bytes for run in runs[:count])
    for run in runs[count:]:
        similar = picked * (100 + ratio) >= run.bytes * 100
        if not similar and not (merges and run.level <= 1):
            break
        picked += run.bytes
        count += 1
        merges = True
    return count if merges else 0


def unit(runs: Sequence[SortedRun], count: int, max_level: int) -> tuple[Sequence[SortedRun], int]:
    """Returns the runs to merge and their output level if the `count` newest runs were picked."""
    if count < len(runs) and runs[count].level <= 1:
        level0 = sum(run.level == 0 for run in runs)
        count = min(level0 + 1, len(runs))
        output_level = runs[count - 1].level
    elif count < len(runs):
        output_level = runs[count].level - 1
    return runs[:count], output_level if count < len(runs) else max_level


def offpeak_ratio(options: CompactionOptions, hour: int) -> int:
    """Returns the off-peak addition to the size ratio at this hour of the day, 0 outside off-peak hours."""
    start, end = options.offpeak_start_hour, options.offpeak_end_hour
    if start is None or end is None or start == end:
        return 0
    inside = start <= hour < end if start < end else hour >= start or hour < end
    return options.offpeak_ratio if inside else 0


def _forced(levels: Levels, options: CompactionOptions, empty_picks: int | None) -> bool:
    """Rule 5: whether level 0 must be compacted now."""
    level0 = len(levels.level0_runs)
    if not level0 or options.lookup_compact is None:
        return False
    if options.lookup_compact == RADICAL:
        return True
    attempts = (level0 - 1 if empty_picks is None else empty_picks) + 1
    return attempts >= max(options.sorted_run_trigger, options.lookup_max_interval)
