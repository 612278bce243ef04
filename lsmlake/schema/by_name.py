"""Field ids for the columns of Parquet files that have none, by their names: the name mapping of Iceberg.

Lsmlake writes ids into its files. Files of other writers, which a table has adopted, may lack them; then the names are those in
the schema of the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmlake.types.types import FIELD_ID, field_id, has_field_id


class NamedFields(NamedTuple):
    """What a field is called in files. `id`: None for a field that is no column. `inner`: the fields inside it; those of lists
    are called `element`, those of maps `key` and `value`."""

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
    """The columns of a file, with the ids of their names; those without such a name have none."""
    return pa.schema([_identified(field, field.name, names) for field in stored])


def has_ids(stored: Iterable[pa.Field], found: Iterable[pa.Field], ids: Collection[int]) -> bool:
    """Whether the ids that fields have in a file are those that were found by name. `ids`: those of the table; a field that has
    none of them is no column."""
    return all(
        _own_id(here, ids) == _own_id(there, ids) and has_ids(_inner(here.type), _inner(there.type), ids)
        for here, there in zip(stored, found, strict=True)
    )


def _own_id(field: pa.Field, ids: Collection[int]) -> int | None:
    return field_id(field) if has_field_id(field) and field_id(field) in ids else None


def _identified(field: pa.Field, name: str, names: Sequence[NamedFields]) -> pa.Field:
    found = next((one for one in names if name in one.names), _UNKNOWN)
    metadata = {} if found.id is None else {FIELD_ID: str(found.id).encode()}
    return pa.field(field.name, _type(field.type, found.inner), field.nullable, metadata)


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
