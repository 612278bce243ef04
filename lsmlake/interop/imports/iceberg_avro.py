"""The manifests of any writer of Iceberg, format versions 1 to 3: records by field id, because names may differ.

Source: the specification of Apache Iceberg, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lsmlake.errors import Corrupt
from lsmlake.extras import need

Record = dict[int, Any]
"""Field id -> value. A field that the writer left out is missing; a nested record is one of these, too."""

_CURE = "the file is damaged: restore it, or choose another snapshot of the table"


def records(data: bytes, where: str) -> Iterator[Record]:
    """The records of a manifest or manifest list. Raises Corrupt naming `where`."""
    fastavro = need("fastavro", "import_iceberg")
    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema = json.loads(reader.metadata["avro.schema"])
        named: dict[str, Mapping] = {}
        _name(schema, named)
        for record in reader:
            yield _by_id(record, schema, named)
    except Exception as broken:  # of many kinds
        raise Corrupt("a manifest of Iceberg cannot be read", where=where, found=repr(broken), cure=_CURE) from broken


def _name(schema: object, named: dict[str, Mapping]) -> None:
    """Collect the types with names, which Avro repeats by name."""
    if isinstance(schema, list):
        for one in schema:
            _name(one, named)
    elif isinstance(schema, dict):
        if "name" in schema and "type" in schema and schema["type"] in ("record", "fixed", "enum"):
            named[schema["name"]] = schema
        for one in schema.get("fields", ()):
            _name(one["type"], named)
        for inner in ("items", "values"):
            _name(schema.get(inner), named)
        if isinstance(schema.get("type"), (dict, list)):
            _name(schema["type"], named)


def _by_id(value: object, schema: object, named: Mapping[str, Mapping]) -> Any:
    """A value whose records have field ids in place of names."""
    if value is None:
        return None
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, list):
        schema = next(one for one in schema if one != "null")
        return _by_id(value, schema, named)
    if not isinstance(schema, Mapping):
        return value
    if schema["type"] == "record":
        return {
            field["field-id"]: _by_id(value[field["name"]], field["type"], named)
            for field in schema["fields"]
            if "field-id" in field
        }
    if schema["type"] == "array":
        return [_by_id(one, schema["items"], named) for one in value]
    return value
