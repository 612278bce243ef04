"""The argument of `Table.get`: one primary key as a dict, or several keys as rows of key columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import pyarrow as pa

from lsmlake.border import short
from lsmlake.errors import InvalidData
from lsmlake.inputs.data import as_input
from lsmlake.schema.conform import conform
from lsmlake.schema.schema import Schema
from lsmlake.types.type_text import format_type_of

_DATA = "__iter__", "keys", "__arrow_c_stream__", "__arrow_c_array__", "scanner", "to_reader"
"""Data with rows of keys has one of these attributes; text, and objects without any of them, are single values."""


def as_keys(key: object, schema: Schema) -> pa.Table:
    """The primary key columns of `key`, in the types of the table. Raises InvalidData."""
    one = isinstance(key, Mapping)
    rows = [key] if one else key
    if isinstance(rows, (str, bytes, PurePath)) or not any(hasattr(rows, name) for name in _DATA):
        raise _refused("a key is a dict", key, schema)
    for row in rows if isinstance(rows, (list, tuple)) else ():
        _check_row(row, schema)
    try:
        tables = as_input(rows, schema.plain_columns).tables
        found = [conform(table, schema, schema.primary_key, first_row=None if one else 0) for table in tables if table.num_rows]
    except InvalidData as error:  # its cure is for upserts
        cure = _cure(schema)
        raise InvalidData(error.what, where=error.where, expected=error.expected, found=error.found, cure=cure) from error
    return pa.concat_tables(found) if found else schema.row_columns.empty_table().select(list(schema.primary_key))


def _check_row(row: object, schema: Schema) -> None:
    """Refuse a list item that is not a dict of exactly the key columns. `as_input` handles record batches and tables."""
    if hasattr(row, "__arrow_c_array__") or hasattr(row, "__arrow_c_stream__"):
        return
    if not isinstance(row, Mapping):
        raise _refused("a key is a dict", row, schema)
    missing = [name for name in schema.primary_key if name not in row]
    extra = [name for name in row if name not in schema.primary_key]
    if missing or extra:
        faults = [f"lacks the columns {missing}"] if missing else []
        faults += [f"has extra columns {extra}"] if extra else []
        raise _refused(f"the key {' and '.join(faults)}", row, schema)


def _refused(what: str, found: object, schema: Schema) -> InvalidData:
    return InvalidData(
        what, expected=f"the primary key columns {list(schema.primary_key)}", found=short(found), cure=_cure(schema)
    )


def _cure(schema: Schema) -> str:
    names = ", ".join(f"{name!r}: ..." for name in schema.primary_key)
    types = ", ".join(f"{name} {format_type_of(schema.columns.field(name))}" for name in schema.primary_key)
    return f"write {{{names}}}, or a list of such dicts; the types are {types}"
