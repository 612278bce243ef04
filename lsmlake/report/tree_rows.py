"""The sorted runs of one bucket as rows, for pictures and listings."""

from __future__ import annotations

from typing import NamedTuple

from lsmlake.format.data_files import BucketState
from lsmlake.lsm.levels import Levels
from lsmlake.maintain.version_listings import key_text


class TreeRow(NamedTuple):
    """A sorted run (or one level-0 file): `rows` stored, `dead` of them deleted; keys are inclusive, as text."""

    level: int
    files: int
    rows: int
    dead: int
    bytes: int
    min_key: str
    max_key: str


def tree_rows(state: BucketState) -> list[TreeRow]:
    """Returns one row per sorted run, newest first. O(files log files)."""
    levels = Levels.of(state.files, state.dead)
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
