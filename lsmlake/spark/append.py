"""`df.write.format("lsmlake").mode("append").save(path)`: an upsert or an append through Spark's data source API.

In an append-only table the tasks write files, and the committing process publishes them.

Under a primary key Spark writes a Python data source without a shuffle, so several tasks may have rows of one bucket or key,
while a commit adds one run per bucket. So the tasks only validate their rows and return them; the committing process sorts and
writes them as one upsert. This suits batches of up to a few million rows; `Table.upsert` shuffles by bucket and writes in the
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lsmlake.api.table import Table
from lsmlake.commit.replay import Identity
from lsmlake.errors import InvalidData
from lsmlake.format.files import CommitMessage
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.schema.conform import conform
from lsmlake.schema.schema import Schema
from lsmlake.spark import write
from lsmlake.spark.ship import Package, carried, restored
from lsmlake.store.version import Version
from lsmlake.write.append import append_files, joined
from lsmlake.write.prepare import Request, prepare
from lsmlake.write.replace import publish

_TASK_BYTES = 128 << 20  # compressed; Spark collects them on the driver, within spark.driver.maxResultSize in total


@dataclass
class _Files(WriterCommitMessage):
    """The files that a task wrote."""

    messages: list[CommitMessage]


@dataclass
class _Rows(WriterCommitMessage):
    """The rows of a task in Arrow's stream format, compressed."""

    data: bytes


def writer(package: Package | None, table: Table, schema: Schema, columns: pa.Schema) -> DataSourceArrowWriter:
    """The writer for a table of either kind. `schema`: of the table. Raises InvalidData if the columns do not fit it."""
    return (_FileWriter if schema.append_only else _RowWriter)(package, table, schema, columns)


class _Writer(DataSourceArrowWriter):
    """One write. Spark calls `commit` once, with the messages of all tasks in order of their partitions."""

    def __init__(self, package: Package | None, table: Table, schema: Schema, columns: pa.Schema) -> None:
        self.package, self.table, self.schema = package, table, schema
        self.columns = write.columns_for(self.schema, columns, Request())

    def __reduce__(self):
        return carried(self.package, restored, type(self), dict(self.__dict__))

    def _version(self) -> Version:
        return replace(self.table.version, schema=self.schema)


class _FileWriter(_Writer):
    """Writes to an append-only table."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        tables = (pa.Table.from_batches([batch]).select(self.columns) for batch in iterator)
        return _Files(append_files(self._version(), (prepare(rows, self.schema, Request(), None)[0] for rows in tables)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        version = self._version()
        publish(version, joined(_all_files(messages)), Identity(version.meta.env.ids()), None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.table.meta.files.discard(list(_all_files(messages)))


def _all_files(messages: Iterable[WriterCommitMessage | None]) -> Iterator[CommitMessage]:
    return (one for message in messages if message is not None for one in message.messages)


class _RowWriter(_Writer):
    """Writes to a table with a primary key."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        out, sink = pa.BufferOutputStream(), None
        for batch in iterator:
            rows = pa.Table.from_batches([batch]).select(self.columns)
            prepare(rows, self.schema, Request(), None)  # raises InvalidData
            sink = sink or pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
            sink.write_table(rows)
            if out.tell() > _TASK_BYTES:
                raise InvalidData(
                    'too many rows for format("lsmlake"), which writes them in one process',
                    where=self.table.name,
                    expected=f"at most {_TASK_BYTES >> 20} MiB per task",
                    cure='use lsmlake.connect(..., spark=spark).table("...").upsert(df), which writes in the tasks',
                )
        if sink is None:
            return _Rows(b"")
        sink.close()
        return _Rows(out.getvalue().to_pybytes())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        version = self._version()
        identity = Identity(version.meta.env.ids())
        write.write_here(version, self.columns, _placed(messages, self.schema), identity)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was written."""


def _placed(messages: Iterable[WriterCommitMessage | None], schema: Schema) -> Iterator[write.Placed]:
    """Yields the rows of all tasks with their bucket numbers and their places in the whole input."""
    place = 0
    for message in messages:
        if message is None or not message.data:
            continue
        for batch in pa.ipc.open_stream(message.data):
            rows, key = pa.Table.from_batches([batch]), schema.bucket_key
            keys = conform(rows.select(key), schema, key)  # the hash depends on the type
            numbers = bucket_of([keys[name] for name in key], schema.parsed_options.layout.buckets)
            order = np.arange(place, place + len(rows))
            yield rows, pa.chunked_array([numbers]), pa.chunked_array([order])
            place += len(rows)
