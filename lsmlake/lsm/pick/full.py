"""Full compaction: the whole bucket becomes one run without dead rows at the last level."""

from __future__ import annotations

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.compaction import Compaction, last_level_of, stretches, whole_runs
from lsmlake.options.compaction import CompactionOptions


def pick_full(levels: Levels, options: CompactionOptions) -> Compaction | None:
    """All runs to the last level; of a bucket that is already one run there, the files with dead rows; `None` if it has none."""
    max_level = last_level_of(options, levels)
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.highest_level < max_level:
        return whole_runs(levels.runs, max_level, max_level, "full", dead_share=0.0)
    if not levels.dead:
        return None
    return Compaction(stretches(levels.runs[0].files, levels.dead), max_level, max_level, "full: dead rows")
