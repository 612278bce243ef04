"""The demo without Java: a thread writes one file per micro-batch, each as one commit, and lsmlake's SQL answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.demo.events import DemoSource
from lsmlake.warehouse import connect

_WRITER = "demo"


class InProcess:
    """The `DemoEngine` in this process."""

    title = "The stream, in this process"
    intake, reader, writer = "A thread writes them, one file per micro-batch and commit,", "SQL", "PyArrow and read by DuckDB"

    def lake(self, warehouse: Path) -> Lake:
        self._lake = connect(warehouse)
        return self._lake

    def stream(self, table: Table, source: DemoSource) -> Iterator[int]:
        done: SimpleQueue[int | None] = SimpleQueue()
        stop = Event()

        def write() -> None:
            try:
                for number, file in enumerate(sorted(source.directory.glob("*.parquet"))):
                    if stop.is_set():
                        break
                    table.upsert(file, writer_id=_WRITER, commit_id=number)
                    done.put(number + 1)
            finally:
                done.put(None)

        with ThreadPoolExecutor(1, "lsmlake-demo") as pool:
            writing = pool.submit(write)
            try:
                yield from iter(done.get, None)
            finally:
                stop.set()
            writing.result()  # raises its error

    def ask(self, table: Table, query: str) -> list[dict]:
        return self._lake.sql(query.format(flights=table.name)).to_arrow().to_pylist()

    def rows(self, table: Table) -> pa.Table:
        return self._lake.sql(f"SELECT * FROM {table.name}").to_arrow()

    def plain(self, table: Table, query: str, directory: Path, files: int) -> Callable[[], object]:
        rows = table.scan().to_arrow()
        directory.mkdir()
        step = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, step):
            pq.write_table(rows.slice(start, step), directory / f"{start}.parquet", compression="zstd")
        database = duckdb.connect()
        plain = query.format(flights=f"read_parquet('{directory}/*.parquet')")
        return lambda: database.sql(plain).fetchall()
