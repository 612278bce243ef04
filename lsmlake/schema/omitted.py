"""Columns that written data may omit: columns with a default. Every column that was added to the table later has a default.

An omitted column has its write default. Under a merge rule that combines rows it is null, which leaves the value of the key as it
is. The same holds for the fields of a struct.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lsmlake.kernels import nested
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.types.column_types import plain

Omitted = Callable[[pa.Field, int], pa.Array]
"""Returns the values of an omitted field for a number of rows."""


def may_be_omitted(field: pa.Field) -> bool:
    """Whether the field has a write default. The default null does not count for a NOT NULL field."""
    value = default_of(field, WRITE)
    return value is not None and (field.nullable or value.is_valid)


def with_default(field: pa.Field, rows: int) -> pa.Array:
    """Returns the write default of a field, or nulls if it has none."""
    value = default_of(field, WRITE)
    return as_null(field, rows) if value is None else pa.repeat(value, rows)


def as_null(field: pa.Field, rows: int) -> pa.Array:
    return nested.nulls(rows, nested.nullable(plain(field.type)))


def completed(array: pa.Array, wanted: pa.DataType, omitted: Omitted) -> pa.Array:
    """Returns `array` with the omitted fields of its structs, after the others.

    Args:
        array: The data of a column.
        wanted: The type of the column, with the metadata of its fields.
        omitted: Makes the values of a field.
    """
    given, t = array.type, pa.types
    if not _lacks(given, wanted):
        return array
    if t.is_struct(wanted):
        places = {field.name: place for place, field in enumerate(given)}
        missing = [field for field in wanted if field.name not in places]
        types = {field.name: field.type for field in wanted}
        inner = zip(given, array.flatten(), strict=True)
        made = [completed(values, types[field.name], omitted) if field.name in types else values for field, values in inner]
        made += [omitted(field, len(array)) for field in missing]
        names = [*places, *(field.name for field in missing)]
        fields = [pa.field(name, values.type) for name, values in zip(names, made, strict=True)]
        return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null())
    if t.is_map(wanted):
        lengths, keys, items = nested.map_parts(array)
        items = completed(items, wanted.item_type, omitted)
        type_ = pa.map_(keys.type, items.type)
        return pa.MapArray.from_arrays(nested.offsets(lengths), keys, items, type=type_, mask=array.is_null())
    lengths, values = nested.list_parts(array)
    values = completed(values, wanted.value_type, omitted)
    return pa.ListArray.from_arrays(nested.offsets(lengths), values, mask=array.is_null())


def _lacks(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a struct in the type `given` lacks a field that may be omitted."""
    t = pa.types
    if t.is_struct(wanted) and t.is_struct(given):
        inside = {field.name: field.type for field in given}
        return any(_lacks(inside[field.name], field.type) if field.name in inside else may_be_omitted(field) for field in wanted)
    if t.is_map(wanted) and t.is_map(given):
        return _lacks(given.item_type, wanted.item_type)
    is_list = t.is_list(given) or t.is_large_list(given) or t.is_fixed_size_list(given)
    return t.is_list(wanted) and is_list and _lacks(given.value_type, wanted.value_type)
