"""Alterations of what a column is: its type, its comment, whether it may be null, and its default."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lsmlake.errors import InvalidSchema, Wording
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.alterations.draft import Draft
from lsmlake.schema.alterations.given_type import field_of
from lsmlake.schema.defaults import INITIAL, WRITE, default_of, scalar_of, with_default
from lsmlake.schema.fields import Path, shown
from lsmlake.types import types
from lsmlake.types.type_text import format_type_of
from lsmlake.types.types import widens_text
from lsmlake.types.widening import widens

_RETYPE = "add a column of the new type, copy the values by an upsert, and drop this one"


@dataclass(frozen=True)
class ChangeType(Alteration):
    path: Path
    type: object

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        old = place.field
        given = field_of(old.name, self.type, draft.where)
        if not given.nullable:
            raise InvalidSchema(
                "the new type of a column is NOT NULL",
                where=place.where,
                expected="a type alone",
                found=self.type,
                cure=Wording(
                    "add set_not_null() as another alteration",
                    command=f"add --not-null {shown(self.path)}",
                    sql="write ALTER COLUMN ... SET NOT NULL",
                ),
            )
        given = types.canonical_schema(pa.schema([given])).field(0)
        new = given.type
        if format_type_of(old) == format_type_of(given):
            return draft
        if types.plain(old.type) == types.plain(new) and _widens_texts(old, given):
            return place.altered(lambda one: types.with_lengths_of(one, given))
        if place.role or place.in_map_key:
            raise InvalidSchema(
                f"the type of a {place.role or 'map key'} column cannot change",
                where=place.where,
                expected=format_type_of(old),
                found=format_type_of(given),
                cure="create a table with the new type and upsert the rows of this one into it"
                + (": rows are placed by a hash of the value, which depends on its type" if place.role else ""),
            )
        if pa.types.is_nested(old.type) or pa.types.is_nested(new) or old.type == new or not widens(old.type, new):
            raise InvalidSchema(
                "the type cannot change without a possible loss",
                where=place.where,
                expected=f"a type that holds every value of {format_type_of(old)} and that Parquet readers convert to",
                found=format_type_of(given),
                cure="alter the fields inside, by their paths" if pa.types.is_nested(old.type) else _RETYPE,
            )
        return place.altered(lambda one: _retyped(one, new))


@dataclass(frozen=True)
class SetComment(Alteration):
    path: Path
    comment: str | None

    def apply(self, draft: Draft) -> Draft:
        def commented(one: pa.Field) -> pa.Field:
            rest = {key: value for key, value in one.metadata.items() if key != types.COMMENT}
            return one.with_metadata(rest if not self.comment else {**rest, types.COMMENT: self.comment.encode()})

        return draft.place(self.path).altered(commented)


@dataclass(frozen=True)
class SetNullable(Alteration):
    path: Path
    nullable: bool

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        if self.nullable and (place.in_map_key or (place.is_column and place.field.name in draft.primary_key)):
            raise InvalidSchema("a key cannot be null", where=place.where, cure="leave it NOT NULL")
        if not self.nullable and not place.is_column:
            raise InvalidSchema(
                "a nested field cannot become NOT NULL",
                where=place.where,
                expected="a whole column: statistics of nested fields, which prove that there is no null, do not exist",
                cure="leave it nullable",
            )
        return place.altered(lambda one: one.with_nullable(self.nullable))


@dataclass(frozen=True)
class SetDefault(Alteration):
    """`value`: of rows that are written without the column from now on. `dropped`: there is no default."""

    path: Path
    value: object
    dropped: bool = False

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        if place.role and not self.dropped:
            raise InvalidSchema(f"a {place.role} column cannot have a default", where=draft.where, found=shown(self.path))
        place.check_member("a default")
        value = None if self.dropped else scalar_of(self.value, place.field, draft.where)
        if value is not None and not value.is_valid and not place.field.nullable:
            raise InvalidSchema("null is no default of a NOT NULL column", where=draft.where, found=shown(self.path))
        return place.altered(lambda one: with_default(one, WRITE, value))


def _widens_texts(old: pa.Field, new: pa.Field) -> bool:
    """Whether all texts in values of `old` are texts of `new`, of equal types but for lengths."""
    inside = zip(types.inner_fields(old.type), types.inner_fields(new.type), strict=True)
    return widens_text(old, new) and all(_widens_texts(*both) for both in inside)


def _retyped(one: pa.Field, new: pa.DataType) -> pa.Field:
    made = one.with_type(new)
    for which in (INITIAL, WRITE):
        if (value := default_of(one, which)) is not None:
            made = with_default(made, which, value.cast(new))
    return made
