"""The type that a user gives for a column: text in DDL, a type or field of PyArrow, or a type of Spark."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.errors import InvalidSchema


def field_of(name: str, type_: object, where: str) -> pa.Field:
    """Returns a field of a given type: text in DDL, a type or field of PyArrow, or a type of Spark."""
    if isinstance(type_, pa.DataType):
        return pa.field(name, type_)
    if isinstance(type_, pa.Field):
        return type_.with_name(name)
    text = type_ if isinstance(type_, str) else type_.simpleString() if hasattr(type_, "simpleString") else None
    if text is None:
        raise InvalidSchema(
            "not a type", where=where, expected="the text of a type, a pyarrow.DataType or a Spark type", found=repr(type_)
        )
    from lsmlake.types import ddl  # loads sqlglot

    found = ddl.parse_columns(f"c {text}")
    if len(found) != 1:
        raise InvalidSchema("not one type", where=where, expected=ddl.TYPES, found=repr(text), cure="pass one type")
    return found.field(0).with_name(name)
