"""Converts stored columns to columns of another schema of the table: fields are matched by id, at all levels.

A field that the file lacks has its initial default, or null. A field that the schema lacks is left out. A narrower type is
widened. Vectorised; a column that already has the wanted type is returned unchanged.

Lsmlake writes ids into its files. Adopted files of other writers may lack ids; then each field gets its id by its name, as in
Iceberg's name mapping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmlake.kernels import nested
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.types.column_types import FIELD_ID, field_id, has_field_id, inner_fields, plain


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
    """Whether two types of a column differ in the ids, names, order or types of their fields."""
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
    """Converts `column` from the type of `stored` to the plain type of `wanted`. Both fields have ids at all levels."""
    type_ = plain(wanted.type)
    made = pa.chunked_array([_adapted(chunk, stored.type, wanted.type) for chunk in column.chunks], nested.nullable(type_))
    return nested.required(made, type_, where) if nested.has_required(type_) else made


def _adapted(array: pa.Array, stored: pa.DataType, wanted: pa.DataType) -> pa.Array:
    type_, t = nested.nullable(plain(wanted)), pa.types
    if not is_evolved(stored, wanted):
        return array.cast(type_)  # Arrow matches the fields of structs by name
    if t.is_struct(wanted):
        sources = {field_id(field): (place, field.type) for place, field in enumerate(stored)}
        fields = [
            _adapted(array.field(sources[number][0]), sources[number][1], field.type)
            if (number := field_id(field)) in sources
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


# -- ids by name ------------------------------------------------------------------------------------------------------


class NamedFields(NamedTuple):
    """The names of a field in files. `id`: None if the table has no such field. `inner`: the fields inside it; the field of a
    list is called `element`, the fields of a map `key` and `value`."""

    id: int | None
    names: tuple[str, ...]
    inner: tuple[NamedFields, ...] = ()


_UNKNOWN = NamedFields(None, ())


def names_of(fields: Iterable[pa.Field]) -> tuple[NamedFields, ...]:
    """The names of the fields of a schema, which have ids."""
    return tuple(NamedFields(field_id(field), (field.name,), names_of(_inner(field.type))) for field in fields)


def lacks_ids(stored: pa.Schema) -> bool:
    """Whether no column has an id."""
    return not any(map(has_field_id, stored))


def with_ids(stored: pa.Schema, names: Sequence[NamedFields]) -> pa.Schema:
    """The columns of a file, with the ids that `names` gives them. A column whose name is not in `names` gets no id."""
    return pa.schema([_identified(field, field.name, names) for field in stored])


def has_ids(stored: Iterable[pa.Field], named: Iterable[pa.Field], ids: Collection[int]) -> bool:
    """Whether the fields of a file have the same ids as the same fields in `named`, whose ids were found by name. `ids`: the ids
    of the table; a field with another id counts as a field without one."""
    return all(
        _own_id(field, ids) == _own_id(by_name, ids) and has_ids(_inner(field.type), _inner(by_name.type), ids)
        for field, by_name in zip(stored, named, strict=True)
    )


def _own_id(field: pa.Field, ids: Collection[int]) -> int | None:
    return field_id(field) if has_field_id(field) and field_id(field) in ids else None


def _identified(field: pa.Field, name: str, names: Sequence[NamedFields]) -> pa.Field:
    known = next((one for one in names if name in one.names), _UNKNOWN)
    metadata = {} if known.id is None else {FIELD_ID: str(known.id).encode()}
    return pa.field(field.name, _type(field.type, known.inner), field.nullable, metadata)


def _type(type_: pa.DataType, names: Sequence[NamedFields]) -> pa.DataType:
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([_identified(field, field.name, names) for field in type_])
    if t.is_map(type_):
        return pa.map_(_identified(type_.key_field, "key", names), _identified(type_.item_field, "value", names))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(_identified(type_.value_field, "element", names))
    return type_


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
    if pa.types.is_struct(type_):
        return list(type_)
    return [type_.field(0).with_name("element")] if type_.num_fields == 1 else []
