"""Formats Arrow types and schemas in Spark's DDL. `ddl` parses it."""

from __future__ import annotations

import re

import pyarrow as pa

from lsmlake.types import column_types
from lsmlake.types.column_types import sized_text
from lsmlake.types.intervals import interval_of
from lsmlake.types.keywords import KEYWORDS

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""A name that needs no quotes, unless it is a keyword."""


def backticked(name: str) -> str:
    """Quotes a name for the SQL of Spark."""
    return "`" + name.replace("`", "``") + "`"


def format_type(kind: pa.DataType) -> str:
    """Returns the Spark name of an Arrow type, such as `MAP<STRING, DECIMAL(10,2)>`; for a non-canonical type Arrow's name."""
    if pa.types.is_list(kind):
        return f"ARRAY<{format_type_of(kind.value_field)}>"
    if pa.types.is_map(kind):
        return f"MAP<{format_type_of(kind.key_field)}, {format_type_of(kind.item_field)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(_format_field(field, ': ') for field in kind)}>"
    return column_types.type_name(kind)


def format_type_of(field: pa.Field) -> str:
    """As `format_type`, with the length of a VARCHAR(n) or CHAR(n), and the fields of an INTERVAL."""
    return str(sized_text(field) or interval_of(field) or format_type(field.type))


def format_columns(schema: pa.Schema) -> str:
    """Returns the column list that `parse_columns` parses as `schema`."""
    return ", ".join(_format_field(field, " ") for field in schema)


def _format_field(field: pa.Field, colon: str) -> str:
    plain = PLAIN_NAME.fullmatch(field.name) and field.name.upper() not in KEYWORDS
    name = field.name if plain else backticked(field.name)
    comment = (field.metadata or {}).get(column_types.COMMENT)
    words = [f"{name}{colon}{format_type_of(field)}"]
    if not field.nullable:
        words.append("NOT NULL")
    if comment is not None:
        words.append("COMMENT '" + comment.decode().replace("\\", "\\\\").replace("'", "\\'") + "'")
    return " ".join(words)
