"""The one question asked of a bucket: what to compact next."""

from __future__ import annotations

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.compaction import Compaction
from lsmlake.lsm.pick.tiered import pick_tiered
from lsmlake.lsm.pick.universal import pick_universal
from lsmlake.options.compaction import TIERED, CompactionOptions


def pick(
    levels: Levels, options: CompactionOptions, *, now_ms: int, hour: int | None = None, empty_picks: int | None = None
) -> Compaction | None:
    """The next compaction by the table's strategy, `None` if the bucket is in order.

    One compaction a call; ask again with the tree it leaves, its new deletion vectors counted, until `None`. `now_ms`,
    `hour` and `empty_picks` concern the universal strategy, see `pick_universal`.
    """
    if options.strategy == TIERED:
        return pick_tiered(levels, options)
    return pick_universal(levels, options, now_ms=now_ms, hour=hour, empty_picks=empty_picks)
