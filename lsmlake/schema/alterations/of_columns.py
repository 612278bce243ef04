"""Alterations of columns: add, drop, rename and move a column; change its type, its comment, its default, and whether it may be
null. Fields of structs count as columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.errors import InvalidSchema, Wording
from lsmlake.options.renaming import Renaming, columns_in, renamed
from lsmlake.schema.alterations.draft import Alteration, Draft, FieldPlace, field_of
from lsmlake.schema.defaults import INITIAL, WRITE, default_of, scalar_of, with_default
from lsmlake.schema.fields import Path, Siblings, names_of, shown
from lsmlake.types import column_types
from lsmlake.types.column_types import widens_text
from lsmlake.types.type_text import format_type, format_type_of
from lsmlake.types.widening import widens


@dataclass(frozen=True)
class AddColumn(Alteration):
    path: Path
    type: object
    after: str | None
    first: bool
    default: object
    comment: str | None

    def apply(self, draft: Draft) -> Draft:
        parent, name = _parent_of(draft, self.path)
        if parent and not pa.types.is_struct(parent.field.type):
            raise InvalidSchema(
                "only a struct can get fields",
                where=draft.where,
                expected="the path of a field in a struct, such as items.element.price",
                found=f"{shown(self.path)!r} in {format_type(parent.field.type)}",
                cure="correct the path",
            )
        given = field_of(name, self.type, draft.where)
        if self.comment is not None:
            if _comment_of(given) is not None:
                raise InvalidSchema(
                    "the type has a comment, and there is another one",
                    where=f"{draft.where}, column {shown(self.path)!r}",
                    found=[_comment_of(given), self.comment],
                    cure="leave one of them out",
                )
            given = given.with_metadata({**(given.metadata or {}), column_types.COMMENT: self.comment.encode()})
        ids = itertools.count(draft.highest_field_id + 1)
        added = _with_defaults(
            column_types.number_fields(column_types.canonical_schema(pa.schema([given])), ids).field(0), self, draft.where
        )
        draft = replace(draft, highest_field_id=next(ids) - 1)
        return draft.edited(parent.positions if parent else (), lambda siblings: self._among(siblings, added, draft.where))

    def _among(self, siblings: Siblings, added: pa.Field, where: str) -> Siblings:
        _check_free(added.name, [one.name for one in siblings], where)
        return _placed(siblings, added, self.first, self.after, where)


@dataclass(frozen=True)
class RenameColumn(Alteration):
    path: Path
    name: str

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        place.check_member("a name")
        _check_free(self.name, place.others, draft.where)
        old, column = place.field.name, None if place.is_column else place.column.name
        renaming = _renaming(column, old, self.name)
        options, swap = renamed(draft.options, renaming), renaming.columns
        if renamed(options, _renaming(column, self.name, old)) != renamed(draft.options, _renaming(column, "", "")):
            raise InvalidSchema(
                f"options cannot name a column {self.name!r}",
                where=draft.where,
                expected="a name without a comma: commas separate names in options",
                found=f"{old!r}, which an option names",
                cure="choose another name, or unset the option before",
            )
        renamed_draft = replace(
            place.altered(lambda one: one.with_name(self.name)), options=options, primary_key=tuple(map(swap, draft.primary_key))
        )
        return renamed_draft if column else renamed_draft.with_renamed_fields(column_types.field_id(place.field), old, self.name)


@dataclass(frozen=True)
class DropColumn(Alteration):
    path: Path

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        if place.parent is None:
            self._check_column(place)
        elif not pa.types.is_struct(place.parent.type) or place.parent.type.num_fields == 1:
            raise InvalidSchema(
                f"{format_type(place.parent.type)} cannot be without {place.field.name!r}",
                where=draft.where,
                found=shown(self.path),
                cure="drop the whole column",
            )
        return place.dropped()

    def _check_column(self, place: FieldPlace) -> None:
        name, options = place.field.name, place.draft.options
        if place.role:
            raise InvalidSchema(
                f"a {place.role} column cannot be dropped", where=place.draft.where, found=name, cure="create another table"
            )
        if naming := sorted(option for option, value in options.items() if name in columns_in(option, value)):
            raise InvalidSchema(
                f"an option names the column {name!r}",
                where=place.draft.where,
                found=", ".join(naming),
                cure=Wording(
                    f"unset the option before: alter(unset_option({naming[0]!r}), drop_column({name!r}))",
                    command=f"unset the option before: --unset {naming[0]}",
                    sql=f"unset the option before: ALTER TABLE ... UNSET TBLPROPERTIES ('{naming[0]}')",
                ),
            )


@dataclass(frozen=True)
class MoveColumn(Alteration):
    path: Path
    after: str | None
    first: bool

    def apply(self, draft: Draft) -> Draft:
        if self.first == (self.after is not None):
            raise InvalidSchema(
                "a moved column has one new place", where=draft.where, expected="first=True or after='name'", cure="pass one"
            )
        place = draft.place(self.path)
        place.check_member("an order")
        if self.after is not None and self.after.lower() == place.field.name.lower():
            raise InvalidSchema("a column cannot come after itself", where=draft.where, found=self.after, cure="name another one")
        return place.siblings_edited(
            lambda before, field, after: _placed((*before, *after), field, self.first, self.after, draft.where)
        )


def _comment_of(field: pa.Field) -> str | None:
    comment = (field.metadata or {}).get(column_types.COMMENT)
    return None if comment is None else comment.decode()


def _renaming(column: str | None, old: str, new: str) -> Renaming:
    """Renames a column or, if `column` is given, a field of the structs in that column."""
    if column is None:
        return Renaming(lambda one: new if one == old else one, lambda _, inner: inner)
    return Renaming(lambda one: one, lambda at, inner: new if at == column and inner == old else inner)


def _parent_of(draft: Draft, path: Path) -> tuple[FieldPlace | None, str]:
    """Returns the place of the field that contains a new field (None for a column) and the name of the new field."""
    if not isinstance(path, str):
        *parents, name = names_of(path)
        return (draft.place(parents) if parents else None), name
    parent, point, name = path.rpartition(".")
    return (draft.place(parent) if point else None), name


def _check_free(name: str, others: Sequence[str], where: str) -> None:
    if name.lower() in map(str.lower, others):
        raise InvalidSchema(
            f"there is a column {name!r} already",
            where=where,
            found=list(others),
            cure="choose another name, or rename that column",
        )


def _placed(siblings: Siblings, one: pa.Field, first: bool, after: str | None, where: str) -> Siblings:
    if first and after is not None:
        raise InvalidSchema("first and after exclude each other", where=where, cure="pass one of them")
    if after is None:
        return (one, *siblings) if first else (*siblings, one)
    names = [each.name.lower() for each in siblings]
    if after.lower() not in names:
        raise InvalidSchema(
            f"there is no column {after!r} to come after",
            where=where,
            expected=f"one of {[each.name for each in siblings]}",
            cure="correct the name",
        )
    place = names.index(after.lower()) + 1
    return (*siblings[:place], one, *siblings[place:])


def _with_defaults(added: pa.Field, given: AddColumn, where: str) -> pa.Field:
    value = scalar_of(given.default, added, where)
    if not added.nullable and not value.is_valid:
        raise needs_default(added, where)
    return with_default(with_default(added, INITIAL, value) if value.is_valid else added, WRITE, value)


def needs_default(added: pa.Field, where: str) -> InvalidSchema:
    """The error for a new NOT NULL column without a default: existing rows have no value for it."""
    return InvalidSchema(
        "a new NOT NULL column needs a default",
        where=f"{where}, column {added.name!r}",
        expected="a value for the rows that there are: default=...",
        found="none",
        cure="pass a default, or leave NOT NULL out",
    )


# -- what a column is -------------------------------------------------------------------------------------------------


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
        if _comment_of(given) is not None:
            raise InvalidSchema(
                "the new type of a column has a comment",
                where=place.where,
                expected="a type alone",
                found=self.type,
                cure=Wording(
                    "add set_comment() as another alteration",
                    command="leave it out",
                    sql="write ALTER COLUMN ... COMMENT",
                ),
            )
        given = column_types.canonical_schema(pa.schema([given])).field(0)
        new = given.type
        if format_type_of(old) == format_type_of(given):
            return draft
        if column_types.plain(old.type) == column_types.plain(new) and _widens_texts(old, given):
            return place.altered(lambda one: column_types.with_lengths_of(one, given))
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
            rest = {key: value for key, value in one.metadata.items() if key != column_types.COMMENT}
            return one.with_metadata(rest if not self.comment else {**rest, column_types.COMMENT: self.comment.encode()})

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
    """`value`: for rows that are written without the column from now on. `dropped`: the default is removed."""

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
    """Whether every text of `old` fits the lengths of `new`. The types are equal except for lengths."""
    inside = zip(column_types.inner_fields(old.type), column_types.inner_fields(new.type), strict=True)
    return widens_text(old, new) and all(_widens_texts(*both) for both in inside)


def _retyped(one: pa.Field, new: pa.DataType) -> pa.Field:
    field = one.with_type(new)
    for which in (INITIAL, WRITE):
        if (value := default_of(one, which)) is not None:
            field = with_default(field, which, value.cast(new))
    return field
