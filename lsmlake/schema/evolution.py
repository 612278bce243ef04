"""Relates two schemas of one table: reads a version with the columns of another one, and says whether written rows still fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from lsmlake.options.renaming import Renaming, columns_in, renamed
from lsmlake.schema.defaults import INITIAL, default_of, with_default
from lsmlake.schema.schema import RESERVED, Schema
from lsmlake.types.column_types import FIELD_ID, field_id, inner_fields, widens_text, with_inner_fields
from lsmlake.types.type_text import format_type_of
from lsmlake.types.widening import widens

UNWRITTEN = -1
"""The id of a schema that `through` returns."""


def through(schema: Schema, other: Schema) -> Schema:
    """Returns `schema` with the columns of `other`, matched by id: its options and keys name the columns as `other` does.

    So the rows of a version are merged as its own options say and have the columns of another version. A column that the options
    need and `other` lacks is kept, after the others, under a new name. No file was written under the returned schema.

    A field that `schema` lacks has an id that no file has: a file may still hold values of a field that was dropped before.

    If the rows of a key are combined, columns that `schema` lacks are null, because a default counts once for the key and not
    once for each of its rows; see `defaults_after_merge`.
    """
    if schema.columns.equals(other.columns, check_metadata=True):
        return schema
    mine = {field.name: field for field in schema.columns}
    theirs, mine_by_id = ({field_id(field): field for field in one.columns} for one in (other, schema))
    sources = {field.column for field in schema.all_partition_columns}
    used = {*schema.primary_key, *sources}.union(
        *(columns_in(name, value) for name, value in schema.options.items())
    ) & mine.keys()
    kept = {
        name: mine[name].with_name(f"{RESERVED}{field_id(mine[name])}").with_nullable(True)
        for name in schema.columns.names
        if name in used and field_id(mine[name]) not in theirs
    }

    def name_of(name: str) -> str:
        if name not in mine:  # the name of a partition field
            return name
        number = field_id(mine[name])
        return theirs[number].name if number in theirs else kept[name].name

    def inner_name_of(column: str, name: str) -> str:
        before = {field.name: field_id(field) for field in inner_fields(_innermost(mine[column].type))}
        counterpart = theirs.get(field_id(mine[column]))
        after = (
            {} if counterpart is None else {field_id(field): field.name for field in inner_fields(_innermost(counterpart.type))}
        )
        return after.get(before.get(name, -1), name)

    partitioning = schema.partitioning
    for name in sources:
        partitioning = partitioning.renamed(field_id(mine[name]), name, name_of(name))
    return replace(
        schema,
        id=UNWRITTEN,
        columns=pa.schema([*(_merged_as(_seen(field, mine_by_id), schema) for field in other.columns), *kept.values()]),
        highest_field_id=max(schema.highest_field_id, other.highest_field_id),
        primary_key=tuple(map(name_of, schema.primary_key)),
        partitioning=partitioning,
        options=renamed(schema.options, Renaming(name_of, inner_name_of)),
    )


def _seen(field: pa.Field, known: Mapping[int, pa.Field]) -> pa.Field:
    """Returns `field` with the ids negated, at all levels, of the fields whose ids are not in `known`."""
    old = known.get(field_id(field))
    if old is None:
        return field.with_metadata({**field.metadata, FIELD_ID: str(-field_id(field)).encode()})
    if not (inside := inner_fields(field.type)):
        return field
    inner = {field_id(one): one for one in inner_fields(old.type)}
    return field.with_type(with_inner_fields(field.type, [_seen(one, inner) for one in inside]))


def _merged_as(field: pa.Field, schema: Schema) -> pa.Field:
    return with_default(field, INITIAL, None) if _is_default_of_key(field, schema) else field


def _is_default_of_key(field: pa.Field, schema: Schema) -> bool:
    """Whether a field that `schema` lacks has a default that counts once for each key."""
    if not schema.combines_rows or field_id(field) in map(field_id, schema.columns):
        return False
    value = default_of(field, INITIAL)
    return value is not None and value.is_valid


def defaults_after_merge(schema: Schema, other: Schema) -> tuple[pa.Field, ...]:
    """Returns the columns of `other` whose default the rows of a version with `schema` get once they are merged."""
    return tuple(field for field in other.columns if _is_default_of_key(field, schema))


def _innermost(type_: pa.DataType) -> pa.DataType:
    """Returns the struct in an ARRAY or in the values of a MAP; options of the column name its fields."""
    while pa.types.is_list(type_) or pa.types.is_map(type_):
        type_ = inner_fields(type_)[-1].type
    return type_


def unfit(written: Schema, now: Schema) -> str | None:
    """Returns why rows written under the schema `written` cannot be read under `now`, a later one; None if they can."""
    if not now.append_only and written.spec_id != now.spec_id:
        return "whose keys are in other partitions"
    theirs = through(written, now).parsed_options
    ours = now.parsed_options
    if theirs.meaning != ours.meaning or theirs.changelog.producer != ours.changelog.producer:
        return "whose options give the written rows another meaning"
    before = {field_id(field): field for field in written.columns}
    for field in now.columns:
        if (old := before.get(field_id(field))) is not None:
            if not _holds(old, field) or not _holds_texts(old, field):
                return f"whose column {field.name!r} cannot hold every written value"
            continue
        value = default_of(field, INITIAL)
        if value is None or not value.is_valid:
            if not field.nullable:
                return f"whose column {field.name!r} is NOT NULL and is not in the written rows"
        elif now.combines_rows:
            return f"whose new column {field.name!r} has a default, which each of the written rows would add to its key"
    return None


def lost_column(followed: Schema, later: Schema) -> str | None:
    """Returns a text about the column that a stream with the columns of `followed` cannot read under a later schema; None if
    there is none."""
    after = {field_id(field): field for field in later.columns}
    for field in followed.columns:
        now = after.get(field_id(field))
        if now is None:
            return f"column {field.name!r} was dropped"
        if not _readable_as(now, field):
            return f"column {field.name!r} changed from {format_type_of(field)} to {format_type_of(now)}"
    return None


def wider_column(earlier: Schema, now: Schema) -> str | None:
    """Returns which column of an earlier schema may have values that `now` has no room for: a rollback brought back a narrower
    type, or a nested field that is NOT NULL. None if there is none."""
    before = {field_id(field): field for field in earlier.columns}
    for field in now.columns:
        old = before.get(field_id(field))
        if old is not None and not _holds(old.with_nullable(field.nullable), field):
            return f"column {old.name!r} was {format_type_of(old)}"
    return None


def _readable_as(later: pa.Field, wanted: pa.Field) -> bool:
    """Whether a reader of `wanted` can read every value of `later`, a later version of the field."""
    theirs = {field_id(field): field for field in inner_fields(later.type)}
    ours = inner_fields(wanted.type)
    if not ours:
        return widens(later.type, wanted.type)
    return all(field_id(field) in theirs and _readable_as(theirs[field_id(field)], field) for field in ours)


def _holds(old: pa.Field, new: pa.Field) -> bool:
    """Whether every value of a field is a value of the same field in another schema."""
    if old.nullable and not new.nullable:
        return False
    theirs = {field_id(field): field for field in inner_fields(old.type)}
    if not theirs:
        return widens(old.type, new.type)
    return all(_holds(theirs[number], field) for field in inner_fields(new.type) if (number := field_id(field)) in theirs)


def _holds_texts(old: pa.Field, new: pa.Field) -> bool:
    """Whether every text of a field, or inside of it, has a length that the same field in another schema allows."""
    theirs = {field_id(field): field for field in inner_fields(old.type)}
    inside = (field for field in inner_fields(new.type) if field_id(field) in theirs)
    return widens_text(old, new) and all(_holds_texts(theirs[field_id(field)], field) for field in inside)
