"""The types of columns as other systems declare them in events: Kafka Connect and Avro (Debezium), MySQL (Canal) and AWS DMS.

A declared type becomes the column type that holds all of its values as `cdc.event_values` decodes them. What has no counterpart
becomes STRING, with the text of the value: numbers of any scale, objects, and times of day that may exceed a day. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from lsmlake.cdc.event_values import row_fields
from lsmlake.kernels.avro_columns import AvroReader, fields_of
from lsmlake.types.type_table import DECIMAL_DIGITS_MAX

_TEXT, _BYTES, _DATE, _CLOCK = pa.string(), pa.binary(), pa.date32(), pa.time64("us")
_MOMENT, _LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_UNSIGNED = {
    pa.int8(): pa.int16(),
    pa.int16(): pa.int32(),
    pa.int32(): pa.int64(),
    pa.int64(): pa.decimal128(20, 0),
}
_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
_DECIMAL = f"{_CONNECT}Decimal"
_NAMED: Mapping[str, pa.DataType] = {
    **dict.fromkeys((f"{_CONNECT}Date", f"{_DEBEZIUM}time.Date", f"{_DEBEZIUM}time.IsoDate"), _DATE),
    **dict.fromkeys((f"{_DEBEZIUM}time.{unit}Time" for unit in ("", "Micro", "Nano", "Iso")), _CLOCK),
    f"{_CONNECT}Time": _CLOCK,
    **dict.fromkeys((f"{_DEBEZIUM}time.{unit}Timestamp" for unit in ("", "Micro", "Nano", "Iso")), _LOCAL),
    f"{_CONNECT}Timestamp": _LOCAL,
    f"{_DEBEZIUM}time.ZonedTimestamp": _MOMENT,
    f"{_DEBEZIUM}data.VariableScaleDecimal": _TEXT,
}
"""The name of a type of Kafka Connect -> the column type; the `type` says that of others."""
_PLAIN: Mapping[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    **dict.fromkeys(("int32", "int"), pa.int32()),
    **dict.fromkeys(("int64", "long"), pa.int64()),
    **dict.fromkeys(("float", "float32"), pa.float32()),
    **dict.fromkeys(("double", "float64"), pa.float64()),
    "boolean": pa.bool_(),
    **dict.fromkeys(("bytes", "fixed"), _BYTES),
}
"""A plain type of Kafka Connect or Avro -> the column type; others are STRING."""


def _decimal(precision: object, scale: object) -> pa.DataType:
    """DECIMAL, or STRING if no column has so many digits."""
    digits, after = int(precision or DECIMAL_DIGITS_MAX), int(scale or 0)
    return pa.decimal128(digits, after) if 0 <= after <= digits <= DECIMAL_DIGITS_MAX else _TEXT


# -- Kafka Connect ----------------------------------------------------------------------------------------------------


def of_connect(text: str) -> dict[str, pa.DataType]:
    """The columns of the field `schema` of an event of Debezium. Raises ValueError for text that is no JSON."""
    return {one["field"]: _of_field(one) for one in row_fields(json.loads(text)) if "field" in one}


def _of_field(one: Mapping[str, object]) -> pa.DataType:
    name, kind = one.get("name"), one.get("type")
    if name == _DECIMAL:
        said = one.get("parameters") or {}
        return _decimal(said.get("connect.decimal.precision"), said.get("scale"))
    if kind == "array":
        return _array(one.get("items"))
    return _NAMED.get(name) or _PLAIN.get(kind, _TEXT)


def _array(items: object) -> pa.DataType:
    """A list of values that are not nested; the text of other lists."""
    nested = not isinstance(items, dict) or (items.get("type") in ("array", "map", "struct") and items.get("name") not in _NAMED)
    return _TEXT if nested else pa.list_(_of_field(items))


# -- Avro -------------------------------------------------------------------------------------------------------------

_LOGICAL: Mapping[str, pa.DataType] = {
    "date": _DATE,
    **{f"time-{unit}": _CLOCK for unit in ("millis", "micros", "nanos")},
    **{f"timestamp-{unit}": _MOMENT for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": _LOCAL for unit in ("millis", "micros", "nanos")},
}


def of_avro(reader: AvroReader) -> dict[str, pa.DataType]:
    """The columns of the record `after` of a schema of messages of Debezium."""
    return {one["name"]: _of_node(one["type"], reader) for one in fields_of(reader, "after")}


def _of_node(node: object, reader: AvroReader) -> pa.DataType:
    found = reader.resolved(node)
    if isinstance(found, list):
        return next((_of_node(one, reader) for one in found if reader.resolved(one) != "null"), _TEXT)
    if not isinstance(found, dict):
        return _PLAIN.get(found, _TEXT)
    if found.get("logicalType") == "decimal":
        return _decimal(found.get("precision"), found.get("scale"))
    if found["type"] == "array":
        return pa.list_(_of_node(found["items"], reader))
    if named := _NAMED.get(found.get("connect.name") or found.get("name")):
        return named
    if found["type"] == "record":
        return pa.struct([(one["name"], _of_node(one["type"], reader)) for one in found["fields"]])
    return _LOGICAL.get(found.get("logicalType")) or _PLAIN.get(found.get("connect.type", found["type"]), _TEXT)


# -- MySQL ------------------------------------------------------------------------------------------------------------

_MYSQL_TYPE = re.compile(r"\s*([a-z]+(?:\s+precision)?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?(.*)", re.IGNORECASE)
_OF_MYSQL: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    **dict.fromkeys(("mediumint", "int", "integer", "year"), pa.int32()),
    "bigint": pa.int64(),
    **dict.fromkeys(("bool", "boolean"), pa.int8()),
    "float": pa.float32(),
    **dict.fromkeys(("double", "double precision", "real"), pa.float64()),
    "date": _DATE,
    "datetime": _LOCAL,
    "timestamp": _MOMENT,
    **dict.fromkeys(("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"), _BYTES),
}


def of_mysql(text: str) -> dict[str, pa.DataType]:
    """The columns of the field `mysqlType` of an event of Canal: {"id": "bigint(20) unsigned"}. Raises ValueError."""
    return {name: _mysql_type(str(given)) for name, given in json.loads(text).items()}


def _mysql_type(text: str) -> pa.DataType:
    match = _MYSQL_TYPE.fullmatch(text)
    name = "" if match is None else " ".join(match[1].lower().split())
    if name in ("decimal", "numeric", "dec", "fixed"):
        return _decimal(match[2] or 10, match[3])
    found = _OF_MYSQL.get(name, _TEXT)
    return _UNSIGNED.get(found, found) if match is not None and "unsigned" in match[4].lower() else found


# -- AWS DMS ----------------------------------------------------------------------------------------------------------

_OF_DMS: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    **{f"INT{bits}": type_ for bits, type_ in zip((8, 16, 32, 64), _UNSIGNED, strict=True)},
    **{f"UINT{bits}": type_ for bits, type_ in zip((8, 16, 32, 64), _UNSIGNED.values(), strict=True)},
    "REAL4": pa.float32(),
    "REAL8": pa.float64(),
    "DATE": _DATE,
    "TIME": _CLOCK,
    "DATETIME": _LOCAL,
    **dict.fromkeys(("BYTES", "BLOB"), _BYTES),
}


def of_dms(text: str) -> dict[str, pa.DataType]:
    """The columns of a control record of DMS: {"id": {"type": "INT32"}}. Raises ValueError."""
    return {name: _dms_type(given) for name, given in json.loads(text).items()}


def _dms_type(given: object) -> pa.DataType:
    said = given if isinstance(given, dict) else {"type": given}
    if (kind := str(said.get("type")).upper()) == "NUMERIC":
        return _decimal(said.get("precision"), said.get("scale"))
    return _OF_DMS.get(kind, _TEXT)


READERS: Mapping[str, Callable[[str], dict[str, pa.DataType]]] = {
    "debezium-json": of_connect,
    "canal-json": of_mysql,
    "aws-dms": of_dms,
}
"""Format -> reads its declared types. Each raises ValueError, TypeError or AttributeError for text of another shape."""


def key_names(text: str, format_has_list: bool) -> tuple[str, ...]:
    """The names of key columns: a list in JSON, or names that are joined by line ends. Raises ValueError."""
    names: Iterable[object] = json.loads(text) if format_has_list else text.split("\n")
    return tuple(str(one) for one in names if one)
