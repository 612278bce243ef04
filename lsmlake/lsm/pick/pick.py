"""Picks the next compaction by the strategy of the table: `tiered` or `universal`."""

from __future__ import annotations

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.compaction import Compaction
from lsmlake.lsm.pick.tiered import pick_tiered
from lsmlake.lsm.pick.universal import pick_universal
from lsmlake.options.compaction import TIERED, CompactionOptions


def pick(
    levels: Levels, options: CompactionOptions, *, now_ms: int, hour: int | None = None, empty_picks: int | None = None
) -> Compaction | None:
    """Returns the next compaction, None if the bucket needs none.

    Call again with the resulting levels, including new deletion vectors, until the result is None. Only the universal strategy
    uses `now_ms`, `hour` and `empty_picks`, see `pick_universal`.
    """
    if options.strategy == TIERED:
        return pick_tiered(levels, options)
    return pick_universal(levels, options, now_ms=now_ms, hour=hour, empty_picks=empty_picks)
