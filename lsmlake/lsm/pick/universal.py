"""Universal compaction: few runs, because each reader merges them.

Every rule names how many of the newest runs to merge; the first that names any wins.

1. early full (two runs or more): the last full compaction is long ago, the bucket is small, or much lies outside the last level
   -> all runs;
2. size amplification: everything but the oldest run weighs more than so many percent of it -> all runs;
3. size ratio: starting with the newest run, the next older joins while it is hardly bigger than those taken so far. Once a
   merge is certain, runs at levels 0 and 1 join whatever their size;
4. number of runs: more than the trigger -> as many as bring it back to the trigger, then more by rule 3;
5. level 0 by force, when lookups need it empty: all of it, then more by rule 3.

Rules 2 and 3 sleep below the trigger. The output goes to the level just newer than the next older run, to the last level if no
run is left, never to level 0: then runs are added up to the first that is not at level 0. Hence whatever is picked takes all
of level 0, and level order stays time order.

The only memory is in the arguments: the last full compaction is as old as the newest file of the last level, and the
picks that came to nothing are as many as runs wait at level 0, less one.

Source: Apache Paimon, `UniversalCompaction`, `EarlyFullCompaction` and `ForceUpLevel0Compaction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.lsm.pick.compaction import Compaction, last_level_of, whole_runs
from lsmlake.options.compaction import RADICAL, CompactionOptions


def pick_universal(
    levels: Levels, options: CompactionOptions, *, now_ms: int, hour: int | None = None, empty_picks: int | None = None
) -> Compaction | None:
    """The next compaction, or `None` if the bucket is in order.

    `hour` of the day (0-23) decides off-peak, `None` takes that of `now_ms` in UTC. `empty_picks`: picks in a row that
    came to nothing, for lookup-compact = gentle; `None` counts the waiting runs.
    """
    runs, max_level = levels.runs, last_level_of(options, levels)
    ratio = options.size_ratio + offpeak_ratio(options, now_ms // 3_600_000 % 24 if hour is None else hour)
    found = _first_rule(runs, max_level, options, ratio, now_ms)
    if found is None and _forced(levels, options, empty_picks):
        found = extend(runs, len(levels.level0_runs), ratio, forced=True), "level 0"
    if found is None:
        return None
    taken, output_level = unit(runs, found[0], max_level)
    if len(taken) == 1 and len(taken[0].files) == 1 and taken[0].level == output_level:
        return None
    return whole_runs(taken, output_level, max_level, found[1], options.dead_share)


def _first_rule(
    runs: Sequence[SortedRun], max_level: int, options: CompactionOptions, ratio: int, now_ms: int
) -> tuple[int, str] | None:
    """Rules 1 to 4: how many of the newest runs, and why."""
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
    """Rule 1."""
    if len(runs) < 2:
        return False
    interval, small, loose = (
        options.optimization_interval_ms,
        options.total_size_threshold_bytes,
        options.incremental_size_threshold_bytes,
    )
    last_full = max((file.created_ms for run in runs if run.level == max_level for file in run.files), default=None)
    if interval is not None and (last_full is None or now_ms - last_full > interval):
        return True
    if small is not None and sum(run.bytes for run in runs) < small:
        return True
    return loose is not None and sum(run.bytes for run in runs if run.level != max_level) > loose


def size_amplified(runs: Sequence[SortedRun], percent: int) -> bool:
    """Rule 2."""
    if not runs:
        return False
    return sum(run.bytes for run in runs[:-1]) * 100 > percent * runs[-1].bytes


def extend(runs: Sequence[SortedRun], count: int, ratio: int, forced: bool = False) -> int:
    """Rule 3, from the `count` newest runs on: how many to merge, 0 if there is no reason to."""
    certain = forced or count > 1
    taken = sum(run.bytes for run in runs[:count])
    for run in runs[count:]:
        alike = taken * (100 + ratio) >= run.bytes * 100
        if not alike and not (certain and run.level <= 1):
            break
        taken += run.bytes
        count += 1
        certain = True
    return count if certain else 0


def unit(runs: Sequence[SortedRun], count: int, max_level: int) -> tuple[Sequence[SortedRun], int]:
    """The runs to merge and their output level, given that the `count` newest were chosen."""
    if count < len(runs) and runs[count].level <= 1:
        waiting = sum(run.level == 0 for run in runs)
        count = min(waiting + 1, len(runs))
        output_level = runs[count - 1].level
    elif count < len(runs):
        output_level = runs[count].level - 1
    return runs[:count], output_level if count < len(runs) else max_level


def offpeak_ratio(options: CompactionOptions, hour: int) -> int:
    """What off-peak hours add to the size ratio at this hour of the day."""
    start, end = options.offpeak_start_hour, options.offpeak_end_hour
    if start is None or end is None or start == end:
        return 0
    inside = start <= hour < end if start < end else hour >= start or hour < end
    return options.offpeak_ratio if inside else 0


def _forced(levels: Levels, options: CompactionOptions, empty_picks: int | None) -> bool:
    """Rule 5: whether level 0 must go up now."""
    waiting = len(levels.level0_runs)
    if not waiting or options.lookup_compact is None:
        return False
    if options.lookup_compact == RADICAL:
        return True
    attempts = (waiting - 1 if empty_picks is None else empty_picks) + 1
    return attempts >= max(options.sorted_run_trigger, options.lookup_max_interval)
