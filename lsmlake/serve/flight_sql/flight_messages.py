"""The messages of Flight SQL that this server reads and writes. Source: the file FlightSql.proto of Apache Arrow.

A command or a ticket is the message `Any`, which names the type of the message in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import InvalidQuery
from lsmlake.serve.flight_sql.wire_format import (
    BOOL,
    BYTES,
    INT,
    INTS,
    MESSAGES_IN,
    OPTIONAL_INT,
    OPTIONAL_TEXT,
    TEXT,
    TEXTS,
    decode,
    encode,
    wire,
)

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."


@dataclass(frozen=True)
class Any:
    """A message and its type."""

    type_url: str = wire(1, TEXT)
    value: bytes = wire(2, BYTES)


@dataclass(frozen=True)
class CommandStatementQuery:
    query: str = wire(1, TEXT)
    transaction_id: bytes = wire(2, BYTES)


@dataclass(frozen=True)
class CommandStatementUpdate:
    query: str = wire(1, TEXT)
    transaction_id: bytes = wire(2, BYTES)


@dataclass(frozen=True)
class CommandPreparedStatementQuery:
    handle: bytes = wire(1, BYTES)


@dataclass(frozen=True)
class CommandPreparedStatementUpdate:
    handle: bytes = wire(1, BYTES)


@dataclass(frozen=True)
class TableDefinitionOptions:
    """What to do if the table is missing (1: create it, 2: fail), and if it is there (1: fail, 2: append, 3: replace it)."""

    if_not_exist: int = wire(1, INT)
    if_exists: int = wire(2, INT)


@dataclass(frozen=True)
class CommandStatementIngest:
    definition: bytes = wire(1, BYTES)
    table: str = wire(2, TEXT)
    schema: str | None = wire(3, OPTIONAL_TEXT)
    catalog: str | None = wire(4, OPTIONAL_TEXT)
    temporary: bool = wire(5, BOOL)
    transaction_id: bytes = wire(6, BYTES)
    options: tuple[bytes, ...] = wire(1000, MESSAGES_IN)


@dataclass(frozen=True)
class CommandGetCatalogs:
    pass


@dataclass(frozen=True)
class CommandGetDbSchemas:
    catalog: str | None = wire(1, OPTIONAL_TEXT)
    schema_pattern: str | None = wire(2, OPTIONAL_TEXT)


@dataclass(frozen=True)
class CommandGetTables:
    catalog: str | None = wire(1, OPTIONAL_TEXT)
    schema_pattern: str | None = wire(2, OPTIONAL_TEXT)
    table_pattern: str | None = wire(3, OPTIONAL_TEXT)
    table_types: tuple[str, ...] = wire(4, TEXTS)
    include_schema: bool = wire(5, BOOL)


@dataclass(frozen=True)
class CommandGetTableTypes:
    pass


@dataclass(frozen=True)
class CommandGetPrimaryKeys:
    catalog: str | None = wire(1, OPTIONAL_TEXT)
    schema: str | None = wire(2, OPTIONAL_TEXT)
    table: str = wire(3, TEXT)


@dataclass(frozen=True)
class CommandGetExportedKeys:
    catalog: str | None = wire(1, OPTIONAL_TEXT)
    schema: str | None = wire(2, OPTIONAL_TEXT)
    table: str = wire(3, TEXT)


@dataclass(frozen=True)
class CommandGetImportedKeys:
    catalog: str | None = wire(1, OPTIONAL_TEXT)
    schema: str | None = wire(2, OPTIONAL_TEXT)
    table: str = wire(3, TEXT)


@dataclass(frozen=True)
class CommandGetCrossReference:
    key_catalog: str | None = wire(1, OPTIONAL_TEXT)
    key_schema: str | None = wire(2, OPTIONAL_TEXT)
    key_table: str = wire(3, TEXT)
    catalog: str | None = wire(4, OPTIONAL_TEXT)
    schema: str | None = wire(5, OPTIONAL_TEXT)
    table: str = wire(6, TEXT)


@dataclass(frozen=True)
class CommandGetSqlInfo:
    info: tuple[int, ...] = wire(1, INTS)


@dataclass(frozen=True)
class CommandGetXdbcTypeInfo:
    data_type: int | None = wire(1, OPTIONAL_INT)


@dataclass(frozen=True)
class TicketStatementQuery:
    handle: bytes = wire(1, BYTES)


@dataclass(frozen=True)
class ActionCreatePreparedStatementRequest:
    query: str = wire(1, TEXT)
    transaction_id: bytes = wire(2, BYTES)


@dataclass(frozen=True)
class ActionCreatePreparedStatementResult:
    handle: bytes = wire(1, BYTES)
    dataset_schema: bytes = wire(2, BYTES)
    parameter_schema: bytes = wire(3, BYTES)


@dataclass(frozen=True)
class ActionClosePreparedStatementRequest:
    handle: bytes = wire(1, BYTES)


@dataclass(frozen=True)
class DoPutUpdateResult:
    record_count: int = wire(1, INT)


@dataclass(frozen=True)
class DoPutPreparedStatementResult:
    handle: bytes = wire(1, BYTES)


MESSAGES: dict[str, type] = {
    one.__name__: one
    for one in (
        CommandStatementQuery,
        CommandStatementUpdate,
        CommandPreparedStatementQuery,
        CommandPreparedStatementUpdate,
        CommandStatementIngest,
        CommandGetCatalogs,
        CommandGetDbSchemas,
        CommandGetTables,
        CommandGetTableTypes,
        CommandGetPrimaryKeys,
        CommandGetExportedKeys,
        CommandGetImportedKeys,
        CommandGetCrossReference,
        CommandGetSqlInfo,
        CommandGetXdbcTypeInfo,
        TicketStatementQuery,
        ActionCreatePreparedStatementRequest,
        ActionClosePreparedStatementRequest,
    )
}
"""The messages that clients send, by their names."""


class UnknownMessage(InvalidQuery):
    """A message of a type that this server does not know, such as a plan of Substrait."""


def unpacked(data: bytes) -> object:
    """The message in an `Any`. Raises UnknownMessage, InvalidQuery."""
    packed = decode(Any, data)
    name = packed.type_url.removeprefix(_PREFIX)
    if name not in MESSAGES:
        what = "this server does not support a message of Flight SQL"
        raise UnknownMessage(what, found=packed.type_url[:200], expected=", ".join(MESSAGES))
    return decode(MESSAGES[name], packed.value)


def packed(message: object) -> bytes:
    """A message in an `Any`."""
    return encode(Any(_PREFIX + type(message).__name__, encode(message)))
