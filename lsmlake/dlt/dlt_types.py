"""The types of dlt as column types of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from dlt.common.destination.capabilities import DestinationCapabilitiesContext
from dlt.common.exceptions import TerminalValueError
from dlt.common.libs.pyarrow import py_arrow_to_table_schema_columns
from dlt.common.schema import TTableSchemaColumns
from dlt.destinations.type_mapping import TypeMapperImpl

from lsmlake.types.type_text import format_type

PRECISION_MAX = 38
_FIXED = {
    "text": pa.string(),
    "json": pa.string(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
}


class TableTypes(TypeMapperImpl):
    """Maps dlt's types to those of tables. An integer is a BIGINT and a text a STRING; loads check the precision."""

    def to_destination_type(self, column: Mapping[str, Any], table: object = None) -> str:
        """The type as text. Raises TerminalValueError for one that no column can have."""
        return format_type(arrow_type(column, self.capabilities))

    def ensure_supported_type(self, column: Mapping[str, Any], table: object, loader_file_format: str) -> None:
        """Raises TerminalValueError for a type that no column can have."""
        arrow_type(column, self.capabilities)


def dlt_columns(schema: pa.Schema, capabilities: DestinationCapabilitiesContext) -> TTableSchemaColumns:
    """The columns of a table as columns of dlt. A STRING is a text, also if dlt wrote JSON to it."""
    columns = py_arrow_to_table_schema_columns(schema)
    for column in columns.values():
        if (column.get("precision"), column.get("scale")) == capabilities.wei_precision:
            column["data_type"] = "wei"
    return columns


def arrow_type(column: Mapping[str, Any], capabilities: DestinationCapabilitiesContext) -> pa.DataType:
    """The type of the column of a table for a column of dlt. Raises TerminalValueError if there is none."""
    kind, precision = column["data_type"], column.get("precision")
    if kind == "timestamp":
        return pa.timestamp("us", "UTC" if column.get("timezone", True) else None)
    if kind == "bigint" and (precision or 0) > 64:
        raise TerminalValueError(f"column {column['name']}: an integer of {precision} bits does not fit a BIGINT")
    if kind not in ("decimal", "wei"):
        return _FIXED[kind]
    default, default_scale = capabilities.decimal_precision if kind == "decimal" else capabilities.wei_precision
    digits = default if precision is None else precision
    scale = column.get("scale")
    places = default_scale if scale is None else scale
    if not (0 < digits <= PRECISION_MAX and 0 <= places <= digits):
        raise TerminalValueError(f"column {column['name']}: DECIMAL({digits}, {places}) has more than {PRECISION_MAX} digits")
    return pa.decimal128(digits, places)
