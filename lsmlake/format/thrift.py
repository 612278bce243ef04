"""Thrift's compact protocol, as far as Parquet uses it: bytes to values. A struct is a dict of field id -> (type, value)."""

from __future__ import annotations

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_BOOLEANS, _INTEGERS = (_TRUE, _FALSE), (_I16, _I32, _I64)

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
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_LIST, _SET):
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
