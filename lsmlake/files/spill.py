"""Sorts rows by key. Rows that do not fit into memory are spilled: sorted runs in temporary folders on local disk, which are
merged, and deleted on close.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake import undo
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows
from lsmlake.storage.storage import storage_errors

_BATCH_ROWS = 1 << 16
_BATCH_ROWS_LEAST = 1 << 8
_BATCHES = 16
"""A run is at least so many batches, unless they would be too small: a merge holds a batch of every run, and so a small part of
all rows, even if each file has runs of many buckets."""


class _Stretch(NamedTuple):
    path: str
    first: int
    last: int
    rows: int


class Spill:
    """Runs of tables by key. A run can be read repeatedly, in batches, without loading the rest of its file."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._runs: dict[Hashable, list[_Stretch]] = {}
        self._files = 0

    def write(self, parts: Iterable[tuple[Hashable, pa.Table]]) -> None:
        """Writes one file with a run for each key of `parts`, all of one schema."""
        path, writer, count = os.path.join(self._scratch.path, f"{self._files}.arrow"), None, 0
        self._files += 1
        try:
            for key, table in parts:
                with storage_errors("write", path):
                    writer = writer or pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
                    rows = min(_BATCH_ROWS, max(_BATCH_ROWS_LEAST, table.num_rows // _BATCHES))
                    batches = table.combine_chunks().to_batches(max_chunksize=rows)
                    for batch in batches:
                        writer.write_batch(batch)
                self._runs.setdefault(key, []).append(_Stretch(path, count, count + len(batches), table.num_rows))
                count += len(batches)
        finally:
            if writer is not None:
                with storage_errors("write", path):
                    writer.close()

    def keys(self) -> list[Hashable]:
        return list(self._runs)

    def runs(self, key: Hashable) -> list[tuple[Iterator[pa.Table], int]]:
        """(tables in order, number of rows) of each run, in the order the runs were written."""
        return [(_tables(stretch), stretch.rows) for stretch in self._runs.get(key, ())]

    def close(self) -> None:
        self._scratch.close()


def _tables(stretch: _Stretch) -> Iterator[pa.Table]:
    with pa.OSFile(stretch.path, "rb") as source:
        reader = pa.ipc.open_file(source)
        for number in range(stretch.first, stretch.last):
            yield pa.Table.from_batches([reader.get_batch(number)])


class Scratch:
    """A folder that `close` removes with its content. The end of a failed call, or of the object, removes it, too."""

    def __init__(self) -> None:
        self.path = os.path.join(tempfile.gettempdir(), f"lsmlake-{os.getpid()}-{uuid.uuid4().hex}")
        undo.made(_remove, [self.path])
        self._forget = weakref.finalize(self, _remove, [self.path])
        os.mkdir(self.path, 0o700)

    def close(self) -> None:
        _remove([self.path])
        undo.kept(_remove, [self.path])
        self._forget.detach()


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def in_key_order(tables: Iterable[pa.Table], key: Sequence[str], buffer_bytes: int, window_bytes: int) -> Iterator[pa.Table]:
    """Yields the rows in ascending order of their keys; rows of equal keys keep their order.

    Args:
        tables: The rows, all with the same columns.
        key: The key columns; they have no nulls and no NaN.
        buffer_bytes: The rows that are sorted in memory; more are spilled in runs of this size.
        window_bytes: The rows of all runs that a merge holds.
    """

    def ordered(parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts)
        return rows.take(pa.array(np.argsort(comparable([rows.select(key)])[0], kind="stable")))

    held: list[pa.Table] = []
    spill = None
    try:
        for table in tables:
            held.append(table)
            if sum(each.get_total_buffer_size() for each in held) >= buffer_bytes:
                spill = spill or Spill()
                spill.write([(None, ordered(held))])
                held = []
        if held and spill is None:
            yield ordered(held)
        if spill is None:
            return
        if held:
            spill.write([(None, ordered(held))])
        runs = [RunReader(stretch, rows) for stretch, rows in spill.runs(None)]
        yield from merge_windows(runs, key, ordered, window_bytes)
    finally:
        if spill is not None:
            spill.close()
