"""Partitions files into sections, and each section into the smallest number of sorted runs.

The key ranges of two sections do not overlap, so sections are merged one after the other, and a section of a single file can be
moved without a merge. The number of runs in a section is the greatest number of files that share one key.

1. Sort the files by first key, then last key. A file that begins after the last key seen so far starts a new section; a file that
   begins at this key joins the section.
2. Inside a section, keep the runs on a heap by their last key. The file is appended to the run that ends first if it begins after
   that end; otherwise it starts a new run. This is interval partitioning (Kleinberg and Tardos, Algorithm Design, 4.1).

These runs mix levels: `levels.recency` of the files decides which of two rows is newer, not the run.

Source: Apache Paimon, `IntervalPartition`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappush, heapreplace

from lsmlake.format.files import DataFile


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
    found: list[Section] = []
    chain: list[DataFile] = []
    bound: tuple = ()
    for file in sorted(files, key=lambda file: (file.min_key, file.max_key)):
        if chain and file.min_key > bound:
            found.append(_section(chain))
            chain = []
        bound = max(bound, file.max_key) if chain else file.max_key
        chain.append(file)
    return [*found, _section(chain)] if chain else found


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
