"""What imports from Iceberg and Delta Lake have in common: the error for a type that columns do not have."""

from __future__ import annotations

from collections.abc import Mapping

from lsmlake.errors import InvalidSchema


def unknown_type(content: str | Mapping, where: str, expected: str) -> InvalidSchema:
    """The error for a type that lsmlake does not have. `where`: the table and the column."""
    return InvalidSchema(
        "a column has a type that lsmlake does not have",
        where=where,
        expected=expected,
        found=content if isinstance(content, str) else content.get("type"),
        cure="drop the column there, or store its values in another type, such as string",
    )
