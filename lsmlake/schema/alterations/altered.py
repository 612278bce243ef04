"""The next schema of a table: after a sequence of alterations, and after a replacement. Also lists the alterations that add the
columns and fields of new data which a table lacks.

In a replacement (CREATE OR REPLACE TABLE) a column with the same name and type is the same column and keeps its id. All other
columns are new, whatever their names. The primary key and the partition columns must stay: the history of each key continues, and
older files are read by their partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lsmlake.errors import InvalidOption, InvalidSchema
from lsmlake.kernels import nested
from lsmlake.schema.alterations.draft import Alteration, Draft
from lsmlake.schema.alterations.of_columns import AddColumn, needs_default
from lsmlake.schema.defaults import INITIAL, default_of, with_default
from lsmlake.schema.fields import Siblings, shown
from lsmlake.schema.partitioning import FIRST_ID, PartitionField, Partitioning
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types
from lsmlake.types.column_types import sized_text, with_sized_text
from lsmlake.types.type_text import format_type, format_type_of


def altered(schema: Schema, alterations: Sequence[Alteration], id: int, time_ms: int, where: str) -> Schema:
    """Returns the schema after `schema`, with all alterations applied in order.

    Raises:
        InvalidSchema: An alteration is impossible.
        InvalidOption: An option is unknown, or contradicts the columns or other options.
    """
    draft = Draft(
        tuple(schema.columns),
        schema.highest_field_id,
        schema.primary_key,
        schema.partitioning,
        schema.partitioning.spec.fields,
        dict(schema.options),
        schema.comment,
        where,
    )
    for each in alterations:
        if not isinstance(each, Alteration):
            raise InvalidOption(
                "not an alteration",
                where=where,
                expected="the result of lsmlake.set_option, add_column, rename_column, drop_column or the like",
                found=repr(each),
                cure="pass alterations",
            )
        draft = each.apply(draft)
    for field in draft.columns:
        if column_types.field_id(field) > schema.highest_field_id and not field.nullable and default_of(field, INITIAL) is None:
            raise needs_default(field, where)
    return replace(schema, comment=draft.comment).successor(
        pa.schema(draft.columns),
        draft.highest_field_id,
        draft.primary_key,
        draft.partitioning.with_fields(draft.fields),
        draft.options,
        id,
        time_ms,
        where,
    )


def additions(data: pa.Schema, schema: Schema, ignored: Collection[str] = ()) -> list[Alteration]:
    """Returns the alterations that add the columns and struct fields of `data` that a table lacks, nullable at all levels, in
    their order. `ignored`: columns of the data that are not stored. Raises InvalidSchema for a type that no column can have."""
    wanted = [field for field in data if field.name not in ignored]
    return list(_additions((), wanted, tuple(schema.columns)))


def _additions(parent: tuple[str, ...], fields: Sequence[pa.Field], known: Siblings) -> Iterator[Alteration]:
    by_name = {field.name.lower(): field for field in known}
    for field in fields:
        path = (*parent, field.name)
        stored = by_name.get(field.name.lower())
        if stored is None:
            type_ = nested.nullable(column_types.canonical(field.type, shown(path)))
            yield AddColumn(path, with_sized_text(pa.field(field.name, type_), sized_text(field)), None, False, None, None)
        else:
            inside = column_types.inner_fields(stored.type)
            yield from _additions((*parent, stored.name), _found_inside(field.type, stored.type, inside), inside)


def _found_inside(given: pa.DataType, stored: pa.DataType, inside: Siblings) -> list[pa.Field]:
    """Returns the fields inside a type of the data, named as in the nested type of the table; none if the data's type is of
    another kind. Parts of a type of the data can have the null type, such as the elements of lists that are all empty."""
    t = pa.types
    if t.is_struct(stored) and t.is_struct(given):
        return list(given)
    lists = t.is_list(given) or t.is_large_list(given) or t.is_fixed_size_list(given)
    if t.is_list(stored) and lists:
        return [given.value_field.with_name(inside[0].name)]
    if t.is_map(stored) and t.is_map(given):
        return [one.with_name(own.name) for one, own in zip(column_types.inner_fields(given), inside, strict=True)]
    return []


_CURE = "write DROP TABLE, then CREATE TABLE: the older snapshots then go with the table"


# -- replacements -----------------------------------------------------------------------------------------------------


def replaced(now: Schema, wanted: Schema, number: int, time_ms: int, where: str) -> Schema:
    """Returns the schema after `now` in a replacement. `wanted`: the schema as made for a new table. Raises InvalidSchema."""
    if wanted.primary_key != now.primary_key:
        raise InvalidSchema(
            "a table that is replaced keeps its primary key",
            where=where,
            expected=f"PRIMARY KEY ({', '.join(now.primary_key)})" if now.primary_key else "no primary key",
            found=", ".join(wanted.primary_key) or "none",
            cure=_CURE,
        )
    ids = itertools.count(now.highest_field_id + 1)
    columns = pa.schema([_column(field, now, ids) for field in wanted.columns])
    _check_kept(now, columns, where)
    schema = replace(
        wanted,
        id=number,
        table_uuid=now.table_uuid,
        columns=columns,
        highest_field_id=next(ids) - 1,
        partitioning=_partitioning(now, wanted, columns, where),
        time_ms=time_ms,
    )
    schema.check(schema.parsed_options, where)
    return schema


def _column(field: pa.Field, now: Schema, ids: Iterator[int]) -> pa.Field:
    """Returns a column with the ids of the same column in `now`, or with new ids."""
    known = next((one for one in now.columns if one.name == field.name), None)
    same = known is not None and column_types.plain(known.type) == column_types.plain(field.type)
    if not same or (pa.types.is_nested(field.type) and _inner_lengths(known) != _inner_lengths(field)):
        return column_types.number_fields(pa.schema([field]), ids).field(0)
    metadata = {**(field.metadata or {}), column_types.FIELD_ID: known.metadata[column_types.FIELD_ID]}
    column = pa.field(field.name, known.type, field.nullable, metadata)
    return column if (value := default_of(known, INITIAL)) is None else with_default(column, INITIAL, value)


def _inner_lengths(field: pa.Field) -> str:
    return format_type(column_types.with_lengths(field).type)


def _check_kept(now: Schema, columns: pa.Schema, where: str) -> None:
    ids = {column_types.field_id(field) for field in columns}
    by_id = {column_types.field_id(field): field for field in now.columns}
    needed = {column_types.field_id(now.columns.field(name)) for name in now.primary_key}
    needed |= {field.source for field in now.partitioning.fields}
    if gone := [by_id[number] for number in sorted(needed - ids)]:
        raise InvalidSchema(
            "a table that is replaced keeps the columns of its key and partitions, with their types",
            where=where,
            expected=", ".join(f"{field.name} {format_type_of(field)}" for field in gone),
            cure=_CURE,
        )


def _partitioning(now: Schema, wanted: Schema, columns: pa.Schema, where: str) -> Partitioning:
    """The partition fields of `wanted` as the current ones of the table."""
    ids = {field.name: column_types.field_id(field) for field in columns}
    known = now.partitioning.fields
    highest = max(now.partitioning.highest_field, *(field.id for field in known), FIRST_ID - 1)
    fields = []
    for one in wanted.partition_columns:
        source = ids[one.column]
        field = next((each for each in known if each.means(source, one.transform)), None)
        if field is None:
            highest += 1
            field = PartitionField(highest, source, one.name, one.transform)
        fields.append(field)
    partitioning = now.partitioning.with_fields(tuple(fields))
    if now.primary_key and partitioning.current != now.spec_id:
        raise InvalidSchema(
            "a table with a primary key that is replaced keeps its partitions",
            where=where,
            expected=f"PARTITIONED BY ({', '.join(now.partition_by)})" if now.partition_by else "no partitions",
            found=", ".join(wanted.partition_by) or "none",
            cure=_CURE,
        )
    return partitioning
