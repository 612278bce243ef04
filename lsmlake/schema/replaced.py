"""The schema of a table that is defined anew (CREATE OR REPLACE TABLE), as the successor of the one that it has. Pure.

A column that had the same name and type is the same column, so it keeps its id. All others are new, whatever their names. Rows of
one key must stay in one place of the history, and files of before are read by their partitions: so a primary key, and the columns
of partitions, stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.schema.defaults import INITIAL, default_of, with_default
from lsmlake.schema.partitioning import FIRST_ID, PartitionField, Partitioning
from lsmlake.schema.schema import Schema
from lsmlake.types import types
from lsmlake.types.type_text import format_type, format_type_of

_CURE = "write DROP TABLE, then CREATE TABLE: the older snapshots then go with the table"


def replaced(now: Schema, wanted: Schema, number: int, time_ms: int, where: str) -> Schema:
    """The schema `wanted`, made as if for a new table, as the one after `now`. Raises InvalidSchema."""
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
    made = replace(
        wanted,
        id=number,
        table_uuid=now.table_uuid,
        columns=columns,
        highest_field_id=next(ids) - 1,
        partitioning=_partitioning(now, wanted, columns, where),
        time_ms=time_ms,
    )
    made.check(made.parsed_options, where)
    return made


def _column(field: pa.Field, now: Schema, ids: Iterator[int]) -> pa.Field:
    """A column with the ids of the one that it was, or with new ones."""
    known = next((one for one in now.columns if one.name == field.name), None)
    same = known is not None and types.plain(known.type) == types.plain(field.type)
    if not same or (pa.types.is_nested(field.type) and _inner_lengths(known) != _inner_lengths(field)):
        return types.number_fields(pa.schema([field]), ids).field(0)
    metadata = {**(field.metadata or {}), types.FIELD_ID: known.metadata[types.FIELD_ID]}
    made = pa.field(field.name, known.type, field.nullable, metadata)
    return made if (value := default_of(known, INITIAL)) is None else with_default(made, INITIAL, value)


def _inner_lengths(field: pa.Field) -> str:
    return format_type(types.with_lengths(field).type)


def _check_kept(now: Schema, columns: pa.Schema, where: str) -> None:
    there = {types.field_id(field) for field in columns}
    by_id = {types.field_id(field): field for field in now.columns}
    needed = {types.field_id(now.columns.field(name)) for name in now.primary_key}
    needed |= {field.source for field in now.partitioning.fields}
    if gone := [by_id[number] for number in sorted(needed - there)]:
        raise InvalidSchema(
            "a table that is replaced keeps the columns of its key and partitions, with their types",
            where=where,
            expected=", ".join(f"{field.name} {format_type_of(field)}" for field in gone),
            cure=_CURE,
        )


def _partitioning(now: Schema, wanted: Schema, columns: pa.Schema, where: str) -> Partitioning:
    """The partition fields of `wanted` as the current ones of the table."""
    ids = {field.name: types.field_id(field) for field in columns}
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
    made = now.partitioning.with_fields(tuple(fields))
    if now.primary_key and made.current != now.spec_id:
        raise InvalidSchema(
            "a table with a primary key that is replaced keeps its partitions",
            where=where,
            expected=f"PARTITIONED BY ({', '.join(now.partition_by)})" if now.partition_by else "no partitions",
            found=", ".join(wanted.partition_by) or "none",
            cure=_CURE,
        )
    return made
