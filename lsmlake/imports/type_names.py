"""What the JSON of Iceberg and of Delta Lake have in common: names of types."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from lsmlake.errors import InvalidSchema

COMMON = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
"""The types that both formats have under the same name."""
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def primitive(name: str, known: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """The type of this name, such as `long` or `decimal(10, 2)`; None: there is none. `known`: the types but decimals."""
    found = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(found[1]), int(found[2])) if found else known.get(name)


def unknown_type(content: str | Mapping, where: str, expected: str) -> InvalidSchema:
    """The error for a type that lsmlake does not have. `where`: the table and the column."""
    return InvalidSchema(
        "a column has a type that lsmlake does not have",
        where=where,
        expected=expected,
        found=content if isinstance(content, str) else content.get("type"),
        cure="drop the column there, or store its values in another type, such as string",
    )
