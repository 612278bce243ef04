"""The interface of the demo to Spark or, without Java, to its own process: the same events, questions and proof on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.demo.events import DemoSource
from lsmlake.errors import InvalidOption


class EngineName(str, Enum):
    """The values of `--engine`."""

    SPARK = "spark"
    PYTHON = "python"

    @staticmethod
    def of(given: str | None) -> EngineName | None:
        """The engine of this name; None if none was given. Raises InvalidOption."""
        known = {one.value: one for one in EngineName}
        if given is not None and given not in known:
            what, expected = "there is no such engine", " or ".join(known)
            raise InvalidOption(what, where="--engine", expected=expected, found=repr(given), cure="write one of these")
        return None if given is None else known[given]


class DemoEngine(Protocol):
    """An engine of the demo. `title`: the title of the stream. `intake`: a clause that says how the events reach the table.
    `reader`, `writer`: the report's names for the readers of the table and the writers of plain files."""

    title: str
    intake: str
    reader: str
    writer: str

    def lake(self, warehouse: Path) -> Lake:
        """The warehouse, opened."""

    def stream(self, table: Table, source: DemoSource) -> Iterator[int]:
        """Write the events to the table beside the caller. Yields the number of micro-batches done, in ascending order, until all
        are; left early, it stops. Raises LakeError."""

    def ask(self, table: Table, query: str) -> list[dict]:
        """The answer to a query of `demo.queries`."""

    def rows(self, table: Table) -> pa.Table:
        """All rows, by the engine's own way to read a table."""

    def plain(self, table: Table, query: str, directory: Path, files: int) -> Callable[[], object]:
        """Write the rows of the table to about `files` Parquet files. Returns a function that asks them `query`."""
