"""Merges sorted runs that are larger than memory, one window of the key space at a time.

1. Load a chunk of each run, which tells the bytes of a row, then a share of the window, in proportion to the rows that the run
   has left, so that all runs reach about the same key. Runs that fit into one window are merged at once.
2. The bound is the smallest last loaded key among the runs that are not fully loaded. All rows up to the bound are in memory.
3. Merge and yield the rows up to the bound (inclusive), keep the others for the next window. Repeat.

Memory: one window, plus at most one chunk per run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels.keys import comparable
from lsmlake.schema.rowkind import with_kinds


@dataclass
class RunReader:
    """Reads a sorted run once: `chunks` yields its rows in key order; `rows` is the estimated number of rows not yet loaded."""

    chunks: Iterator[pa.Table]
    rows: int
    loaded: pa.Table | None = None
    ended: bool = False

    def load(self, rows: int) -> None:
        """Loads chunks until at least `rows` rows are in memory or the run ends."""
        parts = [self.loaded] if self.loaded is not None else []
        count = sum(part.num_rows for part in parts)
        while not self.ended and count < max(rows, 1):
            chunk = next(self.chunks, None)
            if chunk is None:
                self.ended = True
            elif chunk.num_rows:
                parts.append(chunk)
                count += chunk.num_rows
                self.rows -= chunk.num_rows
        self.loaded = pa.concat_tables(with_kinds(parts)) if parts else None

    @property
    def left(self) -> int:
        """The estimated number of rows not yet merged."""
        return max(self.rows, 0) + (0 if self.loaded is None else self.loaded.num_rows)

    @property
    def done(self) -> bool:
        return self.ended and (self.loaded is None or not self.loaded.num_rows)


def merge_windows(
    runs: Sequence[RunReader], key: Sequence[str], merge: Callable[[list[pa.Table]], pa.Table], window_bytes: int = 32 << 20
) -> Iterator[pa.Table]:
    """Yields the merge of `runs` (oldest first) as tables in key order.

    Args:
        runs: Oldest first. All rows of a key are in one chunk of a run (`whole_keys`).
        key: The key columns.
        merge: Merges sorted tables, oldest first, into one.
        window_bytes: Approximate size of a window in memory.
    """
    runs = list(runs)
    while True:
        for run in runs:
            run.load(1)
        runs = [run for run in runs if not run.done]
        if not runs:
            return
        window, left = _window_rows(runs, window_bytes), sum(run.left for run in runs)
        for run in runs:
            run.load(window * run.left // left)
        yield merge(with_kinds(_cut(runs, key) if len(runs) > 1 else [_all(runs[0])]))


def whole_keys(chunks: Iterator[pa.Table], key: Sequence[str]) -> Iterator[pa.Table]:
    """Re-cuts the chunks of a run that may hold several rows of a key, so that all rows of a key are in one chunk."""
    held: pa.Table | None = None
    for chunk in chunks:
        table = chunk if held is None else pa.concat_tables(with_kinds([held, chunk]))
        if not table.num_rows:
            continue
        (keys,) = comparable([table.select(key)])
        start = int(np.searchsorted(keys, keys[-1], side="left"))
        held = table.slice(start)
        if start:
            yield table.slice(0, start)
    if held is not None:
        yield held


def _window_rows(runs: Sequence[RunReader], window_bytes: int) -> int:
    loaded = [run.loaded for run in runs if run.loaded is not None]
    rows = sum(table.num_rows for table in loaded)
    return max(1, window_bytes * rows // max(1, sum(table.nbytes for table in loaded)))


def _all(run: RunReader) -> pa.Table:
    table, run.loaded = run.loaded, None
    return table


def _cut(runs: Sequence[RunReader], key: Sequence[str]) -> list[pa.Table]:
    """Removes from each run its loaded rows up to the bound and returns them."""
    keys = comparable([run.loaded.select(key) for run in runs])
    open_ends = [k[-1] for k, run in zip(keys, runs, strict=True) if not run.ended]
    if not open_ends:
        return [_all(run) for run in runs]
    bound = min(open_ends)
    pieces = []
    for run, k in zip(runs, keys, strict=True):
        stop = int(np.searchsorted(k, bound, side="right"))
        pieces.append(run.loaded.slice(0, stop))
        run.loaded = run.loaded.slice(stop)
    return pieces
