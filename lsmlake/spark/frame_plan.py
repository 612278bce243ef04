"""What the plan of a DataFrame says of its rows.

`shuffled`: whether they passed a shuffle, after which their order in a task means nothing. `runs_python`: whether Python
functions make them.

PySpark has no way to the plan of a DataFrame, so this module calls the JVM of a classic session. In a Connect session it reads
the client's plan; a DataFrame passed to foreachBatch has no plan there.
"""

from __future__ import annotations

import re

from lsmlake.spark.frame_types import is_connect
from lsmlake.undo import pass_interruption

_EXCHANGE = re.compile(r"^[^A-Za-z]*Exchange\b", re.MULTILINE)  # a step, not a column; BroadcastExchange moves the other side
_MOVED_RDD = re.compile(r"\b(Shuffled(Row)?|(Local|Reliable)Checkpoint)RDD\b")  # a checkpoint forgets what was before it
_STEP = re.compile(r"^[^A-Za-z]*(\w+)", re.MULTILINE)
_STAYING = {
    *("Relation", "RelationV2", "LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "View", "SubqueryAlias"),
    *("Project", "Filter", "Union", "Generate", "Sample", "MapInArrow", "MapInPandas"),
}
"""The steps of an analyzed plan that leave rows in their tasks. Other plans are also planned physically to look for an
exchange, which takes as long as the write of a few thousand rows."""
_ON_CONNECT = {
    *("Join", "AsOfJoin", "LateralJoin", "Aggregate", "Deduplicate", "Repartition", "RepartitionByExpression", "Sort"),
    *("GroupMap", "CoGroupMap", "SetOperation"),
}
"""The steps of a client's plan that move rows."""
_OF_SPARK = "(explode|posexplode|inline)(_outer)?|stack|json_tuple|variant_explode(_outer)?"
_PYTHON_TABLES = re.compile(rf"^[^A-Za-z]*Generate (?!({_OF_SPARK})\()", re.MULTILINE)
_CUT = re.compile(r"^Truncated plan|more characters\s*$")
"""Of the text of a plan that is longer than `spark.sql.maxPlanStringLength`."""
_HIDING = "LogicalRDD"
"""The step that hides what was before it: a checkpoint, an RDD, a micro-batch of a stream."""


def shuffled(df) -> bool:
    """Whether the plan of the DataFrame moves its rows between tasks. False if the plan is not known."""
    try:
        if is_connect(df):
            return _on_connect(df._plan)
        execution = df._jdf.queryExecution()
        analyzed = execution.analyzed()
        steps = set(_STEP.findall(analyzed.toString()))
        stays = steps <= _STAYING and analyzed.subqueriesAll().isEmpty()  # a subquery may become a join
        if not stays and _EXCHANGE.search(execution.executedPlan().toString()):
            return True
        if stays and _HIDING not in steps:
            return False
        leaves = analyzed.collectLeaves()
        nodes = (leaves.apply(number) for number in range(leaves.size()))
        return any(_MOVED_RDD.search(leaf.rdd().toDebugString()) for leaf in nodes if leaf.nodeName() == _HIDING)
    except Exception as unknown:  # the write will report an error of the plan
        pass_interruption(unknown)
        return False


def _on_connect(plan) -> bool:
    children = (getattr(plan, name, None) for name in ("_child", "left", "right", "_left", "_right"))
    return type(plan).__name__ in _ON_CONNECT or any(_on_connect(child) for child in children if child is not None)


def runs_python(df, *, micro_batch: bool = False) -> bool:
    """Whether Python functions make rows of the DataFrame, which may be a stream. True if the plan does not tell.

    Args:
        micro_batch: `df` is a micro-batch; the function returned False for its stream.
    """
    try:
        if is_connect(df):
            return True
        analyzed = df._jdf.queryExecution().analyzed()
        text = analyzed.toString()
        if _CUT.search(text) or (_HIDING in _STEP.findall(text) and not micro_batch):
            return True
        pattern = df.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
        return analyzed.containsPattern(pattern) or bool(_PYTHON_TABLES.search(text))
    except Exception as unknown:  # the write will report an error of the plan
        pass_interruption(unknown)
        return True
