"""In-process peers: a peer's own scan filters and projects Arrow rows, and DuckDB computes the answer from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.peers.base import CORES, Peer, Plain
from bench.peers.read import Read


def rows_of(path: Path) -> pa.Table:
    return pq.read_table(path)


class Asked:
    """One DuckDB for all queries of a peer."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": CORES})

    def over(self, rows: object, read: Read) -> list[tuple]:
        """The answer over Arrow rows that the filter may or may not have been applied to."""
        self.connection.register("asked", rows)
        answer = self.connection.sql(read.sql("asked")).fetchall()
        self.connection.unregister("asked")
        return answer


def count(batches: pa.RecordBatchReader | pa.Table) -> int:
    """Read to the end."""
    if isinstance(batches, pa.Table):
        return batches.num_rows
    return sum(batch.num_rows for batch in batches)


class ArrowPlain(Plain):
    """By a PyArrow dataset, into which DuckDB pushes columns and filters."""

    def __init__(self, path: Path) -> None:
        self.path, self.asked = path, Asked()

    def query(self, read: Read) -> list[tuple]:
        return self.asked.over(ds.dataset(self.path), read)

    def export(self) -> int:
        return rows_of(self.path).num_rows


class ArrowPeer(Peer):
    package = ""
    """Of the registry, for its version."""

    def __init__(self, folder: Path, jars: Sequence[Path] = ()) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.asked = Asked()

    @property
    def version(self) -> str:
        return f"{self.package}-{version(self.package)} pyarrow-{pa.__version__}"

    @abstractmethod
    def scan(self, read: Read | None) -> pa.RecordBatchReader | pa.Table:
        """The columns and rows that `read` wants, pushed down as far as the peer does; None: everything."""

    def query(self, read: Read) -> list[tuple]:
        return self.asked.over(self.scan(read), read)

    def export(self) -> int:
        return count(self.scan(None))

    def plain(self, path: Path) -> Plain:
        return ArrowPlain(path)
