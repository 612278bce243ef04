"""Writes columns as Avro, the bytes of one value per row: the inverse of `kernels.avro_columns`. Vectorised, pure.

The bytes of a record are those of its fields, one after the other, so a row is its columns `joined`. A type of the schema is a
name such as "long", an object with the field `type`, or a list for a nullable type: ["null", "long"].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BYTES = pa.large_binary()
_END, _NULL, _VALUE = b"\x00", b"\x00", b"\x02"
"""The end of an array; the numbers of the two types of a nullable type."""
_FLOATS = {"float": "<f4", "double": "<f8"}
_BITS = 7  # of a number in one byte


def encoded(values: pa.Array, node: object) -> pa.Array:
    """The bytes of each value, never null.

    Args:
        values: the values. Nulls need a nullable type; under it, and inside of null values, they count for nothing.
        node: their type, as the JSON values of a schema: a boolean, number, string, bytes, array or record.
    """
    if isinstance(node, list):
        made = joined(_VALUE, encoded(values, node[1]))
        return pc.if_else(values.is_valid(), made, pa.scalar(_NULL, BYTES)) if values.null_count else made
    kind = node["type"] if isinstance(node, Mapping) else node
    if kind == "record":
        return joined(*(encoded(one, field["type"]) for one, field in zip(values.flatten(), node["fields"], strict=True)))
    if kind == "array":
        return _lists(values, node["items"])
    if kind in ("string", "bytes"):
        values = values.fill_null("" if kind == "string" else b"").cast(BYTES)
        return joined(varints(np.asarray(pc.binary_length(values))), values)
    numbers = values.fill_null(False if kind == "boolean" else 0)
    if kind == "boolean":
        return _fixed(np.asarray(numbers.cast(pa.uint8())))
    return _fixed(np.asarray(numbers).astype(_FLOATS[kind])) if kind in _FLOATS else varints(np.asarray(numbers))


def optional(values: pa.Array) -> pa.Array:
    """Bytes of values, of which some are null, as those of a nullable type."""
    return joined(_VALUE, values.cast(BYTES)).fill_null(_NULL)


def joined(*parts: pa.Array | bytes) -> pa.Array:
    """The parts of each row, one after the other; constants are the same in all rows."""
    values = [pa.scalar(part, BYTES) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*values, pa.scalar(b"", BYTES))


def varints(numbers: np.ndarray) -> pa.Array:
    """Integers: seven bits per byte, the least significant first, the sign in the lowest bit."""
    signed = numbers.astype(np.int64)
    left = (signed << 1 ^ signed >> 63).view(np.uint64)
    sizes = np.ones(len(left), np.int64)
    most = int(left.max(initial=0)).bit_length()
    for bits in range(_BITS, most, _BITS):
        sizes += left >= np.uint64(1 << bits)
    width = int(sizes.max(initial=1))
    made = np.empty((len(left), width), np.uint8)
    for place in range(width):
        made[:, place] = left >> np.uint64(_BITS * place) & np.uint64(0x7F) | np.uint64(0x80)
    made[np.arange(len(left)), sizes - 1] &= 0x7F
    data = made if width == 1 else made[np.arange(width) < sizes[:, None]]
    return _of_offsets(np.append(0, np.cumsum(sizes)), data)


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Numbers as they lie in memory."""
    return _of_offsets(np.arange(len(numbers) + 1) * numbers.itemsize, np.ascontiguousarray(numbers))


def _lists(values: pa.ListArray, node: object) -> pa.Array:
    """Lists: a block with their items, unless they are empty, and the end."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    items = encoded(values.flatten(), node)
    places = np.frombuffer(items.buffers()[1], np.int64)[items.offset : items.offset + len(items) + 1]
    of_lists = _of_offsets(places[np.append(0, np.cumsum(lengths))], items.buffers()[2] or b"")
    block = joined(varints(lengths), of_lists, _END)
    return pc.if_else(pa.array(lengths > 0), block, pa.scalar(_END, BYTES))


def _of_offsets(offsets: np.ndarray, data: np.ndarray | pa.Buffer | bytes) -> pa.Array:
    places = pa.py_buffer(np.ascontiguousarray(offsets, np.int64))
    return pa.Array.from_buffers(
        BYTES, len(offsets) - 1, [None, places, data if isinstance(data, pa.Buffer) else pa.py_buffer(data)]
    )
