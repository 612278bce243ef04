"""Picks the next compaction of a bucket. Pure: the modules here do no I/O and read no clock."""

from lsmlake.lsm.pick.picked import Compaction, last_level_of
from lsmlake.lsm.pick.strategy import pick, pick_full
from lsmlake.lsm.pick.task import Rewrite, Steps, Upgrade, drops_deletes, plan_task
from lsmlake.lsm.pick.tiered import pick_tiered
from lsmlake.lsm.pick.universal import pick_universal

__all__ = [
    "Compaction",
    "Rewrite",
    "Steps",
    "Upgrade",
    "drops_deletes",
    "last_level_of",
    "pick",
    "pick_full",
    "pick_tiered",
    "pick_universal",
    "plan_task",
]
