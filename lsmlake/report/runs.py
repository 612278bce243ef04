"""Converts the sorted runs of a bucket to the rows of its picture (`tree`)."""

from __future__ import annotations

from lsmlake.format.files import BucketState
from lsmlake.lsm.levels import Levels
from lsmlake.maintain.listings import key_text
from lsmlake.report.tree import TreeRow


def tree_rows(state: BucketState) -> list[TreeRow]:
    """Returns one row per sorted run, newest first. O(files log files)."""
    levels = Levels.of(state.files, {name: ref.cardinality for name, ref in state.vectors.items()})
    return [
        TreeRow(
            run.level,
            len(run.files),
            run.rows,
            run.rows - run.live_rows,
            run.bytes,
            key_text(run.files[0].min_key),
            key_text(max(file.max_key for file in run.files)),
        )
        for run in levels.runs
    ]
