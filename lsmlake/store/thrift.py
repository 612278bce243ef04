"""Thrift's compact protocol, as far as Parquet uses it: bytes to values and back.

A struct is a dict of field id -> (type, value), so that what is read can be written again, unknown fields included.
"""

from __future__ import annotations

_TRUE, _FALSE, _BYTE, I16, I32, I64, _DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
_BOOLEANS, _INTEGERS = (_TRUE, _FALSE), (I16, I32, I64)

Struct = dict[int, tuple[int, object]]


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """Returns the struct that begins at `start`, and where it ends. Raises ValueError."""
    try:
        return _struct(data, start)
    except (IndexError, RecursionError) as broken:
        raise ValueError("not a Thrift struct") from broken


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    last = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            last += step
        else:
            number, at = _varint(data, at)
            last = _signed(number)
        value, at = (kind == _TRUE, at) if kind in _BOOLEANS else _value(data, at, kind)
        found[last] = kind, value
    return found, at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _value(data: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind in _INTEGERS:
        number, at = _varint(data, at)
        return _signed(number), at
    if kind == BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == STRUCT:
        return _struct(data, at)
    if kind in (LIST, _SET):
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
        items: list[object] = []
        for _ in range(count):
            item, at = (data[at] == _TRUE, at + 1) if head & 15 in _BOOLEANS else _value(data, at, head & 15)
            items.append(item)
        return (head & 15, items), at
    if kind == _BYTE:
        return data[at], at + 1
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    raise ValueError(f"type {kind} of Thrift is not supported")


def written(struct: Struct) -> bytes:
    """Returns the bytes of a struct."""
    out, last = bytearray(), 0
    for number in sorted(struct):
        kind, value = struct[number]
        kind = (_TRUE if value else _FALSE) if kind in _BOOLEANS else kind
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _written_varint(number << 1)
        last = number
        if kind not in _BOOLEANS:
            out += _written_value(kind, value)
    return bytes(out + b"\0")


def _written_varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _written_value(kind: int, value: object) -> bytes:
    if kind in _INTEGERS:
        return _written_varint((value << 1) ^ (value >> 63))
    if kind == BINARY:
        return _written_varint(len(value)) + value
    if kind == STRUCT:
        return written(value)
    if kind in (LIST, _SET):
        item_kind, items = value
        head = (
            bytes([len(items) << 4 | item_kind]) if len(items) < 15 else bytes([0xF0 | item_kind]) + _written_varint(len(items))
        )
        if item_kind in _BOOLEANS:
            return head + bytes(_TRUE if item else _FALSE for item in items)
        return head + b"".join(_written_value(item_kind, item) for item in items)
    return bytes([value]) if kind == _BYTE else value
