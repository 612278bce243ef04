"""A picked compaction: the files to bring to one level. A value; nothing has been read or written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from lsmlake.format.data_files import DataFile
from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.options.compaction_options import CompactionOptions


@dataclass(frozen=True)
class Compaction:
    """Brings `inputs` to `output_level`.

    An output file holds rows of one of the `parts` only, because other files may lie between the key ranges of two parts. Whole
    runs form one part; if only some files of a run are rewritten, each sequence of neighbouring files forms a part. The files of
    a part are ordered newest run first. `dead_share`: a file that needs no merge is rewritten if a greater share of its rows is
    deleted.
    """

    parts: tuple[tuple[DataFile, ...], ...]
    output_level: int
    max_level: int
    reason: str
    dead_share: float = 0.0

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return tuple(file for part in self.parts for file in part)


def whole_runs(runs: Iterable[SortedRun], output_level: int, max_level: int, reason: str, dead_share: float) -> Compaction:
    """Picks all files of `runs`, which are ordered newest first and have no run between them."""
    return Compaction((tuple(file for run in runs for file in run.files),), output_level, max_level, reason, dead_share)


def stretches(files: Sequence[DataFile], picked: Collection[str]) -> tuple[tuple[DataFile, ...], ...]:
    """Returns the picked files of a run (by name), neighbours grouped together."""
    grouped = groupby(files, key=lambda file: file.name in picked)
    return tuple(tuple(group) for taken, group in grouped if taken)


def last_level_of(options: CompactionOptions, levels: Levels) -> int:
    """The level that a full compaction brings everything to. A deeper tree keeps its depth."""
    return max(options.num_levels, levels.highest_level + 1, 2) - 1
