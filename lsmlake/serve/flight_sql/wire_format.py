"""Messages in the wire format of Protocol Buffers, as dataclasses whose fields say their numbers. Only what Flight SQL needs:
numbers, truth values, texts and bytes, optional or repeated.

    @dataclass(frozen=True)
    class Example:
        name: str = wire(1, TEXT)
        kinds: tuple[str, ...] = wire(2, TEXTS)

Source: the documentation of Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any, NamedTuple, TypeVar

from lsmlake.errors import InvalidQuery

Message = TypeVar("Message")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE = "wire"
_WORD = 1 << 64


class FieldKind(NamedTuple):
    """The type of a field. `default`: its value if it does not come. `repeated`: whether it may come several times."""

    name: str
    wire_type: int
    default: object
    repeated: bool = False


TEXT, OPTIONAL_TEXT = FieldKind("text", _BYTES, ""), FieldKind("text", _BYTES, None)
BYTES, BOOL, INT = FieldKind("bytes", _BYTES, b""), FieldKind("bool", _VARINT, False), FieldKind("int", _VARINT, 0)
OPTIONAL_INT = FieldKind("int", _VARINT, None)
TEXTS, INTS = FieldKind("text", _BYTES, (), True), FieldKind("int", _VARINT, (), True)
MESSAGES_IN = FieldKind("bytes", _BYTES, (), True)


def wire(number: int, kind: FieldKind) -> Any:
    """A field of a message, for the body of a dataclass."""
    return field(default=kind.default, metadata={_WIRE: (number, kind)})


def decode(message: type[Message], data: bytes) -> Message:
    """Reads a message. Raises InvalidQuery if the bytes are none, or have a field that the message lacks."""
    known = {one.metadata[_WIRE][0]: (one.name, one.metadata[_WIRE][1]) for one in fields(message)}  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for number, wire_type, value in _parts(data, message.__name__):
        if number not in known:
            raise InvalidQuery(f"{message.__name__} has a field that this server does not know", found=f"field {number}")
        name, kind = known[number]
        values = [value]
        if kind.repeated and kind.wire_type == _VARINT and isinstance(value, bytes):
            values = list(_packed(value, message.__name__))
        elif wire_type != kind.wire_type:
            raise _malformed(message.__name__)
        read = [_read(kind, one, message.__name__) for one in values]
        found[name] = (*found.get(name, ()), *read) if kind.repeated else read[-1]
    return message(**found)


def encode(message: object) -> bytes:
    """Writes a message. Fields that have their default are left out."""
    made = bytearray()
    for one in fields(message):  # type: ignore[arg-type]
        number, kind = one.metadata[_WIRE]
        value = getattr(message, one.name)
        for each in value if kind.repeated else () if value == kind.default else (value,):
            made += _varint(number << 3 | kind.wire_type)
            if kind.wire_type == _VARINT:
                made += _varint(int(each) % _WORD)
            else:
                data = each.encode() if isinstance(each, str) else each
                made += _varint(len(data)) + data
    return bytes(made)


def _parts(data: bytes, where: str) -> Iterator[tuple[int, int, int | bytes]]:
    """The number, the wire type and the value of each field."""
    place = 0
    while place < len(data):
        tag, place = _number(data, place, where)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise _malformed(where)
        if wire_type == _VARINT:
            value, place = _number(data, place, where)
            yield number, wire_type, value
            continue
        if wire_type == _BYTES:
            size, place = _number(data, place, where)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise _malformed(where)
        if size > len(data) - place:
            raise _malformed(where)
        yield number, wire_type, data[place : place + size]
        place += size


def _packed(data: bytes, where: str) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = _number(data, place, where)
        yield value


def _number(data: bytes, place: int, where: str) -> tuple[int, int]:
    """A number of at most ten bytes, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte, place = data[place], place + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % _WORD, place
    raise _malformed(where)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _read(kind: FieldKind, value: int | bytes, where: str) -> object:
    if isinstance(value, int):
        return value != 0 if kind is BOOL else value - _WORD if value >= _WORD >> 1 else value
    if kind.name != "text":
        return value
    try:
        return value.decode()
    except UnicodeError:
        raise _malformed(where) from None


def _malformed(where: str) -> InvalidQuery:
    return InvalidQuery("the bytes are no message of Flight SQL", where=where, cure="use a driver of Flight SQL")
