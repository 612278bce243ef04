"""What the strategies may be told. Defaults are Paimon's where it has the option; `bench/tiers.py` speaks for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import InvalidOption
from lsmlake.lsm.levels import Levels

UNIVERSAL, TIERED = "universal", "tiered"
RADICAL, GENTLE = "RADICAL", "GENTLE"


@dataclass(frozen=True)
class PickOptions:
    """Settings of `pick`; `None` switches a rule off unless said otherwise."""

    strategy: str = UNIVERSAL

    num_levels: int | None = None
    """Levels, level 0 included; `None`: sorted_run_trigger + 1, or 32 if tiered. A deeper tree keeps its depth."""
    reclaim_dead_share: float | None = 0.5
    """A file with a greater share of dead rows is not moved as it is but rewritten; the tiered strategy looks for them."""

    # universal
    sorted_run_trigger: int = 5
    """Runs from which the size rules look at a bucket."""
    size_ratio: int = 1
    """Percent by which the next older run may exceed the newer ones together and still join them."""
    max_size_amplification_percent: int = 200
    """Bytes of all runs but the oldest, in percent of the oldest."""
    optimization_interval_ms: int | None = None
    """Full compaction when the last one is longer ago."""
    total_size_threshold_bytes: int | None = None
    """Full compaction while the bucket is smaller."""
    incremental_size_threshold_bytes: int | None = None
    """Full compaction once more bytes lie outside the last level."""
    offpeak_start_hour: int = -1
    offpeak_end_hour: int = -1
    offpeak_ratio: int = 0
    """Adds to size_ratio from the start hour (inclusive) to the end hour (exclusive); -1 or equal hours: never."""
    force_level0: str | None = RADICAL
    """RADICAL: every pick takes level 0; GENTLE: every n-th at least; `None`: when the size rules do."""
    lookup_max_interval: int | None = None
    """That n; `None`: twice the trigger; never below the trigger."""

    # tiered
    tier_runs: int = 8
    """So many runs of like size are merged into one."""
    small_run_bytes: int = 1 << 17
    """Runs below are of like size whatever their size."""
    reclaim_bucket_share: float | None = 0.2
    """Share of dead rows among all rows at level >= 1 above which the dirtiest files are rewritten: a scan reads a quarter more
    than the live rows at most."""

    def __post_init__(self) -> None:
        _demand("strategy", self.strategy in (UNIVERSAL, TIERED), f"{UNIVERSAL} or {TIERED}", self.strategy)
        _demand("force_level0", self.force_level0 in (RADICAL, GENTLE, None), f"{RADICAL}, {GENTLE} or None", self.force_level0)
        _demand("num_levels", self.num_levels is None or self.num_levels >= 2, "at least 2", self.num_levels)
        _demand("sorted_run_trigger", self.sorted_run_trigger >= 1, "at least 1", self.sorted_run_trigger)
        _demand("tier_runs", self.tier_runs >= 2, "at least 2", self.tier_runs)
        _demand("small_run_bytes", self.small_run_bytes >= 1, "at least 1", self.small_run_bytes)
        for name in ("reclaim_dead_share", "reclaim_bucket_share"):
            share = getattr(self, name)
            _demand(name, share is None or 0 <= share <= 1, "a share between 0 and 1", share)

    def max_level(self, levels: Levels) -> int:
        """The last level of this tree."""
        default = 32 if self.strategy == TIERED else self.sorted_run_trigger + 1
        return max(self.num_levels or default, levels.highest_level + 1, 2) - 1

    @property
    def dead_share(self) -> float:
        """Share of dead rows up to which a file may be moved as it is."""
        return 1.0 if self.reclaim_dead_share is None else self.reclaim_dead_share


def _demand(name: str, holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise InvalidOption(f"{name} is out of range", expected=expected, found=found, cure="change the option")
