"""The Avro files of Iceberg, format version 3: manifests, which list files, and manifest lists, which list manifests.

Records are dictionaries with the names of the specification. Source: the specification of Apache Iceberg, "Manifests" and
"Manifest Lists".
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.extras import need
from lsmlake.iceberg.schemas import schema_json, spec_json
from lsmlake.kernels import transforms
from lsmlake.schema.partitioning import PartitionColumn, PartitionSpec
from lsmlake.schema.schema import Schema
from lsmlake.types.type_table import column_type

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
EXISTING, ADDED, DELETED = 0, 1, 2
VERSION = "3"
NOTES = "lsmlake"
"""The entry of the header that only lsmlake reads."""
CURE = "repair_iceberg(), or `lsmlake repair TABLE --iceberg`, makes the metadata anew"
"""The cure for damaged Iceberg metadata."""
_FOUND_CHARS = 200
_PARTITION = "r102"
_UNNAMED = re.compile("[^A-Za-z0-9_]")


def partition_name(name: str) -> str:
    """The name of a partition field as a name of Avro; readers identify the field by its id."""
    escaped = _UNNAMED.sub(lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{escaped}" if escaped[:1].isdigit() else escaped


def write_manifest(schema: Schema, spec: int, content: str, entries: Sequence[Mapping], notes: Mapping[str, str]) -> bytes:
    """Encodes a manifest. `content`: "data" or "deletes". `notes`: further entries of the header."""
    described = spec_json(schema.partitioning.of(spec))
    header = {
        "schema": json.dumps(schema_json(schema)),
        "schema-id": str(schema.id),
        "partition-spec": json.dumps(described["fields"]),
        "partition-spec-id": str(spec),
        "format-version": VERSION,
        "content": content,
        **notes,
    }
    return _written(_manifest_schema(schema.partition_columns_of(spec), schema.partitioning.of(spec)), entries, header)


def write_list(manifests: Sequence[Mapping], header: Mapping[str, str]) -> bytes:
    return _written(_LIST, manifests, {**header, "format-version": VERSION})


def read(data: bytes, where: str) -> tuple[list[dict], Mapping[str, str]]:
    """The records and the header of a file. Raises Corrupt naming `where`."""
    fastavro = need("fastavro", "Iceberg metadata")
    try:
        reader = fastavro.reader(io.BytesIO(data))
        return list(reader), reader.metadata
    except Exception as broken:  # of many kinds
        raise Corrupt("Iceberg metadata cannot be read", where=where, found=repr(broken)[:_FOUND_CHARS], cure=CURE) from broken


def header_of(data: bytes) -> Mapping[str, str]:
    """The header of a file that `read` accepts."""
    return need("fastavro", "Iceberg metadata").reader(io.BytesIO(data)).metadata


def unknown_fields(header: Mapping[str, str]) -> list[tuple[str, object]]:
    """The names and ids of unknown fields in the header of a manifest or manifest list; without partition fields."""
    known = {*_fields(_LIST), *_fields(_manifest_schema((), PartitionSpec(0, ())))}
    return [one for one in _fields(json.loads(header["avro.schema"])) if one not in known]


def _fields(schema: object) -> Iterator[tuple[str, object]]:
    """The name and the id of each field of a schema of Avro, also of inner fields; without partition fields."""
    if isinstance(schema, list):
        for one in schema:
            yield from _fields(one)
    elif isinstance(schema, dict) and schema.get("name") != _PARTITION:
        for field in schema.get("fields", ()):
            yield field["name"], field.get("field-id")
            yield from _fields(field["type"])
        if "items" in schema:
            yield "", schema.get("element-id")
            yield from _fields(schema["items"])


def _written(schema: Mapping, records: Sequence[Mapping], header: Mapping[str, str]) -> bytes:
    sink = io.BytesIO()
    fastavro = need("fastavro", "Iceberg metadata")
    fastavro.writer(sink, _parsed(json.dumps(schema)), records, codec="deflate", metadata=dict(header))
    return sink.getvalue()


@cache
def _parsed(schema: str) -> object:
    return need("fastavro", "Iceberg metadata").parse_schema(json.loads(schema))


def _field(id: int, name: str, type_: object, optional: bool = True) -> dict:
    if not optional:
        return {"name": name, "type": type_, "field-id": id}
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id}


def _map(key: int, value: int, type_: str) -> dict:
    """A map with integers as keys: Avro has text only, so Iceberg writes pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int", False), _field(value, "value", type_, False)],
    }
    return {"type": "array", "logicalType": "map", "items": pair}


def _manifest_schema(columns: Sequence[PartitionColumn], spec: PartitionSpec) -> dict:
    partition = {
        "type": "record",
        "name": _PARTITION,
        "fields": [
            _field(field.id, partition_name(field.name), _partition_type(column, field.id))
            for field, column in zip(spec.fields, columns, strict=True)
        ],
    }
    file = [
        _field(134, "content", "int", False),
        _field(100, "file_path", "string", False),
        _field(101, "file_format", "string", False),
        _field(102, "partition", partition, False),
        _field(103, "record_count", "long", False),
        _field(104, "file_size_in_bytes", "long", False),
        _field(109, "value_counts", _map(119, 120, "long")),
        _field(110, "null_value_counts", _map(121, 122, "long")),
        _field(137, "nan_value_counts", _map(138, 139, "long")),
        _field(125, "lower_bounds", _map(126, 127, "bytes")),
        _field(128, "upper_bounds", _map(129, 130, "bytes")),
        _field(131, "key_metadata", "bytes"),
        _field(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
        _field(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}),
        _field(140, "sort_order_id", "int"),
        _field(142, "first_row_id", "long"),
        _field(143, "referenced_data_file", "string"),
        _field(144, "content_offset", "long"),
        _field(145, "content_size_in_bytes", "long"),
    ]
    entry = [
        _field(0, "status", "int", False),
        _field(1, "snapshot_id", "long"),
        _field(3, "sequence_number", "long"),
        _field(4, "file_sequence_number", "long"),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": file}, False),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def _partition_type(column: PartitionColumn, id: int) -> object:
    type_ = column_type(pa.date32() if column.transform.name == transforms.DAY else column.type).avro
    return {**type_, "name": f"decimal_{id}"} if pa.types.is_decimal(column.type) else type_


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field(509, "contains_null", "boolean", False),
        _field(518, "contains_nan", "boolean"),
        _field(510, "lower_bound", "bytes"),
        _field(511, "upper_bound", "bytes"),
    ],
}
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field(500, "manifest_path", "string", False),
        _field(501, "manifest_length", "long", False),
        _field(502, "partition_spec_id", "int", False),
        _field(517, "content", "int", False),
        _field(515, "sequence_number", "long", False),
        _field(516, "min_sequence_number", "long", False),
        _field(503, "added_snapshot_id", "long", False),
        _field(504, "added_files_count", "int", False),
        _field(505, "existing_files_count", "int", False),
        _field(506, "deleted_files_count", "int", False),
        _field(512, "added_rows_count", "long", False),
        _field(513, "existing_rows_count", "long", False),
        _field(514, "deleted_rows_count", "long", False),
        _field(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
        _field(519, "key_metadata", "bytes"),
        _field(520, "first_row_id", "long"),
    ],
}


def _names(schema: object) -> Iterator[tuple[int, str]]:
    if isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield field["field-id"], field["name"]
            yield from _names(field["type"])
        yield from _names(schema.get("items"))
    elif isinstance(schema, list):
        for one in schema:
            yield from _names(one)


NAMES = dict([*_names(_manifest_schema((), PartitionSpec(0, ()))), *_names(_LIST)])
"""Field id -> name in the specification, of the fields of manifests and manifest lists."""
