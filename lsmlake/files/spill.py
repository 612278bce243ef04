"""Temporary sorted runs on local disk, for a writer whose input exceeds its memory limit. Deleted on close.

Temporary folders on local disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from lsmlake import undo
from lsmlake.storage.storage import storage_errors

_BATCH_ROWS = 1 << 16


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
        """Write one file with a run for each key of `parts`, all of one schema."""
        path, writer, count = os.path.join(self._scratch.path, f"{self._files}.arrow"), None, 0
        self._files += 1
        try:
            for key, table in parts:
                with storage_errors("write", path):
                    writer = writer or pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
                    batches = table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
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
