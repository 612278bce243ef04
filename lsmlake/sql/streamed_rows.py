"""Executes a statement and streams its rows while DuckDB computes the next ones: memory does not grow with the result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Protocol

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.beside import Threads, Work
from lsmlake.border import public, through
from lsmlake.dialect.connection import memory_limit
from lsmlake.dialect.row_evaluation import as_schema
from lsmlake.extras import need
from lsmlake.sql.execution import Args, execute
from lsmlake.sql.run_query import Prepared, opened

_BATCH_ROWS = 16_384
_INTERRUPT_EVERY_SECONDS = 0.1
_CHECK_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Streamed:
    """The rows of a statement. They can be read once; closing `batches` ends the query.

    Attributes:
        count: the number of rows, if it is known before they are read.
    """

    schema: pa.Schema
    batches: Generator[pa.RecordBatch]
    count: int | None = None


@dataclass(frozen=True)
class StreamLimits:
    """What a query may use, and for how long.

    Attributes:
        memory: the bytes that DuckDB may use; None: most of the memory of the machine.
        check: called while rows are awaited; if it raises an error, the query ends with it.
    """

    memory: int | None = None
    check: Callable[[], None] = lambda: None


@public
def sql(
    lake: Lake,
    text: str,
    args: Args = None,
    *,
    query_for: str = "",
    limits: StreamLimits = StreamLimits(),
) -> Streamed:
    """Executes a statement as `Lake.sql` does in process. Any batch can raise the error of the query.

    Args:
        query_for: the call that accepts only queries; its name is in the error for other statements.
        limits: of a query; other statements have none.
    """
    result = execute(lake, text, args, {}, evaluate=partial(streamed, limits), query_for=query_for)
    if isinstance(result, Streamed):
        return Streamed(result.schema, through(result.batches, "sql"))
    return Streamed(result.schema, (batch for batch in result.to_batches()), result.num_rows)


def streamed(limits: StreamLimits, prepared: Prepared) -> Streamed:
    """The rows of a query that `sql.execution` has read. It begins with the first batch."""
    query = _StreamQuery(prepared, limits.memory)
    return Streamed(prepared.query.schema, _in_thread(query, limits.check))


class _StreamConnection(Protocol):
    def interrupt(self) -> None: ...

    def execute(self, statement: str) -> object: ...


class _StreamQuery:
    """A DuckDB query. One thread reads its batches until another thread ends it."""

    def __init__(self, prepared: Prepared, memory: int | None) -> None:
        self._connection: _StreamConnection | None = None
        self.batches = self._executed(prepared, memory)

    def end(self, step: Work[pa.RecordBatch | None]) -> None:
        """Ends the query and waits for the step that another thread is in. An interruption meanwhile is raised after the query
        has ended."""
        step.give_up()
        try:
            self._stop(step)
        except BaseException:
            self._stop(step)
            raise

    def _stop(self, step: Work[pa.RecordBatch | None]) -> None:
        duckdb: ModuleType = need("duckdb", "SQL")
        while not step.ended.given:
            if self._connection is not None:  # a connection that does not execute anything yet ignores an interruption
                with suppress(duckdb.ConnectionException):  # it has been closed meanwhile
                    self._connection.interrupt()
            step.ended.wait(_INTERRUPT_EVERY_SECONDS)
        self.batches.close()

    def _executed(self, prepared: Prepared, memory: int | None) -> Generator[pa.RecordBatch]:
        with opened(prepared) as (self._connection, rows):
            if memory is not None:
                self._connection.execute(f"SET memory_limit = '{memory_limit(memory)}'")
            open_reader = getattr(rows, "to_arrow_reader", None) or rows.fetch_record_batch  # the name in DuckDB before 1.5
            with closing(open_reader(_BATCH_ROWS)) as reader:
                for batch in _read(reader):
                    yield from as_schema(pa.Table.from_batches([batch]), prepared.query.schema).to_batches()


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of DuckDB. Arrow keeps only the text of a DuckDB error: raises the original error."""
    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        duckdb: ModuleType = need("duckdb", "SQL")
        kinds = {"IO Error": duckdb.IOException, "Out of Memory Error": duckdb.OutOfMemoryException}
        raise kinds.get(str(error).partition(":")[0], duckdb.Error)(str(error)) from error


def _in_thread(query: _StreamQuery, check: Callable[[], None]) -> Generator[pa.RecordBatch]:
    """The batches of a query. Another thread reads the next batch meanwhile."""

    def ended(step: Work[pa.RecordBatch | None]) -> Work[pa.RecordBatch | None]:
        check()
        while not step.ended.wait(_CHECK_EVERY_SECONDS):
            check()
        return step

    with Threads(1) as threads:
        step = threads.submit(next, query.batches, None)
        try:
            while (batch := ended(step).result()) is not None:
                step = threads.submit(next, query.batches, None)
                yield batch
        finally:
            query.end(step)
