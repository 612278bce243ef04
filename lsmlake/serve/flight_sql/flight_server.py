"""The server of Flight SQL: each command of a driver as a call of `flight_statements` or `flight_metadata`.

gRPC calls the methods in threads of its own. A ticket is the handle of a result, or a question about the lake, which is answered
when its ticket comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Args
from lsmlake.beside import Signal, begin
from lsmlake.errors import (
    CommitConflict,
    InvalidQuery,
    LakeError,
    StorageFailed,
    Wording,
    foreign,
)
from lsmlake.serve.flight_sql import flight_metadata, sql_info
from lsmlake.serve.flight_sql.flight_messages import (
    ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult,
    CommandGetSqlInfo,
    CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate,
    CommandStatementIngest,
    CommandStatementQuery,
    CommandStatementUpdate,
    DoPutPreparedStatementResult,
    DoPutUpdateResult,
    TicketStatementQuery,
    UnknownMessage,
    packed,
    unpacked,
)
from lsmlake.serve.flight_sql.flight_statements import (
    CancelledByClient,
    ClientStatements,
    PreparedText,
    ReadOnly,
    StatementEnded,
    StatementRows,
    TooMany,
)
from lsmlake.serve.flight_sql.ingestion import ingest
from lsmlake.serve.flight_sql.wire_format import encode
from lsmlake.serve.request_guard import bears_token
from lsmlake.serve.serve_settings import ServeSettings
from lsmlake.undo import pass_interruption

CREATE, CLOSE = "CreatePreparedStatement", "ClosePreparedStatement"
_BATCH_BYTES = 1 << 20
"""Larger batches are cut: drivers limit the size of a message."""
_PARAMETERS_MAX = 10_000
_SWEEP_SECONDS = 1.0
# fmt: off
_OF_HTTP = frozenset((
    "accept", "authorization", "b3", "baggage", "connection", "cookie", "date", "expect", "forwarded", "from", "host", "origin",
    "pragma", "priority", "referer", "te", "traceparent", "tracestate", "trailer", "upgrade", "via", "warning",
))
# fmt: on
Asked = TypeVar("Asked")


class FlightSqlServer(flight.FlightServerBase):
    """Serves the SQL of a lake. It answers from the moment it is made."""

    def __init__(self, lake: Lake, settings: ServeSettings) -> None:
        """Raises InvalidQuery if the port is taken, or the certificate cannot be used."""
        self._lake = replace(lake)  # with a session of its own
        self._lake.session.served = True
        self._statements = ClientStatements(self._lake, settings)
        self._settings = settings
        scheme = "grpc" if settings.tls is None else "grpc+tls"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        where = f"{scheme}://{host}:{settings.flight_port}"
        try:
            super().__init__(
                where,
                OpenHandshake(),
                tls_certificates=_certificates(settings),
                middleware={"token": TokenGuard(settings.tokens), "headers": HeaderGuard()},
            )
        except (OSError, pa.ArrowException) as refused:
            cure = Wording("choose another port", command="choose another --host or --flight-port")
            raise InvalidQuery("cannot serve Flight SQL here", where=where, found=refused, cure=cure) from None
        self.address = f"{scheme}://{host}:{self.port}"
        self._over = Signal()
        self._sweeping = begin(self._sweep)

    def _sweep(self) -> None:
        while not self._over.wait(_SWEEP_SECONDS):
            self._statements.sweep()

    def end(self) -> None:
        """Ends the statements of all clients, then the server."""
        self._over.give()
        self._statements.end()
        self.shutdown()
        self._sweeping.result()

    # -- calls of Flight ----------------------------------------------------------------------------------------------

    def get_flight_info(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        with _as_flight_errors():
            command = _command_of(descriptor)
            match command:
                case CommandStatementQuery():
                    _check_no_transaction(command.transaction_id)
                    handle, rows = self._statements.execute(command.query)
                case CommandPreparedStatementQuery():
                    prepared = self._statements.prepared(command.handle)
                    handle, rows = self._statements.execute(prepared.text, _values_of_query(prepared))
                case _:
                    return _info(self._schema_of(command), descriptor, descriptor.command)
            return _info(rows.schema, descriptor, packed(TicketStatementQuery(handle)), rows.count)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with _as_flight_errors():
            command = _command_of(descriptor)
            match command:
                case CommandStatementQuery():
                    _check_no_transaction(command.transaction_id)
                    schema = self._statements.schema(command.query)
                case CommandPreparedStatementQuery():
                    prepared = self._statements.prepared(command.handle)
                    schema = self._statements.schema(prepared.text, _values_of_query(prepared))
                case _:
                    schema = self._schema_of(command)
            return flight.SchemaResult(schema)

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        with _as_flight_errors():
            command = unpacked(ticket.ticket)
            if isinstance(command, TicketStatementQuery):
                rows = self._statements.fetch(command.handle)
                rows.gone = context.is_cancelled
                return flight.GeneratorStream(rows.schema, _streamed(rows))
            return flight.RecordBatchStream(self._answer(command))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        with _as_flight_errors():
            command = _command_of(descriptor)
            match command:
                case CommandStatementUpdate():
                    _check_no_transaction(command.transaction_id)
                    result: object = DoPutUpdateResult(self._statements.update(command.query))
                case CommandPreparedStatementUpdate():
                    prepared = self._statements.prepared(command.handle)
                    values = _values(reader, prepared) or prepared.values or [None]
                    result = DoPutUpdateResult(self._statements.update(prepared.text, values))
                case CommandPreparedStatementQuery():
                    prepared = self._statements.prepared(command.handle)
                    prepared.values = _values(reader, prepared)
                    result = DoPutPreparedStatementResult(command.handle)
                case CommandStatementIngest():
                    _check_no_transaction(command.transaction_id)
                    self._statements.check_writes("bulk ingestion")
                    result = DoPutUpdateResult(ingest(self._lake, command, reader.schema, _batches(reader)))
                case _:
                    raise UnknownMessage("this command takes no rows", found=type(command).__name__)
            writer.write(pa.py_buffer(encode(result)))

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        with _as_flight_errors():
            if action.type == CREATE:
                request = _request(action, ActionCreatePreparedStatementRequest)
                _check_no_transaction(request.transaction_id)
                return iter([flight.Result(packed(self._prepared(request.query)))])
            if action.type == CLOSE:
                self._statements.close(_request(action, ActionClosePreparedStatementRequest).handle)
                return iter([])
            raise UnknownMessage("this server does not support an action", found=action.type, expected=f"{CREATE} or {CLOSE}")

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return [(CREATE, "Prepares a statement."), (CLOSE, "Closes a prepared statement.")]

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        with _as_flight_errors():
            raise UnknownMessage("this server lists no flights", cure="ask for the tables by CommandGetTables")

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        with _as_flight_errors():
            raise UnknownMessage("this server exchanges no rows", cure="send rows by DoPut, and fetch them by DoGet")

    # -- parts of them ------------------------------------------------------------------------------------------------

    def _prepared(self, text: str) -> ActionCreatePreparedStatementResult:
        handle, prepared = self._statements.prepare(text)
        names = [str(place) if name is None else name for place, name in enumerate(prepared.shape.parameters, 1)]
        known = prepared.shape.is_query and not names
        columns = self._statements.schema(text).serialize().to_pybytes() if known else b""
        parameters = pa.schema(list(map(pa.field, names, self._statements.parameter_types(prepared))))
        return ActionCreatePreparedStatementResult(handle, columns, parameters.serialize().to_pybytes())

    def _schema_of(self, command: object) -> pa.Schema:
        schema = sql_info.SCHEMA if isinstance(command, CommandGetSqlInfo) else flight_metadata.schema_of(command)
        if schema is None:
            raise UnknownMessage("this server does not support a command", found=type(command).__name__)
        return schema

    def _answer(self, command: object) -> pa.Table:
        if isinstance(command, CommandGetSqlInfo):
            return sql_info.info(self._settings, command.info)
        self._schema_of(command)
        return flight_metadata.answer(self._lake, command)


# -- rows and values --------------------------------------------------------------------------------------------------


def _command_of(descriptor: flight.FlightDescriptor) -> object:
    """The message in a descriptor. Raises InvalidQuery."""
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        expected = "a command of Flight SQL"
        raise InvalidQuery("the descriptor has no command", expected=expected, found="a path", cure="use a driver of Flight SQL")
    return unpacked(descriptor.command)


def _info(schema: pa.Schema, descriptor: flight.FlightDescriptor, ticket: bytes, rows: int | None = None) -> flight.FlightInfo:
    """One endpoint without a location: the client comes back to this server."""
    return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1 if rows is None else rows, -1)


def _streamed(rows: StatementRows) -> Iterator[pa.RecordBatch]:
    with _as_flight_errors():
        for batch in rows:
            step = max(1, batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1))
            yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def _batches(reader: flight.MetadataRecordBatchReader) -> Iterator[pa.RecordBatch]:
    return (chunk.data for chunk in reader if chunk.data is not None)


def _values(reader: flight.MetadataRecordBatchReader, prepared: PreparedText) -> list[Args]:
    """The values of the parameters that a client sends, one set per row: by name if the text names them, else by place."""
    names = prepared.shape.parameters
    rows: list[Args] = []
    for batch in _batches(reader):
        if batch.num_columns != len(names):
            what = "another number of values than the statement has parameters"
            raise InvalidQuery(what, expected=len(names), found=batch.num_columns, cure="bind a value to each parameter")
        batch = batch.select(_places(batch.schema.names, names))
        if len(rows) + batch.num_rows > _PARAMETERS_MAX:
            raise InvalidQuery("too many rows of parameters", expected=f"at most {_PARAMETERS_MAX:,}", cure="ingest them in bulk")
        columns = [column.to_pylist() for column in batch.columns]
        sets = zip(*columns, strict=True)
        rows += [list(one) if None in names else dict(zip(names, one, strict=True)) for one in sets]
    return rows


def _places(given: Sequence[str], names: Sequence[str | None]) -> list[int]:
    """The column of each parameter: the one with its name if all parameters have names and all columns have these names, else the
    one at its place. Raises InvalidQuery if a column has the name of a parameter at another place."""
    if len(set(given)) == len(given) and set(given) == set(names):
        return [given.index(name) for name in names if name is not None]
    if wrong := [name for place, name in enumerate(given) if name in names and names[place] != name]:
        what = "values have the names of parameters, but not their places"
        raise InvalidQuery(what, expected=list(names), found=list(given), cure=f"rename {wrong[0]!r}, or the others")
    return list(range(len(given)))


def _values_of_query(prepared: PreparedText) -> Args:
    if len(prepared.values) > 1:
        raise InvalidQuery("a query takes one row of parameters", found=len(prepared.values), cure="execute it for each row")
    return prepared.values[0] if prepared.values else None


def _request(action: flight.Action, kind: type[Asked]) -> Asked:
    request = unpacked(action.body.to_pybytes())
    if not isinstance(request, kind):
        raise InvalidQuery("the message of the action has another type", expected=kind.__name__, found=type(request).__name__)
    return request


def _check_no_transaction(transaction: bytes) -> None:
    if transaction:
        raise UnknownMessage("there are no transactions: each statement is one commit", cure="leave the transaction out")


# -- errors, tokens and certificates ----------------------------------------------------------------------------------


@contextmanager
def _as_flight_errors() -> Iterator[None]:
    """Raises an error of the lake as an error of Flight. To other errors Flight adds the traceback, which is not for clients."""
    try:
        yield
    except flight.FlightError:
        raise
    except LakeError as error:
        _raise(error)
    except Exception as error:
        pass_interruption(error)
        _raise(foreign(error, "serve"))


def _raise(error: LakeError) -> NoReturn:
    match error:
        case CancelledByClient():
            kind: type[Exception] = flight.FlightCancelledError
        case StatementEnded():
            kind = flight.FlightTimedOutError
        case ReadOnly():
            kind = flight.FlightUnauthorizedError
        case TooMany() | CommitConflict() | StorageFailed():
            kind = flight.FlightUnavailableError
        case _:
            kind = flight.FlightServerError
    raise kind(str(error)) from None


class OpenHandshake(flight.ServerAuthHandler):
    """Answers the handshake with which the driver of JDBC begins. It proves nothing: `TokenGuard` sees every call."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        return

    def is_valid(self, token: bytes) -> bytes:
        return b""


class TokenGuard(flight.ServerMiddlewareFactory):
    """Refuses calls without a token."""

    def __init__(self, tokens: tuple[str, ...]) -> None:
        super().__init__()
        self._tokens = tokens

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        given = headers.get("authorization", [""])
        if self._tokens and not any(bears_token(one, self._tokens) for one in given if isinstance(one, str)):
            raise flight.FlightUnauthenticatedError("the call bears no token, or a wrong one; send authorization: Bearer TOKEN")


class HeaderGuard(flight.ServerMiddlewareFactory):
    """Refuses properties of a connection that have no effect, such as a schema. Drivers send the properties that they do not know
    as headers. Proxies add headers, too: those have a hyphen in their names, or are in `_OF_HTTP`."""

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        unknown = sorted(name for name in headers if "-" not in name and name[:1] != ":" and name not in _OF_HTTP)
        with _as_flight_errors():
            if unknown:
                what = "the connection has a property, or the call a header, that this server does not obey"
                raise InvalidQuery(what, found=unknown, cure="leave it out, and name tables database.table")


def _certificates(settings: ServeSettings) -> list[tuple[bytes, bytes]]:
    if settings.tls is None:
        return []
    return [(Path(settings.tls.certificate).read_bytes(), Path(settings.tls.key).read_bytes())]
