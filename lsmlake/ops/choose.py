"""How a table's options become a choice of compactions: options in, a function of `Levels` out."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import Compaction, PickOptions, pick, pick_full
from lsmlake.options import Options


def pick_options(options: Options) -> PickOptions:
    defaults = PickOptions()
    reclaim = options.reclaim_dead_percent
    return PickOptions(
        strategy=options.strategy,
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


def as_needed(options: Options, now_ms: int) -> Callable[[Levels], Compaction | None]:
    """What the table's strategy asks for."""
    chosen, hour = pick_options(options), datetime.datetime.fromtimestamp(now_ms / 1000).hour
    return lambda levels: pick(levels, chosen, now_ms=now_ms, hour=hour)


def in_full(options: Options) -> Callable[[Levels], Compaction | None]:
    """Everything into one run without dead rows at the last level."""
    chosen = pick_options(options)
    return lambda levels: pick_full(levels, chosen)
