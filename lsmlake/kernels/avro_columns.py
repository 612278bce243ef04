"""Reads many Avro records of one schema at once: a cursor per record, and one step of the schema for all cursors at a time.

NumPy does the work on whole columns: there are Python calls per field of the schema, not per record. Only lists need a step
for each element of the longest list. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lsmlake.kernels import nested

Shape = Mapping[str, object] | None
"""The fields of a record to read, each with those inside it; None: everything."""
_NUMBERS = {"float": ("<f4", pa.float32()), "double": ("<f8", pa.float64())}
_VARINT_BYTES_MAX = 10


def named_types(schema: object, names: dict[str, object] | None = None, space: str = "") -> dict[str, object]:
    """The named types inside a schema, by their full names and, within their namespace, by their short ones."""
    names = {} if names is None else names
    if isinstance(schema, list):
        for one in schema:
            named_types(one, names, space)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in ("record", "enum", "fixed"):
            space = schema.get("namespace", space)
            full = schema["name"] if "." in schema["name"] or not space else f"{space}.{schema['name']}"
            names[full] = names[full.rpartition(".")[2]] = schema
        for one in schema.get("fields", ()):
            named_types(one["type"], names, space)
        for inner in ("items", "values"):
            named_types(schema.get(inner, ()), names, space)
        if isinstance(schema.get("type"), (dict, list)):
            named_types(schema["type"], names, space)
    return names


@dataclass
class AvroReader:
    """Reads records of a schema.

    Attributes:
        schema: the schema as JSON values.
        names: the named types in it.
    """

    schema: object
    names: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = named_types(self.schema)

    def read(self, records: pa.BinaryArray, start: int, shape: Shape) -> pa.Array:
        """The records as an array of structs.

        Args:
            records: bytes, without nulls.
            start: the number of bytes before the record.
            shape: the fields to read.

        Raises:
            pa.ArrowInvalid: a record does not have the schema.
        """
        plain = records.cast(pa.large_binary())
        offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + len(plain) + 1]
        data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
        cursors = _Cursors(data, offsets[:-1] + start, offsets[1:])
        try:
            made = self._read(self.schema, cursors, shape, True)
        except RecursionError as endless:
            raise pa.ArrowInvalid("the schema contains itself") from endless
        if (cursors.places != cursors.ends).any():
            raise pa.ArrowInvalid("the bytes do not end where a record of their schema ends")
        return made

    def resolved(self, node: object) -> object:
        """A type of the schema, with a name replaced by what it names."""
        node = self.names.get(node, node) if isinstance(node, str) else node
        return self.resolved(node["type"]) if isinstance(node, dict) and isinstance(node["type"], (dict, list)) else node

    def _read(self, node: object, cursors: _Cursors, shape: Shape, wanted: bool) -> pa.Array | None:
        """The next value of each cursor; None if it is not wanted."""
        node = self.resolved(node)
        if isinstance(node, list):
            return self._union(node, cursors, shape, wanted)
        kind = node["type"] if isinstance(node, dict) else node
        if kind == "record":
            return self._record(node, cursors, shape, wanted)
        if kind in ("array", "map"):
            return self._list(node, cursors, shape, wanted)
        if kind == "enum":
            numbers = cursors.longs()
            return pa.array(node["symbols"]).take(pa.array(numbers)) if wanted else None
        if kind in ("string", "bytes", "fixed"):
            lengths = np.full(len(cursors.places), node["size"]) if kind == "fixed" else cursors.longs()
            made = cursors.bytes_of(lengths, wanted)
            return made if made is None or kind != "string" else made.cast(pa.string())
        return self._plain(str(kind), cursors, wanted)

    def _plain(self, kind: str, cursors: _Cursors, wanted: bool) -> pa.Array | None:
        count = len(cursors.places)
        if kind == "null":
            return pa.nulls(count) if wanted else None
        if kind in ("int", "long"):
            numbers = cursors.longs()
            return pa.array(numbers) if wanted else None
        if kind == "boolean":
            return pa.array(cursors.fixed(1)[:, 0] != 0)
        if kind in _NUMBERS:
            dtype, type_ = _NUMBERS[kind]
            return pa.array(np.ascontiguousarray(cursors.fixed(np.dtype(dtype).itemsize)).view(dtype)[:, 0], type_)
        raise pa.ArrowInvalid(f"the schema has an unknown type {kind!r}")

    def _record(self, node: Mapping, cursors: _Cursors, shape: Shape, wanted: bool) -> pa.Array | None:
        made = {}
        for one in node["fields"]:
            named = wanted and (shape is None or one["name"] in shape)
            inner = None if shape is None else shape.get(one["name"])
            values = self._read(one["type"], cursors, inner, named)
            if named:
                made[one["name"]] = values
        if not wanted:
            return None
        return (
            pa.StructArray.from_arrays(list(made.values()), list(made))
            if made
            else nested.nulls(len(cursors.places), pa.struct([]))
        )

    def _union(self, branches: list, cursors: _Cursors, shape: Shape, wanted: bool) -> pa.Array | None:
        numbers = cursors.longs()
        if numbers.size and (numbers.min() < 0 or numbers.max() >= len(branches)):
            raise pa.ArrowInvalid("the bytes are no record of their schema")
        made = None
        for number, branch in enumerate(branches):
            rows = np.flatnonzero(numbers == number)
            if self.resolved(branch) == "null":
                continue
            some = cursors.some(rows)
            values = self._read(branch, some, shape, wanted)
            cursors.places[rows] = some.places
            if wanted:
                places = np.zeros(len(numbers), np.int64)
                places[rows] = np.arange(len(rows))
                taken = values.take(pa.array(places, mask=numbers != number))
                made = taken if made is None else pa.compute.coalesce(made, taken.cast(made.type))
        return pa.nulls(len(numbers)) if wanted and made is None else made

    def _list(self, node: Mapping, cursors: _Cursors, shape: Shape, wanted: bool) -> pa.Array | None:
        """Arrays, and maps as lists of entries. Elements come in blocks; a block of no elements ends the list."""
        is_map = node["type"] == "map"
        owners, parts, keys = [], [], []
        left, open_ = np.zeros(len(cursors.places), np.int64), np.ones(len(cursors.places), bool)
        while open_.any():
            begins = np.flatnonzero(open_ & (left == 0))
            if len(begins):
                some = cursors.some(begins)
                counts = some.longs()
                sized = np.flatnonzero(counts < 0)
                if len(sized):
                    blocks = some.some(sized)
                    blocks.longs()  # the bytes of the block
                    some.places[sized] = blocks.places
                cursors.places[begins] = some.places
                left[begins] = np.abs(counts)
                open_[begins[counts == 0]] = False
            rows = np.flatnonzero(open_)
            if not len(rows):
                break
            some = cursors.some(rows)
            key = some.bytes_of(some.longs(), wanted) if is_map else None
            value = self._read(node["values" if is_map else "items"], some, shape, wanted)
            cursors.places[rows] = some.places
            left[rows] -= 1
            owners.append(rows)
            parts.append(value)
            keys.append(key)
        if not wanted:
            return None
        if not parts:  # for the type of the elements
            parts = [self._read(node["values" if is_map else "items"], cursors.some(np.empty(0, np.int64)), shape, True)]
        return self._joined(len(cursors.places), owners, parts, keys if is_map else None)

    def _joined(self, count: int, owners: list[np.ndarray], parts: list[pa.Array], keys: list[pa.Array] | None) -> pa.Array:
        """Lists of the values that `owners` got one after the other."""
        owner = np.concatenate([np.empty(0, np.int64), *owners])
        order = pa.array(np.argsort(owner, kind="stable"))
        offsets = nested.offsets(np.bincount(owner, minlength=count))
        values = pa.concat_arrays(parts).take(order)
        if keys is None:
            return pa.ListArray.from_arrays(offsets, values)
        names = pa.concat_arrays(keys).cast(pa.string()).take(order) if keys else pa.nulls(0, pa.string())
        return pa.MapArray.from_arrays(offsets, names, values)


@dataclass
class _Cursors:
    """Places in bytes, one for each record. `ends`: where the records end."""

    data: np.ndarray
    places: np.ndarray
    ends: np.ndarray

    def some(self, rows: np.ndarray) -> _Cursors:
        """The cursors of some of the records."""
        return _Cursors(self.data, self.places[rows], self.ends[rows])

    def longs(self) -> np.ndarray:
        """Reads an integer at each cursor: seven bits per byte, the least significant first, the sign in the lowest bit."""
        values, places = np.zeros(len(self.places), np.uint64), self.places.copy()
        rows = None
        for number in range(_VARINT_BYTES_MAX):
            at = places if rows is None else places[rows]
            self._check(at, 1, rows)
            found = self.data[at]
            bits = (found & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            if rows is None:
                values |= bits
                places += 1
            else:
                values[rows] |= bits
                places[rows] += 1
            more = np.flatnonzero(found & 0x80)
            rows = more if rows is None else rows[more]
            if not len(rows):
                break
        self.places = places
        return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)

    def fixed(self, size: int) -> np.ndarray:
        """Reads so many bytes at each cursor."""
        self._check(self.places, size, None)
        made = self.data[self.places[:, None] + np.arange(size)] if len(self.places) else np.empty((0, size), np.uint8)
        self.places = self.places + size
        return made

    def bytes_of(self, lengths: np.ndarray, wanted: bool) -> pa.Array | None:
        """Reads bytes of these lengths."""
        if (lengths < 0).any():
            raise pa.ArrowInvalid("the bytes are no record of their schema")
        self._check(self.places, lengths, None)
        starts, self.places = self.places, self.places + lengths
        if not wanted:
            return None
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.data[places])]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)

    def _check(self, places: np.ndarray, size: int | np.ndarray, rows: np.ndarray | None) -> None:
        ends = self.ends if rows is None else self.ends[rows]
        if (places + size > ends).any():
            raise pa.ArrowInvalid("the bytes end inside of a record")


def fields_of(reader: AvroReader, path: str) -> Iterator[Mapping]:
    """The fields of the record at a path, through nullable types."""
    node = reader.resolved(reader.schema)
    for name in filter(None, path.split(".")):
        node = next((one["type"] for one in _record_in(reader, node).get("fields", ()) if one["name"] == name), None)
        node = reader.resolved(node)
    yield from _record_in(reader, node).get("fields", ())


def _record_in(reader: AvroReader, node: object) -> Mapping:
    for one in node if isinstance(node, list) else [node]:
        found = reader.resolved(one)
        if isinstance(found, dict) and found["type"] == "record":
            return found
    return {}
