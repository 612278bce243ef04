"""Nested columns: those with required (NOT NULL) fields inside, and the leaves of a schema.

In Arrow the fields of a null struct may hold any value, including null. Parquet and Arrow's own casts take such hidden nulls for
nulls in a required field. So hidden values are replaced before the inner fields become required:

1. `nullable` returns the type with all inner fields nullable; any suitable data can be cast to it.
2. `required` refuses visible nulls and replaces hidden ones by empty values, level by level.

Leaves are the physical columns of a schema in Parquet, in file order. They are addressed by position and columns by field id,
never by a dotted path: `a.b` may be the field b of the struct a, or a column named `a.b`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData


def has_required(type_: pa.DataType) -> bool:
    """Whether a canonical type has a required inner field other than map keys."""
    return nullable(type_) != type_


def nullable(type_: pa.DataType) -> pa.DataType:
    """Returns a canonical type with all inner fields nullable except map keys."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([field.with_type(nullable(field.type)).with_nullable(True) for field in type_])
    if t.is_map(type_):
        item = type_.item_field
        return pa.map_(
            type_.key_field.with_type(nullable(type_.key_type)), item.with_type(nullable(item.type)).with_nullable(True)
        )
    if t.is_list(type_):
        return pa.list_(type_.value_field.with_type(nullable(type_.value_type)).with_nullable(True))
    return type_


def nulls(count: int, type_: pa.DataType) -> pa.Array:
    """`pa.nulls`, without nulls in the fields of null structs."""
    return pa.array([None], type_).take(pa.array(np.zeros(count, np.int64)))


def required(column: pa.ChunkedArray, type_: pa.DataType, where: str) -> pa.ChunkedArray:
    """Converts `column` from `nullable(type_)` to `type_`. Raises InvalidData naming `where` for a null in a required field."""
    return pa.chunked_array([_required(chunk, type_, where).cast(type_) for chunk in column.chunks], type_)


def _required(array: pa.Array, type_: pa.DataType, where: str) -> pa.Array:
    t = pa.types
    if t.is_struct(type_):
        return _required_struct(array, type_, where)
    if not (t.is_list(type_) or t.is_map(type_)):
        return array
    if t.is_list(type_):
        lengths, values = list_parts(array)
        values = _checked(values, type_.value_field, where)
        return pa.ListArray.from_arrays(offsets(lengths), values, type=array.type, mask=array.is_null())
    lengths, keys, items = map_parts(array)
    keys, items = _checked(keys, type_.key_field, where), _checked(items, type_.item_field, where)
    return pa.MapArray.from_arrays(offsets(lengths), keys, items, type=array.type, mask=array.is_null())


def list_parts(array: pa.ListArray) -> tuple[np.ndarray, pa.Array]:
    """Returns the length of each list, 0 for a null, and the values of all lists."""
    return np.asarray(pc.fill_null(pc.list_value_length(array), 0)), array.flatten()


def map_parts(array: pa.MapArray) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Returns the length of each map, 0 for a null, and the keys and the values of all maps."""
    lengths = np.where(np.asarray(array.is_valid()), np.diff(np.asarray(array.offsets)), 0)
    present = array.filter(array.is_valid())
    start, stop = (present.offsets[0].as_py(), present.offsets[-1].as_py()) if len(present) else (0, 0)
    return lengths, present.keys[start:stop], present.items[start:stop]


def offsets(lengths: np.ndarray) -> pa.Array:
    """Returns the offsets of lists of these lengths."""
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _required_struct(array: pa.StructArray, type_: pa.StructType, where: str) -> pa.Array:
    """Converts the valid structs and replaces null structs by an empty one."""
    valid = np.asarray(array.is_valid())
    present = array.filter(array.is_valid())
    fields = [_checked(present.field(i), field, where) for i, field in enumerate(type_)]
    rebuilt = pa.StructArray.from_arrays(fields, fields=list(array.type))
    if valid.all():
        return rebuilt
    with_empty = pa.concat_arrays([rebuilt, pa.array([None], array.type)])
    return with_empty.take(pa.array(np.where(valid, np.cumsum(valid) - 1, len(rebuilt))))


def _checked(values: pa.Array, field: pa.Field, where: str) -> pa.Array:
    if not field.nullable and values.null_count:
        raise InvalidData(
            "a null in a nested NOT NULL field",
            where=f"{where}, field {field.name!r}",
            expected="a value",
            found=f"{values.null_count} nulls",
            cure="fill or drop those rows",
        )
    return _required(values, field.type, where)


# -- leaves -----------------------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A physical column. `column`: the position of its column in the schema; `nested`: it is inside a struct, list or map."""

    column: int
    type: pa.DataType
    nested: bool


def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """Returns the leaves of a schema, in file order."""
    return tuple(
        Leaf(number, type_, pa.types.is_nested(field.type))
        for number, field in enumerate(schema)
        for type_ in _leaf_types(field.type)
    )


def leaf_positions(schema: pa.Schema) -> tuple[range, ...]:
    """Returns for each column of a schema the positions of its leaves."""
    positions, start = [], 0
    for field in schema:
        stop = start + len(_leaf_types(field.type))
        positions.append(range(start, stop))
        start = stop
    return tuple(positions)


def _leaf_types(type_: pa.DataType) -> list[pa.DataType]:
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return [leaf for part in inner for leaf in _leaf_types(part)] if inner else [type_]
