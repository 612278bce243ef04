"""The aggregate function of a column, with the settings that the options give it."""

from __future__ import annotations

from lsmlake.lsm.aggregate import Function, function
from lsmlake.schema.schema import Schema

LAST_NON_NULL = "last_non_null_value"


def function_for(column: str, name: str, schema: Schema, where: str) -> Function:
    """The function of that name for the column. Raises InvalidOption."""
    settings = schema.parsed_options.columns.settings(column)
    place = f"{where}, column {column!r}" if where else f"column {column!r}"
    return function(name, schema.typed_columns.field(column).with_nullable(True), settings, place)
