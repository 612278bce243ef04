"""How a table's options become a choice of compactions: options in, a function of `Levels` out."""

from __future__ import annotations

from collections.abc import Callable

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import GENTLE, RADICAL, Compaction, PickOptions, pick, pick_full
from lsmlake.lsm.pick.compaction import stretches
from lsmlake.lsm.row_expiry import RowExpiry
from lsmlake.options.table_options import Options
from lsmlake.schema.schema import Schema


def pick_options(options: Options) -> PickOptions:
    defaults = PickOptions()
    force = GENTLE if options.lookup_compact == "gentle" else RADICAL
    reclaim = options.reclaim_dead_percent
    return PickOptions(
        strategy=options.strategy,
        force_level0=force if options.looks_up else None,  # lookups want it empty, merging reads do not
        lookup_max_interval=options.lookup_compact_interval,
        num_levels=options.num_levels,
        reclaim_dead_share=defaults.reclaim_dead_share if reclaim is None else reclaim / 100,
        sorted_run_trigger=options.compaction_trigger,
        size_ratio=options.size_ratio_percent,
        max_size_amplification_percent=options.size_amplification_percent,
        optimization_interval_ms=options.optimization_interval_ms,
        total_size_threshold_bytes=options.total_size_threshold,
        incremental_size_threshold_bytes=options.incremental_size_threshold,
        offpeak_start_hour=options.offpeak_start_hour,
        offpeak_end_hour=options.offpeak_end_hour,
        offpeak_ratio=options.offpeak_ratio_percent,
        tier_runs=options.tier_runs or defaults.tier_runs,
    )


def last_level_of(options: Options, levels: Levels) -> int:
    """The level a full compaction brings everything to."""
    return pick_options(options).max_level(levels)


def as_needed(options: Options, now_ms: int) -> Callable[[Levels], Compaction | None]:
    """What the table's strategy asks for, and a full compaction when it is due. The hour of off-peak options is that of `now_ms`
    in UTC, so that every machine chooses alike."""
    chosen = pick_options(options)

    def choose(levels: Levels) -> Compaction | None:
        if options.full_delta_commits and commits_since_full(levels, chosen) >= options.full_delta_commits:
            return pick_full(levels, chosen)
        return pick(levels, chosen, now_ms=now_ms)

    return choose


def commits_since_full(levels: Levels, options: PickOptions) -> int:
    """How many commits there were since all of a bucket was one run at the last level, going by the sequences of its files; what
    came before its first row does not count."""
    max_level = options.max_level(levels)
    newer = [file.sequence for run in levels.runs if run.level < max_level for file in run.files]
    if not newer:
        return 0
    settled = [file.sequence for run in levels.runs if run.level == max_level for file in run.files]
    known = [sequence for sequence in (*settled, *newer) if sequence is not None]
    coming = max(known, default=0) + 1  # of files not committed yet
    dated = [coming if sequence is None else sequence for sequence in newer]
    last_full = max((s for s in settled if s is not None), default=min(dated) - 1)
    return max(dated) - last_full


def in_full(schema: Schema, now_ms: int) -> Callable[[Levels], Compaction | None]:
    """Everything into one run without dead rows and expired ones at the last level."""
    chosen, expiry = pick_options(schema.parsed_options), RowExpiry.of(schema, now_ms)

    def choose(levels: Levels) -> Compaction | None:
        expired = {file.name for file in levels.files if expiry and expiry.concerns(file)}
        if (found := pick_full(levels, chosen)) or not expired:
            return found
        last = chosen.max_level(levels)
        return Compaction(stretches(levels.runs[0].files, expired), last, last, "full: expired rows")

    return choose
