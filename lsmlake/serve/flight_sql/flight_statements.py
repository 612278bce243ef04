"""Statements of clients between their calls: prepared ones, with the values of their parameters, and results whose rows a client
has still to fetch. There is a limited number of them, and a result lives for a limited time.

A statement runs when a client asks for its result: a change of rows has happened then; a query has its snapshots then, and is
computed while the client fetches the rows. One lock protects the rows of a result: a client fetches them, and another thread may
end them, because the time is over or the client has cancelled.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakSet

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Args
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.table_use import ViewUse
from lsmlake.errors import EngineFailed, InvalidQuery, LakeError
from lsmlake.serve.flight_sql.parameter_types import parameter_types
from lsmlake.serve.serve_settings import ServeSettings
from lsmlake.sql import streamed_rows
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.parameters import Shape, shape_of
from lsmlake.sql.streamed_rows import Streamed, StreamLimits

TEXT_MAX = 1 << 20
"""Most characters of a statement."""
OPEN_MAX = 1_000
"""Most prepared statements, and most results, that are kept for clients."""
_READ_ONLY = "a read-only server"
_COUNT = "num_affected_rows"


class StatementEnded(EngineFailed):
    """A statement was ended before its rows were fetched, by its time limit or by the server."""


class CancelledByClient(StatementEnded):
    """The client has ended the statement."""


class StatementRows:
    """The rows of a statement, which are fetched once. `schema`: their columns."""

    def __init__(self, ends_ms: int, clock: Callable[[], int]) -> None:
        self.schema = pa.schema([])
        self._ends_ms, self._clock, self._lock = ends_ms, clock, Lock()
        self._ended: StatementEnded | None = None
        self._batches: Generator[pa.RecordBatch] | None = None
        self.count: int | None = None
        self.gone: Callable[[], bool] = lambda: False
        """Whether the client has gone away, while it fetches."""

    def hold(self, streamed: Streamed) -> None:
        self.schema, self._batches, self.count = streamed.schema, streamed.batches, streamed.count

    @property
    def is_late(self) -> bool:
        return self._clock() >= self._ends_ms

    def check(self) -> None:
        """Raises StatementEnded if the statement must not go on."""
        if self._ended is None and self.is_late:
            self._ended = StatementEnded("the statement took longer than the server allows", cure="ask for less, or fetch faster")
        if self._ended is None and self.gone():
            self._ended = CancelledByClient("the client has gone away")
        if self._ended is not None:
            raise self._ended.changed()  # an error that this object kept would keep the object alive by its traceback

    def end(self, why: StatementEnded) -> None:
        """Ends the statement. A thread that waits for rows ends it itself, soon."""
        self._ended = self._ended or why
        if self._lock.acquire(blocking=False):
            try:
                if self._batches is not None:
                    self._batches.close()
            finally:
                self._lock.release()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                with self._lock:
                    self.check()
                    batch = None if self._batches is None else next(self._batches, None)
                if batch is None:
                    return
                yield batch
        except StatementEnded:
            raise
        except EngineFailed as failed:
            raise failed.changed(cure="ask for less; the owner of the server can give a statement more with --memory") from None
        finally:
            self.end(CancelledByClient("the rows are not fetched any more"))


@dataclass
class PreparedText:
    """A prepared statement. `values`: those of its parameters, one list or dict per row of parameters."""

    text: str
    shape: Shape
    values: list[Args] = field(default_factory=list)


class ClientStatements:
    """The statements of all clients.

    Args:
        lake: where they run.
        settings: what they may do and use.

    Attributes:
        fetched: the results whose rows clients fetch now.
    """

    def __init__(self, lake: Lake, settings: ServeSettings) -> None:
        self._lake, self._settings, self._lock = lake, settings, Lock()
        self._prepared: OrderedDict[bytes, PreparedText] = OrderedDict()
        self._results: dict[bytes, StatementRows] = {}
        self.fetched: WeakSet[StatementRows] = WeakSet()

    # -- prepared statements ------------------------------------------------------------------------------------------

    def prepare(self, text: str) -> tuple[bytes, PreparedText]:
        """Keeps a statement; returns its handle. Raises InvalidQuery."""
        made, handle = PreparedText(text, _shape(text)), secrets.token_bytes(16)
        self._check_allowed(made.shape, text)
        with self._lock:
            self._prepared[handle] = made
            while len(self._prepared) > OPEN_MAX:
                self._prepared.popitem(last=False)
        return handle, made

    def prepared(self, handle: bytes) -> PreparedText:
        """A prepared statement. Raises InvalidQuery if it does not exist."""
        with self._lock:
            found = self._prepared.get(handle)
            if found is not None:
                self._prepared.move_to_end(handle)
        if found is None:
            raise InvalidQuery("there is no such prepared statement", cure="prepare it again: the server may have been restarted")
        return found

    def parameter_types(self, prepared: PreparedText) -> list[pa.DataType]:
        """The types that the text implies for its parameters."""
        catalog = Catalog.of(self._lake, Text(prepared.text), {}, lazy=True)

        def columns(table: exp.Table) -> dict[str, pa.DataType]:
            schema = catalog.schema(table)
            fields = schema.columns if isinstance(schema, ViewUse) else schema
            return {field.name.lower(): field.type for field in fields}

        return parameter_types(prepared.text, prepared.shape.parameters, columns)

    def close(self, handle: bytes) -> None:
        """Forgets a prepared statement."""
        with self._lock:
            self._prepared.pop(handle, None)

    # -- results ------------------------------------------------------------------------------------------------------

    def schema(self, text: str, args: Args = None) -> pa.Schema:
        """The columns of a query, without executing it. Raises InvalidQuery for other statements."""
        if not _shape(text).is_query:
            raise InvalidQuery("only a query has columns before it is executed", found=text[:40], cure="execute it")
        return self._run(text, args, _READ_ONLY, StreamLimits()).schema

    def execute(self, text: str, args: Args = None) -> tuple[bytes, StatementRows]:
        """Executes a statement; returns the handle of its result. The rows of a query are computed while they are fetched."""
        rows, handle = self._execute(text, args), secrets.token_bytes(16)
        self.sweep()
        with self._lock:
            if len(self._results) >= OPEN_MAX:
                raise TooMany("the server keeps no more results", expected=f"at most {OPEN_MAX:,}", cure="fetch some first")
            self._results[handle] = rows
        return handle, rows

    def update(self, text: str, values: Sequence[Args] = (None,)) -> int:
        """Executes a statement for its effect, once for each of `values`, each as one commit; returns how many rows it changed,
        or -1 if it does not say."""
        counts = [self._updated(text, args) for args in values]
        return -1 if -1 in counts else sum(counts)

    def _updated(self, text: str, args: Args) -> int:
        batches = list(self._execute(text, args))
        known = [batch.column(_COUNT).to_pylist() for batch in batches if _COUNT in batch.schema.names]
        return sum(count for counts in known for count in counts) if known else -1

    def fetch(self, handle: bytes) -> StatementRows:
        """A result, whose rows the caller fetches. Raises InvalidQuery if it does not exist."""
        with self._lock:
            rows = self._results.pop(handle, None)
            if rows is not None:
                self.fetched.add(rows)
        if rows is None:
            raise InvalidQuery("there is no such result", cure="execute it again: a result is fetched once, and soon")
        return rows

    # -- all of them --------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Ends statements whose time is over."""
        with self._lock:
            late = [handle for handle, rows in self._results.items() if rows.is_late]
            ended = [self._results.pop(handle) for handle in late]
            ended += [rows for rows in self.fetched if rows.is_late]
        for rows in ended:
            rows.end(StatementEnded("the statement took longer than the server allows", cure="ask for less, or fetch faster"))

    def end(self) -> None:
        """Ends all statements, with the server."""
        with self._lock:
            ended = [*self._results.values(), *self.fetched]
            self._results.clear()
        for rows in ended:
            rows.end(StatementEnded("the server ends", cure="connect again"))

    def _execute(self, text: str, args: Args) -> StatementRows:
        self._check_allowed(_shape(text), text)
        clock = self._lake.env.clock
        rows = StatementRows(clock() + 1000 * self._settings.statement_seconds, clock)
        only = "" if self._settings.writes else _READ_ONLY
        rows.hold(self._run(text, args, only, StreamLimits(self._settings.statement_memory, rows.check)))
        return rows

    def _run(self, text: str, args: Args, query_for: str, limits: StreamLimits) -> Streamed:
        try:
            return streamed_rows.sql(self._lake, text, args, query_for=query_for, limits=limits)
        except LakeError as error:
            raise error.for_sql() from None

    def _check_allowed(self, shape: Shape, text: str) -> None:
        if not shape.reads:
            self.check_writes(text[:40])

    def check_writes(self, found: str) -> None:
        """Raises ReadOnly if clients may not change the lake."""
        if not self._settings.writes:
            expected = "SELECT, EXPLAIN, SHOW or DESCRIBE"
            raise ReadOnly("this server is read-only", expected=expected, found=found, cure="its owner can start it with --write")


def _shape(text: str) -> Shape:
    if len(text) > TEXT_MAX:
        expected = f"at most {TEXT_MAX:,} characters"
        raise InvalidQuery(
            "the statement is too long", expected=expected, found=f"{len(text):,}", cure="bind values, or load rows"
        )
    return shape_of(text)


class ReadOnly(InvalidQuery):
    """A change on a read-only server."""


class TooMany(EngineFailed):
    """The server keeps too many statements."""
