"""Whether the rows of a DataFrame have passed a shuffle, after which their order in a task means nothing.

This is the one module that asks the JVM of a classic session: PySpark tells the plan of a DataFrame to nobody else. Of a Connect
session the client's own plan is read; what foreachBatch passes there has no plan.
"""

from __future__ import annotations

import re

from lsmlake.spark.types import is_connect
from lsmlake.undo import pass_interruption

_EXCHANGE = re.compile(r"^[^A-Za-z]*Exchange\b", re.MULTILINE)  # a step, not a column; BroadcastExchange moves the other side
_MOVED_RDD = re.compile(r"\b(Shuffled(Row)?|(Local|Reliable)Checkpoint)RDD\b")  # a checkpoint forgets what was before it
_ON_CONNECT = {
    *("Join", "AsOfJoin", "LateralJoin", "Aggregate", "Deduplicate", "Repartition", "RepartitionByExpression", "Sort"),
    *("GroupMap", "CoGroupMap", "SetOperation"),
}
"""The steps of a client's plan that move rows."""


def shuffled(df) -> bool:
    """Whether the plan of the DataFrame moves its rows between tasks. False if the plan is not known."""
    try:
        if is_connect(df):
            return _on_connect(df._plan)
        execution = df._jdf.queryExecution()
        if _EXCHANGE.search(execution.executedPlan().toString()):
            return True
        leaves = execution.analyzed().collectLeaves()
        found = (leaves.apply(number) for number in range(leaves.size()))
        return any(_MOVED_RDD.search(leaf.rdd().toDebugString()) for leaf in found if leaf.nodeName() == "LogicalRDD")
    except Exception as unknown:  # an error of the plan, which the write reports
        pass_interruption(unknown)
        return False


def _on_connect(plan) -> bool:
    children = (getattr(plan, name, None) for name in ("_child", "left", "right", "_left", "_right"))
    return type(plan).__name__ in _ON_CONNECT or any(_on_connect(child) for child in children if child is not None)
