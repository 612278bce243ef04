"""Cutting files into sections, and each section into as few sorted runs as possible.

A section is a set of files no other file shares a key with, so sections can be merged one after the other, or moved
without a merge if they hold a single file. Inside a section files chain by overlap; the number of runs is the greatest number of
files that share one key, the least there can be.

1. Go through the files by first key, then last key. A file starting past everything seen so far opens a section; a shared
   border key joins.
2. Inside a section keep the runs on a heap by their last key: the file continues the run that ends first if it starts after that
   end, else it opens a new run. This is interval partitioning (Kleinberg and Tardos, Algorithm Design, 4.1).

Runs found here mix levels; which of two rows is newer is told by `levels.recency` of their files, never by the run.

Source: Apache Paimon, `IntervalPartition`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappush, heapreplace

from lsmlake.format.files import DataFile


@dataclass(frozen=True)
class Section:
    """Files to be merged together: `runs` in order of their first key, in each the files in key order and disjoint."""

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
    """The sections of `files` in key order; their key ranges are disjoint. O(files log files)."""
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
