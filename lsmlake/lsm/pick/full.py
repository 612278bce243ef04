"""Full compaction: the whole bucket becomes one sorted run at the last level, without deleted rows."""

from __future__ import annotations

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.compaction import Compaction, last_level_of, stretches, whole_runs
from lsmlake.options.compaction import CompactionOptions


def pick_full(levels: Levels, options: CompactionOptions) -> Compaction | None:
    """Picks all runs. If the bucket is already one sorted run at the last level, picks its files with deleted rows; None if there
    are none."""
    max_level = last_level_of(options, levels)
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.highest_level < max_level or not levels.runs[0].sorted:
        return whole_runs(levels.runs, max_level, max_level, "full", dead_share=0.0)
    if not levels.dead:
        return None
    return Compaction(stretches(levels.runs[0].files, levels.dead), max_level, max_level, "full: dead rows")
