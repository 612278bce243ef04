"""Messages of Flight SQL, beside those of the package protobuf, which shares no code with `wire_format`."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
from effort import scaled
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmlake.errors import InvalidQuery
from lsmlake.serve.flight_sql.flight_messages import MESSAGES, Any, CommandGetTables, UnknownMessage, packed, unpacked
from lsmlake.serve.flight_sql.wire_format import (
    BOOL,
    BYTES,
    INT,
    INTS,
    OPTIONAL_INT,
    OPTIONAL_TEXT,
    TEXT,
    TEXTS,
    decode,
    encode,
    wire,
)


@dataclass(frozen=True)
class Everything:
    """One field of each kind; the last number needs two bytes."""

    text: str = wire(1, TEXT)
    optional: str | None = wire(2, OPTIONAL_TEXT)
    data: bytes = wire(3, BYTES)
    flag: bool = wire(4, BOOL)
    number: int = wire(5, INT)
    maybe: int | None = wire(6, OPTIONAL_INT)
    texts: tuple[str, ...] = wire(7, TEXTS)
    numbers: tuple[int, ...] = wire(300, INTS)


def theirs():
    """The same message as the package protobuf has it."""
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {"text": kinds.TYPE_STRING, "bytes": kinds.TYPE_BYTES, "bool": kinds.TYPE_BOOL, "int": kinds.TYPE_INT64}
    file = descriptor_pb2.FileDescriptorProto(name="everything.proto", package="test", syntax="proto3")
    message = file.message_type.add(name="Everything")
    for one in fields(Everything):
        number, kind = one.metadata["wire"]
        label = kinds.LABEL_REPEATED if kind.repeated else kinds.LABEL_OPTIONAL
        added = message.field.add(name=one.name, number=number, type=types[kind.name], label=label)
        if not kind.repeated and kind.default is None:
            message.oneof_decl.add(name=f"_{one.name}")
            added.proto3_optional, added.oneof_index = True, len(message.oneof_decl) - 1
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Everything"))


THEIRS = theirs()
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
OURS = st.builds(
    Everything,
    st.text(),
    st.none() | st.text(),
    st.binary(),
    st.booleans(),
    NUMBERS,
    st.none() | NUMBERS,
    st.lists(st.text()).map(tuple),
    st.lists(NUMBERS).map(tuple),
)


def as_theirs(message: Everything):
    values = {one.name: getattr(message, one.name) for one in fields(message)}
    return THEIRS(**{name: value for name, value in values.items() if value is not None})


@settings(max_examples=scaled(150), deadline=None)
@given(OURS)
def test_messages_are_those_of_protobuf(message: Everything):
    assert decode(Everything, as_theirs(message).SerializeToString()) == message
    assert THEIRS.FromString(encode(message)) == as_theirs(message)
    assert decode(Everything, encode(message)) == message


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message with one byte changed or added."""
    data, byte = encode(draw(OURS)), draw(st.integers(0, 255))
    place = draw(st.integers(0, len(data)))
    return data[:place] + bytes([byte]) + data[place + 1 :]


@settings(max_examples=scaled(300), deadline=None)
@given(st.binary(max_size=40) | damaged())
def test_bytes_that_are_no_message_are_refused(data: bytes):
    """And read as protobuf reads them, unless they have a field that the message lacks, which protobuf skips."""
    try:
        read = decode(Everything, data)
    except InvalidQuery:
        return
    assert THEIRS.FromString(data) == as_theirs(read)


@settings(max_examples=scaled(200), deadline=None)
@given(st.binary(max_size=60), st.sampled_from(sorted(MESSAGES)))
def test_no_command_makes_the_reader_fail(data: bytes, name: str):
    for given_bytes in (data, encode(Any(f"type.googleapis.com/arrow.flight.protocol.sql.{name}", data))):
        try:
            assert type(unpacked(given_bytes)) in MESSAGES.values()
        except InvalidQuery as refused:
            assert "server" in str(refused) or "no message of Flight SQL" in str(refused)


def test_a_command_comes_back_as_it_was():
    command = CommandGetTables("lsmlake", None, "or%", ("TABLE",), True)
    assert unpacked(packed(command)) == command


def test_what_the_server_does_not_know_is_named():
    with pytest.raises(UnknownMessage, match="CommandStatementSubstraitPlan"):
        unpacked(encode(Any("type.googleapis.com/arrow.flight.protocol.sql.CommandStatementSubstraitPlan", b"")))
    with pytest.raises(InvalidQuery, match="CommandGetCatalogs has a field that this server does not know, found field 9"):
        unpacked(encode(Any("type.googleapis.com/arrow.flight.protocol.sql.CommandGetCatalogs", b"\x48\x01")))
