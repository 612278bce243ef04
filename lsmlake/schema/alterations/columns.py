"""Alterations of which columns there are, of their names and of their order. Fields of structs count as columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.errors import InvalidSchema, Wording
from lsmlake.options.renaming import Renaming, columns_in, renamed
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.alterations.draft import Draft, FieldPlace
from lsmlake.schema.alterations.given_type import field_of
from lsmlake.schema.defaults import INITIAL, WRITE, scalar_of, with_default
from lsmlake.schema.fields import Path, Siblings, names_of, shown
from lsmlake.types import types
from lsmlake.types.type_text import format_type


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
            given = given.with_metadata({**(given.metadata or {}), types.COMMENT: self.comment.encode()})
        ids = itertools.count(draft.highest_field_id + 1)
        added = _with_defaults(types.number_fields(types.canonical_schema(pa.schema([given])), ids).field(0), self, draft.where)
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
        made = replace(
            place.altered(lambda one: one.with_name(self.name)), options=options, primary_key=tuple(map(swap, draft.primary_key))
        )
        return made if column else made.with_renamed_fields(types.field_id(place.field), old, self.name)


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


def _renaming(column: str | None, old: str, new: str) -> Renaming:
    """A column renamed or, given the column, a field of the structs in it."""
    if column is None:
        return Renaming(lambda one: new if one == old else one, lambda _, inner: inner)
    return Renaming(lambda one: one, lambda at, inner: new if at == column and inner == old else inner)


def _parent_of(draft: Draft, path: Path) -> tuple[FieldPlace | None, str]:
    """Returns the place of the field that a new field is in, None for a column, and the name of the new field."""
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
    """The error that the rows that there are have no value of a new column."""
    return InvalidSchema(
        "a new NOT NULL column needs a default",
        where=f"{where}, column {added.name!r}",
        expected="a value for the rows that there are: default=...",
        found="none",
        cure="pass a default, or leave NOT NULL out",
    )
