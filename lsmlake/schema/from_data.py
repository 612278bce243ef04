"""Derives the columns of a table from data: each type becomes the column type that holds all of its values."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.kernels import nested
from lsmlake.types import column_types
from lsmlake.types.column_types import sized_text, with_sized_text

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def schema_from(data: pa.Schema) -> pa.Schema:
    """Returns the columns of a table for data with the schema `data`, all nullable. VARCHAR(n) and CHAR(n) keep their lengths.

    Nanoseconds become microseconds, dictionaries are decoded, unsigned integers become the next wider signed type. Raises
    InvalidSchema naming the column for an unsupported type.
    """
    return pa.schema([with_sized_text(pa.field(field.name, _column_type(field)), sized_text(field)) for field in data])


def _column_type(field: pa.Field) -> pa.DataType:
    if pa.types.is_null(field.type):
        raise InvalidSchema(
            "the type of a column without values is unknown",
            where=f"column {field.name!r}",
            expected="at least one value that is not null in the first batch",
            cure="drop the column, give it a type, or create the table with a schema",
        )
    return nested.nullable(column_types.canonical(_widened(field.type), field.name))


def _widened(type_: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_dictionary(type_):
        return _widened(type_.value_type)
    if t.is_struct(type_):
        return pa.struct([field.with_type(_widened(field.type)) for field in type_])
    if t.is_map(type_):
        return pa.map_(*(field.with_type(_widened(field.type)) for field in (type_.key_field, type_.item_field)))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_widened(type_.value_type)))
    return _WIDER.get(type_, type_)
