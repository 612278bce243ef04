"""Reads stored columns as columns of another schema of the table: fields are matched by id, at all levels.

A field that the file lacks has its initial default, or null; one that the schema lacks is left out; a narrower type is widened.
Vectorised; a column whose stored type is the wanted one is returned as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lsmlake.kernels import nested
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.types.types import field_id, inner_fields, plain


def constant(field: pa.Field, rows: int) -> pa.Array:
    """Returns the values of a column that a file lacks: its initial default, or null."""
    value = default_of(field, INITIAL)
    return nested.nulls(rows, nested.nullable(plain(field.type))) if value is None else pa.repeat(value, rows)


def with_constants(rows: pa.Table, fields: Iterable[pa.Field]) -> pa.Table:
    """Returns `rows` with the initial defaults of `fields` as the values of these columns."""
    for field in fields:
        place = rows.schema.get_field_index(field.name)
        rows = rows.set_column(place, rows.schema.field(place), constant(field, rows.num_rows))
    return rows


def is_evolved(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types of a column differ in their fields, by id, name or order, or in the type of one."""
    ours, theirs = inner_fields(stored), inner_fields(wanted)
    if not ours and not theirs:
        return stored != wanted
    return (
        stored.id != wanted.id
        or len(ours) != len(theirs)
        or any(
            field_id(a) != field_id(b) or (a.name != b.name and pa.types.is_struct(wanted)) or is_evolved(a.type, b.type)
            for a, b in zip(ours, theirs, strict=True)
        )
    )


def adapted(column: pa.ChunkedArray, stored: pa.Field, wanted: pa.Field, where: str) -> pa.ChunkedArray:
    """Returns `column`, of the type of `stored`, with the plain type of `wanted`; both fields have ids at all levels."""
    type_ = plain(wanted.type)
    made = pa.chunked_array([_adapted(chunk, stored.type, wanted.type) for chunk in column.chunks], nested.nullable(type_))
    return nested.required(made, type_, where) if nested.has_required(type_) else made


def _adapted(array: pa.Array, stored: pa.DataType, wanted: pa.DataType) -> pa.Array:
    type_, t = nested.nullable(plain(wanted)), pa.types
    if not is_evolved(stored, wanted):
        return array.cast(type_)  # Arrow matches the fields of structs by name
    if t.is_struct(wanted):
        there = {field_id(field): (place, field.type) for place, field in enumerate(stored)}
        fields = [
            _adapted(array.field(there[number][0]), there[number][1], field.type)
            if (number := field_id(field)) in there
            else constant(field, len(array))
            for field in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=array.is_null())
    if t.is_list(wanted):
        lengths, values = nested.list_parts(array)
        values = _adapted(values, stored.value_type, wanted.value_type)
        return pa.ListArray.from_arrays(nested.offsets(lengths), values, type=type_, mask=array.is_null())
    if t.is_map(wanted):
        lengths, keys, items = nested.map_parts(array)
        keys, items = _adapted(keys, stored.key_type, wanted.key_type), _adapted(items, stored.item_type, wanted.item_type)
        return pa.MapArray.from_arrays(nested.offsets(lengths), keys, items, type=type_, mask=array.is_null())
    return array.cast(type_)
