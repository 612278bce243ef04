"""The manifests of any writer of Iceberg, format versions 1 to 3. Fields are found by their ids, because writers may name them
otherwise; a record has them under the names of the specification (`iceberg.avro`).

Source: the specification of Apache Iceberg, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lsmlake.errors import Corrupt
from lsmlake.extras import need
from lsmlake.iceberg.avro import NAMES
from lsmlake.types.table import TABLE

Record = dict[Any, Any]
"""Name -> value; of a record of partition values, field id -> value. A field that the writer left out is missing. Dates and times
are numbers, as stored."""
_TIMES = {row.avro["logicalType"] for row in TABLE if row.iso is not None} | {"local-timestamp-micros"}
"""Logical types, some values of which Python lacks."""

_PARTITION = "partition"
"""The record of partition values, whose fields are those of a partition spec."""
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
"""The beginning of an Avro file, by its specification."""
_CURE = "the file is damaged: restore it, or choose another snapshot of the table"


def records(data: bytes, where: str) -> Iterator[Record]:
    """The records of a manifest or manifest list. Raises Corrupt naming `where`."""
    fastavro = need("fastavro", "import_iceberg")
    try:
        file = io.BytesIO(data)
        header = fastavro.schemaless_reader(file, _HEADER, None)
        schema = json.loads(header["meta"]["avro.schema"])
        types: dict[str, dict] = {}
        _collect(schema, types)
        header["meta"]["avro.schema"] = json.dumps(schema).encode()
        whole = io.BytesIO()
        fastavro.schemaless_writer(whole, _HEADER, header)
        whole.write(file.read())
        whole.seek(0)
        yield from map(_reader(schema, types), fastavro.reader(whole))
    except Exception as broken:  # of many kinds
        raise Corrupt("a manifest of Iceberg cannot be read", where=where, found=repr(broken), cure=_CURE) from broken


def _collect(schema: object, types: dict[str, dict]) -> None:
    """Collect the types with names, which Avro repeats by name, and make numbers of dates and times.

    PyIceberg defines some names again, such as `decimal_9_2` for each partition column of this type, which Avro forbids: these
    types get names of their own."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, types)
    elif isinstance(schema, dict):
        if "name" in schema and "type" in schema and schema["type"] in ("record", "fixed", "enum"):
            if schema["name"] in types:
                schema["name"] += f"_{len(types)}"
            types[schema["name"]] = schema
        if schema.get("logicalType") in _TIMES:
            del schema["logicalType"]
        for one in schema.get("fields", ()):
            _collect(one["type"], types)
        for inner in ("items", "values"):
            _collect(schema.get(inner), types)
        if isinstance(schema.get("type"), (dict, list)):
            _collect(schema["type"], types)


def _reader(schema: object, types: Mapping[str, Mapping], *, named: bool = True) -> Callable[[Any], Any]:
    """A function that gives the records in a value the names of the specification or, unless `named`, field ids as keys. Fields
    that this release does not know are left out."""
    if isinstance(schema, str):
        schema = types.get(schema, schema)
    if isinstance(schema, list):
        return _reader(next(one for one in schema if one != "null"), types, named=named)
    if isinstance(schema, Mapping) and schema["type"] == "record":
        fields = [(field, field["field-id"]) for field in schema["fields"] if "field-id" in field]
        known = [(field, NAMES[id] if named else id) for field, id in fields if not named or id in NAMES]
        parts = [(field["name"], key, _reader(field["type"], types, named=named and key != _PARTITION)) for field, key in known]
        return lambda record: record and {key: read(record[name]) for name, key, read in parts}
    if isinstance(schema, Mapping) and schema["type"] == "array":
        inner = _reader(schema["items"], types, named=named)
        return lambda values: values and list(map(inner, values))
    return lambda value: value
