"""What a strategy has chosen: files to bring to one level. A value; nothing has been read or written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from lsmlake.format.files import DataFile
from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.options.compaction import CompactionOptions


@dataclass(frozen=True)
class Compaction:
    """Bring `inputs` to `output_level`.

    `parts` are independent: rows of different parts never meet in one output file, since a file that is no input may lie
    between their key ranges. Choosing whole runs makes one part; rewriting some files of a run makes one for each stretch of
    neighbours. In a part the files stand newest run first. `dead_share`: a file that need not be merged is
    rewritten all the same if a greater share of its rows is dead.
    """

    parts: tuple[tuple[DataFile, ...], ...]
    output_level: int
    max_level: int
    reason: str
    dead_share: float = 0.0

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return tuple(file for part in self.parts for file in part)

    @property
    def in_place(self) -> bool:
        """No file changes its level: rows go, none are overtaken."""
        return all(file.level == self.output_level for file in self.inputs)


def whole_runs(runs: Iterable[SortedRun], output_level: int, max_level: int, reason: str, dead_share: float) -> Compaction:
    """All files of `runs`, which are newest first and without a gap."""
    return Compaction((tuple(file for run in runs for file in run.files),), output_level, max_level, reason, dead_share)


def stretches(files: Sequence[DataFile], chosen: Collection[str]) -> tuple[tuple[DataFile, ...], ...]:
    """The chosen files of a run (by name), neighbours together."""
    grouped = groupby(files, key=lambda file: file.name in chosen)
    return tuple(tuple(group) for taken, group in grouped if taken)


def last_level_of(options: CompactionOptions, levels: Levels) -> int:
    """The level that a full compaction brings everything to. A deeper tree keeps its depth."""
    return max(options.num_levels, levels.highest_level + 1, 2) - 1
