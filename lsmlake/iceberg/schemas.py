"""The schema of a table in Iceberg's JSON: columns with the same field ids, partition specs with the same ids, sort order; and
single values in Iceberg's encodings: binary for bounds, JSON for defaults, and for the partition values of Avro files.

TINYINT and SMALLINT become `int`, TIMESTAMP `timestamptz`, TIMESTAMP_NTZ `timestamp`; the other types have a twin.

Source: the specification of Apache Iceberg, "Appendix C: JSON serialization" and "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.schema.defaults import INITIAL, WRITE, default_of, encoded
from lsmlake.schema.partitioning import PartitionSpec
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types
from lsmlake.types.type_table import column_type, iso_text, number_of
from lsmlake.types.type_text import format_type

_PROMOTIONS = {("int", "long"), ("float", "double")}


def type_json(type_: pa.DataType) -> object:
    """A canonical type with field ids."""
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [field_json(field) for field in type_]}
    if pa.types.is_map(type_):
        key, value = type_.key_field, type_.item_field
        return {
            "type": "map",
            "key-id": column_types.field_id(key),
            "key": type_json(key.type),
            "value-id": column_types.field_id(value),
            "value": type_json(value.type),
            "value-required": not value.nullable,
        }
    if pa.types.is_list(type_):
        inner = type_.value_field
        named = {"element-id": column_types.field_id(inner), "element": type_json(inner.type)}
        return {"type": "list", **named, "element-required": not inner.nullable}
    return column_type(type_).iceberg


def field_json(field: pa.Field) -> dict:
    content = {
        "id": column_types.field_id(field),
        "name": field.name,
        "required": not field.nullable,
        "type": type_json(field.type),
    }
    if comment := field.metadata.get(column_types.COMMENT):
        content["doc"] = comment.decode()
    for name, which in (("initial-default", INITIAL), ("write-default", WRITE)):
        value = default_of(field, which)
        if value is not None and value.is_valid:
            content[name] = default_json(value)
    return content


def published(schema: Schema) -> list[str]:
    """The columns that Iceberg knows: all but the hidden ones of a view table; the key always, because deletes name it."""
    return [name for name in schema.columns.names if name in schema.shown or name in schema.primary_key]


def schema_json(schema: Schema) -> dict:
    """The schema in Iceberg's JSON. The primary key becomes the identifier fields, if Iceberg allows its columns there."""
    fields = [field_json(schema.columns.field(name)) for name in published(schema)]
    content = {"type": "struct", "schema-id": schema.id, "fields": fields}
    key = [schema.columns.field(name) for name in schema.primary_key]
    if key and not any(field.nullable or pa.types.is_floating(field.type) for field in key):
        content["identifier-field-ids"] = [column_types.field_id(field) for field in key]
    return content


def spec_json(spec: PartitionSpec) -> dict:
    fields = [
        {"source-id": field.source, "field-id": field.id, "name": field.name, "transform": str(field.transform)}
        for field in spec.fields
    ]
    return {"spec-id": spec.id, "fields": fields}


def sort_fields(schema: Schema) -> list[dict]:
    """The sort order of the rows in a data file."""
    ids = schema.field_ids()
    return [
        {"transform": "identity", "source-id": ids[name], "direction": "asc", "null-order": "nulls-first"} for name in schema.key
    ]


def check_promotions(written: Schema, read: Schema, where: str) -> None:
    """Raises InvalidSchema if Iceberg cannot read files of one schema under the other, because a column was widened."""
    old = {column_types.field_id(field): field.type for field in written.columns}
    for field in read.columns:
        before = old.get(column_types.field_id(field), field.type)
        if not promotes(before, field.type):
            raise InvalidSchema(
                "Iceberg does not widen a column in this way",
                where=f"{where}, column {field.name!r}",
                expected="a wider integer, DOUBLE from FLOAT, or a DECIMAL with more digits before the point",
                found=f"files with {format_type(column_types.plain(before))}, now {format_type(column_types.plain(field.type))}",
                cure="overwrite the table with its own rows, which rewrites its files",
            )


def promotes(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether Iceberg reads values of the type `old` as values of the type `new`. Nested types have field ids."""
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        new_by_id = {column_types.field_id(field): field.type for field in column_types.inner_fields(new)}
        return all(
            promotes(field.type, new_by_id.get(column_types.field_id(field), field.type))
            for field in column_types.inner_fields(old)
        )
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return old.scale == new.scale and old.precision <= new.precision
    names = column_type(old).iceberg, column_type(new).iceberg
    return names[0] == names[1] or names in _PROMOTIONS


# -- single values ----------------------------------------------------------------------------------------------------


_EXACT = Context(prec=60)


def unscaled(value: Decimal) -> int:
    """The digits of a decimal, as an integer."""
    return int(value.scaleb(-value.as_tuple().exponent, _EXACT))


def binary(value: object, type_: pa.DataType) -> bytes:
    """The encoding of a bound. `value`: as manifests of lsmlake hold it."""
    if pa.types.is_decimal(type_):
        number = unscaled(value.quantize(Decimal((0, (1,), -type_.scale)), context=_EXACT))
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
    if (form := column_type(type_).bound) is not None:
        return struct.pack(form, number_of(value))
    return value.encode() if isinstance(value, str) else value


def default_json(value: pa.Scalar) -> object:
    """The JSON value of a default."""
    type_ = value.type
    if not value.is_valid:
        return None
    if (row := column_type(type_)) is not None and row.iso is not None:
        return iso_text(value)
    return value.as_py() if pa.types.is_floating(type_) else encoded(value)
