"""One bucket as an LSM tree: groups its files into sorted runs and orders the runs by age; and partitions files that overlap into
sections.

Level 0 holds one sorted run per commit, each deeper level holds one sorted run. Level and sequence decide which file is newer:

1. At level 0 the file with the higher sequence is newer. A file without a sequence (`None`) belongs to the commit being built and
   is the newest. Of two files with equal sequences the one with the smaller `min_sequence` is newer.
2. Level 0 is newer than level 1, level 1 is newer than level 2, and so on.

Files with equal `recency` form one run. A commit may write several files into a bucket, but their key ranges are disjoint
(invariant I1), as they are inside every level from 1 on.

Files that another system wrote are a run of their own in their level, which is at least 1. Their rows are in any order and their
key ranges may overlap, but a key is live in one of them at most, once (invariant I2). A compaction sorts them.

The key ranges of two sections do not overlap, so sections are merged one after the other, and a section of a single file can be
moved without a merge. Each section is partitioned into the smallest number of sorted runs, which is the greatest number of files
that share one key:

1. Sort the files by first key, then last key. A file that begins after the last key seen so far starts a new section; a file that
   begins at this key joins the section.
2. Inside a section, keep the runs on a heap by their last key. The file is appended to the run that ends first if it begins after
   that end; otherwise it starts a new run. This is interval partitioning (Kleinberg and Tardos, Algorithm Design, 4.1).

These runs mix levels: `recency` of the files decides which of two rows is newer, not the run.

Source: Apache Paimon, `Levels` and `IntervalPartition`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from itertools import groupby, pairwise
from operator import attrgetter

from lsmlake.format.data_files import IMPORT, DataFile


def recency(file: DataFile) -> tuple:
    """Returns the age of a file as a sort key: smaller is newer, equal means the same run."""
    if file.level > 0:
        return (file.level, file.source) if file.source == IMPORT else (file.level,)
    newest = -math.inf if file.sequence is None else -file.sequence
    oldest = math.inf if file.min_sequence is None else file.min_sequence
    return (0, newest, oldest)


def overlaps(files: Sequence[DataFile]) -> list[tuple[DataFile, DataFile]]:
    """Returns the neighbours, among files ordered by `min_key`, whose key ranges overlap; I1: a run has none. Files of an
    append-only table have no keys."""
    return [(left, right) for left, right in pairwise(files) if left.max_key and left.max_key >= right.min_key]


@dataclass(frozen=True)
class SortedRun:
    """A run: files of one level ordered by `min_key`. `live_rows` excludes rows marked in deletion vectors. `sorted`: False for a
    run of files that another system wrote."""

    level: int
    files: tuple[DataFile, ...]
    bytes: int
    rows: int
    live_rows: int
    sorted: bool = True

    @classmethod
    def of(cls, files: Iterable[DataFile], dead: Mapping[str, int]) -> SortedRun:
        ordered = tuple(sorted(files, key=attrgetter("min_key", "max_key", "name")))
        rows = sum(file.rows for file in ordered)
        live = rows - sum(dead.get(file.name, 0) for file in ordered)
        return cls(ordered[0].level, ordered, sum(file.bytes for file in ordered), rows, live, ordered[0].sorted)

    @property
    def dead_rows(self) -> int:
        return self.rows - self.live_rows

    @property
    def live_bytes(self) -> int:
        """Estimated bytes after a rewrite, if all rows have the same size."""
        return self.bytes * self.live_rows // max(self.rows, 1)


@dataclass(frozen=True)
class Levels:
    """The sorted runs of one bucket, newest first: level 0 by sequence, then the levels 1, 2, ... that hold files.

    `dead` maps a file name to the number of rows its deletion vector marks; files without a vector are absent.
    """

    runs: tuple[SortedRun, ...] = ()
    dead: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[DataFile], dead: Mapping[str, int] | None = None) -> Levels:
        """Builds the tree from the live files of a bucket, in any order, and the cardinalities of its vectors."""
        ordered = sorted(files, key=recency)
        marked = {file.name: dead[file.name] for file in ordered if dead and dead.get(file.name)}
        runs = []
        for _, group in groupby(ordered, key=recency):
            runs.append(SortedRun.of(tuple(group), marked))
        return cls(tuple(runs), marked)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, newest run first."""
        return tuple(file for run in self.runs for file in run.files)

    @property
    def level0(self) -> tuple[DataFile, ...]:
        """The files of level 0, newest run first, inside a run by creation time and name."""
        files = (file for file in self.files if file.level == 0)
        return tuple(sorted(files, key=lambda file: (recency(file), file.created_ms, file.name)))

    @property
    def level0_runs(self) -> tuple[SortedRun, ...]:
        return tuple(run for run in self.runs if run.level == 0)

    @property
    def older_runs(self) -> tuple[SortedRun, ...]:
        """The runs of levels 1, 2, ..., newest first."""
        return tuple(run for run in self.runs if run.level > 0)

    @property
    def highest_level(self) -> int:
        """The deepest level that holds a file; 0 if only level 0 does, -1 for an empty bucket."""
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
        """Returns one sentence per violation of invariant I1; empty if there is none."""
        return tuple(
            f"level {run.level}: key ranges of {left.name} {left.min_key}..{left.max_key}"
            f" and {right.name} {right.min_key}..{right.max_key} overlap"
            for run in self.runs
            if run.sorted
            for left, right in overlaps(run.files)
        )


# -- sections ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """Files that are merged together: `runs` in order of their first key; the files of a run are disjoint and in key order."""

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run)

    @property
    def min_key(self) -> tuple:
        return self.runs[0][0].min_key

    @property
    def max_key(self) -> tuple:
        return max(run[-1].max_key for run in self.runs)


def sections(files: Iterable[DataFile]) -> list[Section]:
    """Returns the sections of `files` in key order. O(files log files)."""
    closed: list[Section] = []
    chain: list[DataFile] = []
    bound: tuple = ()
    for file in sorted(files, key=lambda file: (file.min_key, file.max_key)):
        if chain and file.min_key > bound:
            closed.append(_section(chain))
            chain = []
        bound = max(bound, file.max_key) if chain else file.max_key
        chain.append(file)
    return [*closed, _section(chain)] if chain else closed


def _section(files: list[DataFile]) -> Section:
    runs: list[list[DataFile]] = []
    ends: list[tuple[tuple, int]] = []  # heap of (last key, number of the run)
    for file in files:
        if ends and ends[0][0] < file.min_key:
            number = ends[0][1]
            runs[number].append(file)
            heapreplace(ends, (file.max_key, number))
        else:
            heappush(ends, (file.max_key, len(runs)))
            runs.append([file])
    return Section(tuple(tuple(run) for run in runs))
