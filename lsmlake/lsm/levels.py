"""One bucket as an LSM tree: which files form a sorted run, and which run is newer.

Level 0 holds the runs of single commits, every older level one sorted run. Recency is a matter of place alone:

1. at level 0 a higher sequence is newer; files still waiting for their sequence (`None`) belong to the commit being
   made and are the newest of all; of two with the same sequence the one reaching further back stands first;
2. everything at level 0 is newer than level 1, level 1 newer than level 2, and so on.

Files that `recency` does not tell apart are one sorted run: a commit may write several files into a bucket, but their
key ranges are disjoint (invariant I1), as they are inside every level from 1 on.

Source of the order: Apache Paimon, `Levels`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import attrgetter

from lsmlake.format.files import DataFile


def recency(file: DataFile) -> tuple:
    """Place of a file in time: a smaller value is newer, an equal one means the same sorted run."""
    if file.level > 0:
        return (file.level,)
    newest = -math.inf if file.sequence is None else -file.sequence
    oldest = math.inf if file.min_sequence is None else file.min_sequence
    return (0, newest, oldest)


def overlaps(files: Sequence[DataFile]) -> list[tuple[DataFile, DataFile]]:
    """Neighbours, among files ordered by `min_key`, whose key ranges share a key."""
    return [(left, right) for left, right in pairwise(files) if left.max_key >= right.min_key]


def disjoint(files: Sequence[DataFile]) -> bool:
    """Invariant I1: no key lies in the ranges of two of these files, which are ordered by `min_key`."""
    return not overlaps(files)


@dataclass(frozen=True)
class SortedRun:
    """A sorted run: files of one level ordered by `min_key`. `live_rows` are the rows no deletion vector marks."""

    level: int
    files: tuple[DataFile, ...]
    bytes: int
    rows: int
    live_rows: int

    @classmethod
    def of(cls, files: Iterable[DataFile], dead: Mapping[str, int]) -> SortedRun:
        ordered = tuple(sorted(files, key=attrgetter("min_key", "max_key", "name")))
        rows = sum(file.rows for file in ordered)
        live = rows - sum(dead.get(file.name, 0) for file in ordered)
        return cls(ordered[0].level, ordered, sum(file.bytes for file in ordered), rows, live)

    @property
    def dead_rows(self) -> int:
        return self.rows - self.live_rows

    @property
    def live_bytes(self) -> int:
        """The bytes a rewrite would leave, taking all rows for equally wide."""
        return self.bytes * self.live_rows // max(self.rows, 1)


@dataclass(frozen=True)
class Levels:
    """The sorted runs of one bucket, newest first: level 0 by sequence, then levels 1, 2, ... without the empty ones.

    `dead` counts the rows each file's deletion vector marks; files without a vector are absent.
    """

    runs: tuple[SortedRun, ...] = ()
    dead: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[DataFile], dead: Mapping[str, int] | None = None) -> Levels:
        """Build from the live files of a bucket in any order and the cardinalities of its vectors. O(files log files)."""
        ordered = sorted(files, key=recency)
        marked = {file.name: dead[file.name] for file in ordered if dead and dead.get(file.name)}
        return cls(tuple(SortedRun.of(group, marked) for _, group in groupby(ordered, key=recency)), marked)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, newest run first."""
        return tuple(file for run in self.runs for file in run.files)

    @property
    def level0(self) -> tuple[DataFile, ...]:
        """Files of level 0, newest first; those of one run by creation time, then name."""
        waiting = (file for file in self.files if file.level == 0)
        return tuple(sorted(waiting, key=lambda file: (recency(file), file.created_ms, file.name)))

    @property
    def level0_runs(self) -> tuple[SortedRun, ...]:
        return tuple(run for run in self.runs if run.level == 0)

    @property
    def older_runs(self) -> tuple[SortedRun, ...]:
        """The runs of levels 1, 2, ..., newest first."""
        return tuple(run for run in self.runs if run.level > 0)

    @property
    def highest_level(self) -> int:
        """The oldest level that holds a file; 0 if only level 0 does, -1 for an empty bucket."""
        return self.runs[-1].level if self.runs else -1

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def live_rows(self) -> int:
        return sum(run.live_rows for run in self.runs)

    @property
    def dead_rows(self) -> int:
        return self.rows - self.live_rows

    def check(self) -> tuple[str, ...]:
        """Every violation of I1 as a sentence; empty if the tree is sound."""
        return tuple(
            f"level {run.level}: key ranges of {left.name} {left.min_key}..{left.max_key}"
            f" and {right.name} {right.min_key}..{right.max_key} overlap"
            for run in self.runs
            for left, right in overlaps(run.files)
        )
