"""Converts between Spark and Arrow types. PySpark's own mapping is not public and changes between releases."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from lsmlake.errors import InvalidSchema
from lsmlake.kernels import nested
from lsmlake.types.column_types import (
    CHAR,
    COMMENT,
    VARCHAR,
    SizedText,
    has_sized_text,
    inner_fields,
    plain,
    with_inner_fields,
    with_lengths,
    with_lengths_of,
    with_sized_text,
)
from lsmlake.types.type_table import TABLE, column_type
from lsmlake.types.type_text import format_type_of

LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key of a column whose type contains VARCHAR(n) or CHAR(n): the type in DDL. Spark holds the values as strings and
pads values of CHAR(n) in comparisons."""
_TO_ARROW = {**{getattr(st, row.spark): row.arrow for row in TABLE if hasattr(st, row.spark)}, st.NullType: pa.null()}


def to_arrow(schema: st.StructType) -> pa.Schema:
    """Converts a Spark schema. Raises InvalidSchema for an unsupported type."""
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def to_spark(schema: pa.Schema) -> st.StructType:
    """Converts an Arrow schema with canonical types. Keeps the lengths of texts."""
    return st.StructType([st.StructField(one.name, _spark(one.type), one.nullable, lengths(one) or None) for one in schema])


def of_tasks(schema: pa.Schema) -> pa.Schema:
    """The schema in which Spark takes rows of `schema` from tasks."""
    return pa.schema([field.with_type(_of_tasks(field.type)) for field in schema])


def _of_tasks(type_: pa.DataType) -> pa.DataType:
    if inner := inner_fields(type_):
        return with_inner_fields(type_, [field.with_type(_of_tasks(field.type)) for field in inner])
    row = column_type(type_)
    return type_ if row is None or row.task is None else row.task


def lengths(field: pa.Field) -> dict[str, str]:
    """The metadata of a column with the lengths of its texts."""
    return {LENGTHS: format_type_of(with_lengths(field))} if has_sized_text(field) else {}


def is_connect(owner: object) -> bool:
    """Whether a session or DataFrame belongs to Spark Connect."""
    return ".connect." in type(owner).__module__


def _arrow_field(field: st.StructField, column: str) -> pa.Field:
    metadata = field.metadata or {}
    made = _declared(metadata[LENGTHS], field, column) if LENGTHS in metadata else None
    made = made or _field(field.name, field.dataType, field.nullable, column)
    if comment := metadata.get("comment"):
        return made.with_metadata({**(made.metadata or {}), COMMENT: comment.encode()})
    return made


def _declared(words: str, field: st.StructField, column: str) -> pa.Field | None:
    """A field with the text lengths that `words`, its metadata, declare; None if they declare another type."""
    from lsmlake.types.ddl import parse_columns  # loads sqlglot

    try:
        declared = parse_columns(f"c {words}").field(0)
    except InvalidSchema:  # Spark writes names without quotes
        return None
    made = _field(field.name, field.dataType, field.nullable, column)
    return with_lengths_of(made, declared) if plain(nested.nullable(declared.type)) == plain(nested.nullable(made.type)) else None


def _field(name: str, type_: st.DataType, nullable: bool, column: str) -> pa.Field:
    """Creates a field. Spark's `array()` has elements of type void that are not nullable, which Arrow does not allow."""
    if isinstance(type_, (st.VarcharType, st.CharType)):
        text = SizedText(VARCHAR if isinstance(type_, st.VarcharType) else CHAR, type_.length)
        return with_sized_text(pa.field(name, pa.string(), nullable), text)
    made = _arrow(type_, column)
    return pa.field(name, made, nullable or pa.types.is_null(made))


def _arrow(type_: st.DataType, column: str) -> pa.DataType:
    if isinstance(type_, st.DecimalType) and type_.precision > 0:
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, st.StructType):
        return pa.struct([_arrow_field(field, f"{column}.{field.name}") for field in type_.fields])
    if isinstance(type_, st.ArrayType):
        return pa.list_(_field("element", type_.elementType, type_.containsNull, f"{column}.element"))
    if isinstance(type_, st.MapType):
        key = _field("key", type_.keyType, False, f"{column}.key")
        return pa.map_(key, _field("value", type_.valueType, type_.valueContainsNull, f"{column}.value"))
    if type(type_) in _TO_ARROW:
        return _TO_ARROW[type(type_)]
    raise InvalidSchema(
        "unsupported column type", where=f"column {column!r}", found=type_.simpleString(), cure="cast the column first"
    )


def _spark(type_: pa.DataType) -> st.DataType:
    if pa.types.is_decimal(type_):
        return st.DecimalType(type_.precision, type_.scale)
    if pa.types.is_struct(type_):
        return st.StructType([st.StructField(f.name, _spark(f.type), f.nullable) for f in type_])
    if pa.types.is_map(type_):
        return st.MapType(_spark(type_.key_type), _spark(type_.item_type), type_.item_field.nullable)
    if pa.types.is_list(type_):
        return st.ArrayType(_spark(type_.value_type), type_.value_field.nullable)
    row = column_type(type_)
    if not hasattr(st, row.spark):
        cure = f"use a release of PySpark that has {row.spark}, or read the table without Spark"
        raise InvalidSchema("this release of Spark lacks a column type", found=row.name, cure=cure)
    return getattr(st, row.spark)()
