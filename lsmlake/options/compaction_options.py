"""Options of compaction: which sorted runs a compaction takes, and when; in append-only tables, when it rewrites files, and how
it sorts their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lsmlake.options.changelog_options import FULL_COMPACTION, LOOKUP
from lsmlake.options.option import Change, Tables, Values, When, option
from lsmlake.options.option_types import duration, fraction, hour, integer, names, one_of, size

TIERED, UNIVERSAL = "tiered", "universal"
RADICAL, GENTLE = "radical", "gentle"

_TIERED = (When("compaction.strategy", (TIERED,)),)
UNIVERSAL_ONLY = (When("compaction.strategy", (UNIVERSAL,)),)
_LOOKING_UP = When("deletion-vectors.enabled", (True,)), When("changelog-producer", (LOOKUP,))
"""Under either option, a compaction looks up level-0 keys in older files, so a bucket without level-0 files is read without a
merge."""


def _levels(values: Values) -> int:
    return 32 if values["compaction.strategy"] == TIERED else values["num-sorted-run.compaction-trigger"] + 1


def _level_of_changelog(values: Values) -> int | None:
    """The last level, if its number matters: with the full-compaction producer rows are reported when they reach it."""
    return values["num-levels"] if values["changelog-producer"] == FULL_COMPACTION else None


@dataclass(frozen=True)
class CompactionOptions:
    TABLES: ClassVar = Tables.KEYED

    strategy: str = option(
        "compaction.strategy",
        one_of(TIERED, UNIVERSAL),
        TIERED,
        "which sorted runs a compaction takes; default without deletion vectors, and with an option of universal: universal",
        own=True,
        derived=lambda values: TIERED if values["deletion-vectors.enabled"] else UNIVERSAL,
    )
    full_delta_commits: int | None = option(
        "full-compaction.delta-commits",
        integer(1),
        None,
        "a writer compacts a bucket in full after this many commits; default: never, or 1 under changelog-producer ="
        " full-compaction",
        derived=lambda values: 1 if values["changelog-producer"] == FULL_COMPACTION else None,
    )
    num_levels: int = option(
        "num-levels",
        integer(2, 1_000),
        32,
        "levels of a bucket, including level 0; default under universal: num-sorted-run.compaction-trigger + 1. A deeper tree"
        " keeps its depth. A change rewrites the table only under changelog-producer = full-compaction",
        change=Change.REWRITES,
        derived=_levels,
        matters=_level_of_changelog,
    )
    tier_runs: int = option(
        "compaction.tier-runs", integer(2, 1_000), 8, "number of runs of similar size that are merged", own=True, only=(_TIERED,)
    )
    reclaim_dead_percent: int = option(
        "compaction.reclaim-dead-percent",
        integer(1, 100),
        50,
        "a file with a greater share of dead rows is rewritten",
        own=True,
        only=(_TIERED,),
    )
    sorted_run_trigger: int = option(
        "num-sorted-run.compaction-trigger",
        integer(1),
        5,
        "number of sorted runs that start a compaction",
        only=(UNIVERSAL_ONLY,),
    )
    stop_trigger: int | None = option(
        "num-sorted-run.stop-trigger",
        integer(1),
        None,
        "number of sorted runs that a writer must not exceed; it never does, because it compacts before it commits",
    )
    max_size_amplification_percent: int = option(
        "compaction.max-size-amplification-percent",
        integer(0),
        200,
        "a full compaction starts when all other runs have more than this percentage of the bytes of the oldest run",
        only=(UNIVERSAL_ONLY,),
    )
    size_ratio: int = option(
        "compaction.size-ratio",
        integer(0),
        1,
        "percentage by which the next older run may be larger than the newer runs together and still join them",
        only=(UNIVERSAL_ONLY,),
    )
    optimization_interval_ms: int | None = option(
        "compaction.optimization-interval", duration, None, "longest time between full compactions", only=(UNIVERSAL_ONLY,)
    )
    total_size_threshold_bytes: int | None = option(
        "compaction.total-size-threshold", size, None, "buckets smaller than this are compacted in full", only=(UNIVERSAL_ONLY,)
    )
    incremental_size_threshold_bytes: int | None = option(
        "compaction.incremental-size-threshold",
        size,
        None,
        "a full compaction starts when more bytes than this are outside of the last level",
        only=(UNIVERSAL_ONLY,),
    )
    lookup_compact: str | None = option(
        "lookup-compact",
        one_of(RADICAL, GENTLE),
        RADICAL,
        "radical: every compaction takes level 0; gentle: the size rules decide, and level 0 is taken at least every"
        " lookup-compact.max-interval commits",
        only=(UNIVERSAL_ONLY, _LOOKING_UP),
        derived=lambda values: RADICAL if any(when.holds(values) for when in _LOOKING_UP) else None,
    )
    lookup_max_interval: int = option(
        "lookup-compact.max-interval",
        integer(1),
        10,
        "most runs at level 0, but never fewer than the trigger; default: twice num-sorted-run.compaction-trigger",
        only=((When("lookup-compact", (GENTLE,)),),),
        derived=lambda values: 2 * values["num-sorted-run.compaction-trigger"],
    )
    offpeak_start_hour: int | None = option(
        "compaction.offpeak.start.hour", hour, None, "first hour of the off-peak time, in UTC", only=(UNIVERSAL_ONLY,)
    )
    offpeak_end_hour: int | None = option(
        "compaction.offpeak.end.hour", hour, None, "first hour after the off-peak time, in UTC", only=(UNIVERSAL_ONLY,)
    )
    offpeak_ratio: int = option(
        "compaction.offpeak-ratio", integer(0, 100), 0, "added to compaction.size-ratio at off-peak times", only=(UNIVERSAL_ONLY,)
    )

    # constants, not options; `bench/tiers.py` measures other values
    reclaim_bucket_share: float = 0.2
    """Share of dead rows among all rows at level >= 1 above which the files with most dead rows are rewritten: a scan reads at
    most a quarter more than the live rows."""
    small_run_bytes: int = 1 << 17
    """All runs smaller than this count as similar in size."""

    reclaim_later_share: float = 1 / 3
    """The same for a statement that inserts no rows, which leaves those that it marks to the next write or to maintenance: a
    scan then reads at most half more than the live rows."""

    @property
    def reclaiming_later(self) -> CompactionOptions:
        """The options for the compaction of a statement that inserts no rows."""
        return replace(self, reclaim_bucket_share=max(self.reclaim_bucket_share, self.reclaim_later_share))

    @property
    def dead_share(self) -> float:
        """The largest share of dead rows with which a file can move to another level without a rewrite."""
        return self.reclaim_dead_percent / 100


AUTO, ORDER, ZORDER, HILBERT = STRATEGIES = "auto", "order", "zorder", "hilbert"


@dataclass(frozen=True)
class AppendOptions:
    TABLES: ClassVar = Tables.APPEND_ONLY

    min_files: int = option(
        "compaction.min.file-num", integer(2), 5, "a compaction merges the small files of a bucket if they are so many"
    )
    delete_ratio: float = option(
        "compaction.delete-ratio-threshold", fraction, 0.2, "a compaction rewrites a file with a greater share of dead rows"
    )
    clustering_columns: tuple[str, ...] = option(
        "clustering.columns", names, (), "a compaction sorts the rows of the files that it writes by these columns"
    )
    clustering_strategy: str = option(
        "clustering.strategy",
        one_of(*STRATEGIES),
        AUTO,
        "order sorts by the columns in turn, zorder and hilbert by all of them at once; auto: order for one column, zorder for up"
        " to four, hilbert for more",
        only=((When("clustering.columns"),),),
    )
