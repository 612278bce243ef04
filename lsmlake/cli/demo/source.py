"""The events on disk, as the stream finds them."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.cli.demo.events import SEQUENCE_FIELD, write_batches


class DemoSource(NamedTuple):
    """`events` in Parquet files, each a micro-batch; `ends` counts the events up to the end of every file."""

    events: pa.Table
    directory: Path
    ends: tuple[int, ...]
    bytes: int

    @staticmethod
    def write(events: pa.Table, directory: Path, batches: int) -> DemoSource:
        """In `batches` files of equal row count."""
        files = write_batches(events, directory, batches)
        ends = tuple(accumulate(pq.read_metadata(file).num_rows for file in files))
        return DemoSource(events, directory, ends, sum(file.stat().st_size for file in files))

    def until(self, batches: int) -> pa.Table:
        """The events of the first `batches` files."""
        return self.events.slice(0, self.ends[batches - 1])

    def day(self, batches: int) -> str:
        """The day of the last event in the first `batches` files."""
        return f"{self.events[SEQUENCE_FIELD][self.ends[batches - 1] - 1].as_py():%Y-%m-%d}"
