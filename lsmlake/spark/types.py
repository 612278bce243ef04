"""Converts between Spark and Arrow types. PySpark's own mapping is not public and changes between releases."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from lsmlake.errors import InvalidSchema
from lsmlake.schema.types import COMMENT

_PAIRS = (
    (st.BooleanType, pa.bool_()),
    (st.ByteType, pa.int8()),
    (st.ShortType, pa.int16()),
    (st.IntegerType, pa.int32()),
    (st.LongType, pa.int64()),
    (st.FloatType, pa.float32()),
    (st.DoubleType, pa.float64()),
    (st.StringType, pa.string()),
    (st.BinaryType, pa.binary()),
    (st.DateType, pa.date32()),
    (st.TimestampType, pa.timestamp("us", "UTC")),
    (st.TimestampNTZType, pa.timestamp("us")),
)
_TO_ARROW = {**dict(_PAIRS), st.NullType: pa.null()}
_TO_SPARK = {arrow: spark for spark, arrow in _PAIRS}


def to_arrow(schema: st.StructType) -> pa.Schema:
    """Converts a Spark schema. Raises InvalidSchema for an unsupported type."""
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def to_spark(schema: pa.Schema) -> st.StructType:
    """Converts an Arrow schema with canonical types."""
    return st.StructType([st.StructField(field.name, _spark(field.type), field.nullable) for field in schema])


def is_connect(owner: object) -> bool:
    """Whether a session or DataFrame belongs to Spark Connect."""
    return ".connect." in type(owner).__module__


def _arrow_field(field: st.StructField, column: str) -> pa.Field:
    comment = (field.metadata or {}).get("comment")
    metadata = {COMMENT: comment.encode()} if comment else None
    return _field(field.name, _arrow(field.dataType, column), field.nullable).with_metadata(metadata)


def _field(name: str, type_: pa.DataType, nullable: bool) -> pa.Field:
    """Creates a field. Spark's `array()` has elements of type void that are not nullable, which Arrow does not allow."""
    return pa.field(name, type_, nullable or pa.types.is_null(type_))


def _arrow(type_: st.DataType, column: str) -> pa.DataType:
    if isinstance(type_, st.DecimalType) and type_.precision > 0:
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, st.StructType):
        return pa.struct([_arrow_field(field, f"{column}.{field.name}") for field in type_.fields])
    if isinstance(type_, st.ArrayType):
        return pa.list_(_field("element", _arrow(type_.elementType, f"{column}.element"), type_.containsNull))
    if isinstance(type_, st.MapType):
        key = _field("key", _arrow(type_.keyType, f"{column}.key"), False)
        return pa.map_(key, _field("value", _arrow(type_.valueType, f"{column}.value"), type_.valueContainsNull))
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
    return _TO_SPARK[type_]()
