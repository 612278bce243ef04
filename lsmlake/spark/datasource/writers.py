"""`df.write.format("lsmlake")` and `df.writeStream.format("lsmlake")`: upserts, appends and overwrites of batches and
micro-batches, through Spark's API for data sources.

In an append-only table the tasks write files, and the committing process publishes them.

Under a primary key Spark writes a Python data source without a shuffle, so several tasks may have rows of one bucket or key,
while a commit adds one run per bucket. So the tasks only validate their rows and hand them over: few rows in a message of
Spark, more rows in a file of the table. The committing process sorts and writes them as one upsert. Rows of a key that come from
several tasks and differ need an order: the option `order-by`, or a sequence. `Table.upsert` and `Table.write_stream` shuffle by
bucket and write in the tasks.

A micro-batch is committed with the id of its query and its number, so repeating it does nothing. Spark keeps the query id in
the checkpoint and passes it to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from lsmlake.api.change_writes import row_request
from lsmlake.api.table import Table
from lsmlake.cdc.change_input import ChangeInput, check_order
from lsmlake.cdc.event_rows import ROW_KIND
from lsmlake.commit.request import Identity
from lsmlake.errors import in_options, naming
from lsmlake.format.data_files import CommitMessage
from lsmlake.schema.schema import Schema
from lsmlake.spark import frame_writer
from lsmlake.spark.caller import QUERY_ID
from lsmlake.spark.datasource.options import ARGUMENTS_OF_WRITES
from lsmlake.spark.ship import Package, WithPackage
from lsmlake.tables.table_files import TableFiles
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files, joined
from lsmlake.write.order import PART_BITS, Arrival, Order, Ordered
from lsmlake.write.prepare import order_of, prepare
from lsmlake.write.write import covers_for, publish
from lsmlake.write.write_request import WriteRequest

_MESSAGE_BYTES = 1 << 20  # in memory; Spark collects the messages of all tasks on the driver
_STAGED = "staged-rows"
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass
class _Message(WriterCommitMessage):
    """The result of a task: the `files` that it wrote, or its rows in Arrow's stream format, in `rows` or in the file
    `staged`. `query`: the id of the streaming query."""

    files: Sequence[CommitMessage] = ()
    rows: bytes = b""
    staged: str = ""
    query: str = ""


Messages = Sequence[WriterCommitMessage | None]


class _Writer(WithPackage):
    """One write: Spark calls `write` in each task, and `commit` or `abort` once with the messages of all tasks, in order of their
    partitions."""

    def __init__(
        self,
        package: Package | None,
        table: Table,
        schema: Schema,
        columns: pa.Schema,
        request: WriteRequest,
        changes: ChangeInput | None,
        zone: str,
    ):
        """`schema`: the schema of the table. `changes`: what the rows mean, with conditions in time zone `zone`. Raises
        InvalidData or InvalidQuery if the columns do not fit."""
        with naming("apply_as_deletes"):
            self.words = None if changes is None else changes.words(zone)
        if changes is not None:
            columns, request = _changed(columns, request, schema, changes)
        self.package, self.table, self.schema, self.request = package, table, schema, request
        self.order = Order() if schema.append_only else order_of(columns, schema, request)
        self.columns = frame_writer.columns_for(schema, columns, request, self.order.own)

    @property
    def _files(self) -> TableFiles:
        return self.table.meta.files

    def _version(self) -> Version:
        return replace(self.table.version, schema=self.schema)

    @in_options(ARGUMENTS_OF_WRITES)
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        columns = [*self.columns, *(name for name in sorted(self.order.own) if name not in self.columns)]
        tables = (self._meant(pa.Table.from_batches([batch])).select(columns) for batch in iterator)
        task = TaskContext.get()
        query = (task and task.getLocalProperty(QUERY_ID)) or ""
        if not self.schema.append_only:
            return replace(self._handed_over(tables), query=query)
        version = self._version()
        prepared = (prepare(rows, self.schema, self.request, None)[0] for rows in tables)
        return _Message(append_files(version, prepared, covers_for(version, self.request)), query=query)

    def _meant(self, rows: pa.Table) -> pa.Table:
        return rows if self.words is None else self.words.applied(rows)

    def _handed_over(self, tables: Iterator[pa.Table]) -> _Message:
        """The rows of a task, validated."""
        name = f"{_STAGED}-{self._files.env.ids()}"
        path, held = self._files.paths.manifest(name), pa.BufferOutputStream()
        writer, size = None, 0
        with ExitStack() as stack:
            for rows in tables:
                self._check(rows)
                size += rows.nbytes
                writer = writer or stack.enter_context(pa.ipc.new_stream(held, rows.schema, options=_COMPRESSED))
                writer.write_table(rows)
                if size > _MESSAGE_BYTES:
                    break
        if size <= _MESSAGE_BYTES:
            return _Message(rows=held.getvalue().to_pybytes() if writer else b"")
        begun = pa.ipc.open_stream(held.getvalue())
        with self._files.env.storage.write(path) as sink, pa.ipc.new_stream(sink, begun.schema, options=_COMPRESSED) as writer:
            for batch in begun:
                writer.write_batch(batch)
            for rows in tables:
                self._check(rows)
                writer.write_table(rows)
        return _Message(staged=name)

    def _check(self, rows: pa.Table) -> None:
        """Raises InvalidData for rows that the table does not accept."""
        prepare(self.order.without_own(rows), self.schema, self.request, None)

    @in_options(ARGUMENTS_OF_WRITES)
    def _commit(self, messages: Messages, identity: Identity) -> None:
        version, sent, request = self._version(), _sent(messages), replace(self.request, identity=identity)
        try:
            if self.schema.append_only:
                publish(version, joined(_written(sent)), request)
            else:
                frame_writer.write_here(version, self.columns, self._placed(sent), request)
        finally:
            self._remove_staged(sent)

    def _abort(self, messages: Messages) -> None:
        self._files.discard(list(_written(_sent(messages))))
        self._remove_staged(_sent(messages))

    def _remove_staged(self, messages: Sequence[_Message]) -> None:
        self._files.delete_quietly(self._files.paths.manifest(message.staged) for message in messages if message.staged)

    def _placed(self, messages: Sequence[_Message]) -> Iterator[write.Placed]:
        """Yields the rows of all tasks and their order. Each task has a contiguous part of the input."""
        ordered = Ordered.ALL if self.request.order_by is not None and self.request.order_by.any else Ordered.PARTS
        begun = 0
        for part, batch in self._batches(messages):
            rows = pa.Table.from_batches([batch])
            arrived = (part << PART_BITS) + begun + np.arange(rows.num_rows)
            begun += rows.num_rows
            by = self.order.values(rows, _typed(rows, self.schema), None)
            yield self.order.without_own(rows), None, Arrival(arrived, by, ordered)

    def _batches(self, messages: Sequence[_Message]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each message, with its number."""
        for number, message in enumerate(messages):
            if message.rows:
                yield from ((number, batch) for batch in pa.ipc.open_stream(message.rows))
            if message.staged:
                with self._files.env.storage.read(self._files.paths.manifest(message.staged)) as source:
                    yield from ((number, batch) for batch in pa.ipc.open_stream(source))


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The write of a batch."""

    def commit(self, messages: Messages) -> None:
        self._commit(messages, Identity(self._files.env.ids()))

    def abort(self, messages: Messages) -> None:
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writes of a query, one for each micro-batch."""

    def commit(self, messages: Messages, batchId: int) -> None:
        query = next((message.query for message in _sent(messages) if message.query), None)
        self._commit(messages, Identity(query, batchId) if query else Identity(self._files.env.ids()))  # no task: no rows

    def abort(self, messages: Messages, batchId: int) -> None:
        self._abort(messages)


def _changed(columns: pa.Schema, request: WriteRequest, schema: Schema, changes: ChangeInput) -> tuple[pa.Schema, WriteRequest]:
    """The columns and the request of a write after `ChangeInput.words` were applied to its rows."""
    order = set() if request.order_by is None else request.order_by.reads
    others = [name for name in columns.names if name.lower() in order and name not in schema.columns.names]
    kept = changes.kept_columns(columns.names, others)
    check_order(order, kept, schema)
    left = pa.schema([columns.field(name) for name in kept])
    request = row_request(request, changes)
    return left if request.row_kind is None else left.append(pa.field(ROW_KIND, pa.string())), request


def _typed(rows: pa.Table, schema: Schema) -> pa.Table:
    """The columns of `rows` that the table has, with the types of the table."""
    columns = {name: rows[name] for name in rows.column_names if name in schema.columns.names}
    return pa.table({name: column.cast(schema.typed_columns.field(name).type) for name, column in columns.items()})


def _sent(messages: Messages) -> list[_Message]:
    """The messages of the tasks that did not fail."""
    return [message for message in messages if isinstance(message, _Message)]


def _written(messages: Iterable[_Message]) -> Iterator[CommitMessage]:
    return (file for message in messages for file in message.files)
