"""Reads files of older schemas with Catalyst: the columns to request from a file, and SQL that makes the table's columns of them.

Spark matches Parquet columns by name (by field id only if a setting of the session says so), and its reader widens types and
fills columns that a file lacks with null. So most altered tables need one scan. Files whose columns have other names, or lack one
with a default, are scanned by the names that they have.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

import pyarrow as pa

from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.schema import Schema
from lsmlake.types.type_text import backticked, format_type
from lsmlake.types.types import field_id, inner_fields, plain


class EvolvedRead(NamedTuple):
    """`columns`: what Spark reads, nullable. `select`: one expression per column of the table, in its order; None: the columns
    are those of the table."""

    columns: pa.Schema
    select: tuple[str, ...] | None = None


def reading(stored: Schema, wanted: Schema) -> EvolvedRead:
    """Returns how to read files that were written under the schema `stored` as rows of the schema `wanted`."""
    ours = {field_id(field): field for field in stored.columns}
    if all(_is_natural(ours.get(field_id(field)), field, stored.columns) for field in wanted.columns):
        return EvolvedRead(wanted.row_columns)
    read, select = [], []
    for field in wanted.columns:
        old = ours.get(field_id(field))
        if old is None:
            made = _constant(field)
        elif _is_natural_type(old.type, field.type):
            read.append(pa.field(old.name, plain(field.type)))
            made = backticked(old.name)
        else:
            read.append(pa.field(old.name, plain(old.type)))
            made = _converted(backticked(old.name), old.type, field.type)
        select.append(f"{made} as {backticked(field.name)}")
    return EvolvedRead(pa.schema(read), tuple(select))


def _is_natural(old: pa.Field | None, new: pa.Field, siblings) -> bool:
    """Whether Spark's reader, which goes by names, reads `old` as `new`; None: fills `new` with null."""
    if old is not None:
        return old.name == new.name and _is_natural_type(old.type, new.type)
    default = default_of(new, INITIAL)
    hidden = any(one.name.lower() == new.name.lower() for one in siblings)
    return not hidden and (default is None or not default.is_valid)


def _is_natural_type(old: pa.DataType, new: pa.DataType) -> bool:
    inside = inner_fields(new)
    if not pa.types.is_struct(new):  # the fields of lists and maps have fixed names
        return all(_is_natural_type(a.type, b.type) for a, b in zip(inner_fields(old), inside, strict=True))
    ours = {field_id(field): field for field in inner_fields(old)}
    some = any(field_id(field) in ours for field in inside)  # else Spark cannot tell a null struct from one of nulls
    return some and all(_is_natural(ours.get(field_id(field)), field, inner_fields(old)) for field in inside)


def _converted(value: str, old: pa.DataType, new: pa.DataType, depth: int = 0) -> str:
    """Returns SQL that converts `value`, of the type `old`, to `new`."""
    if not inner_fields(new):
        return value if old == new else f"cast({value} as {format_type(new)})"
    if pa.types.is_struct(new):
        ours = {field_id(field): field for field in inner_fields(old)}
        parts = []
        for field in inner_fields(new):
            there = ours.get(field_id(field))
            if there is None:
                inner = _constant(field)
            else:
                inner = _converted(f"{value}.{backticked(there.name)}", there.type, field.type, depth)
            parts.append(f"{inner} as {backticked(field.name)}")
        return f"if({value} is null, null, struct({', '.join(parts)}))"
    name = f"v{depth}"
    if pa.types.is_list(new):
        return f"transform({value}, {name} -> {_converted(name, old.value_type, new.value_type, depth + 1)})"
    keys = _converted(name, old.key_type, new.key_type, depth + 1)
    items = _converted(name, old.item_type, new.item_type, depth + 1)
    return f"map_from_arrays(transform(map_keys({value}), {name} -> {keys}), transform(map_values({value}), {name} -> {items}))"


def _constant(field: pa.Field) -> str:
    """Returns SQL for the value of a column that a file lacks."""
    default, type_ = default_of(field, INITIAL), format_type(plain(field.type))
    if default is None or not default.is_valid:
        return f"cast(null as {type_})"
    value = default.as_py()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return _text(value)
    if pa.types.is_timestamp(field.type) and field.type.tz:
        return f"timestamp_micros({default.cast(pa.int64()).as_py()}L)"
    if isinstance(value, datetime.datetime):
        return f"cast('{value.isoformat(sep=' ')}' as {type_})"
    return f"cast('{value}' as {type_})"


def _text(text: str) -> str:
    """Returns a text literal that no session setting reads otherwise."""
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"
