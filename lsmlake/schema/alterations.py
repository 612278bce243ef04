"""Alterations of a table as values, and the next schema that a sequence of them gives. Pure; `maintain.alter` publishes it.

Every field keeps its id for life and no id is used twice. So files that were written before an alteration stay as they are:
readers match their columns by id, a renamed column is still found, and a column that was dropped and added again has none of its
old values. An alteration that old rows or readers could not follow is refused with the reason.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.errors import InvalidOption, InvalidSchema, LakeError, Wording
from lsmlake.kernels import nested
from lsmlake.options.renaming import Renaming, columns_in, renamed
from lsmlake.options.table_options import check_name
from lsmlake.schema import lossless, types
from lsmlake.schema.defaults import INITIAL, WRITE, default_of, no_default_of_nested, with_default
from lsmlake.schema.draft import Draft, Place
from lsmlake.schema.fields import Path, Siblings, names_of, shown
from lsmlake.schema.partitioning import FIRST_ID, PartitionField, Term
from lsmlake.schema.schema import Schema
from lsmlake.schema.type_text import format_type
from lsmlake.schema.widening import widens

_RETYPE = "add a column of the new type, copy the values by an upsert, and drop this one"


class Alteration(ABC):
    """One alteration. The functions that users call, such as `add_column`, are in `api.alterations`."""

    @abstractmethod
    def apply(self, draft: Draft) -> Draft:
        """Returns the altered draft. Raises InvalidSchema, InvalidOption."""


@dataclass(frozen=True)
class SetOption(Alteration):
    """A new value of an option. None resets it to its default."""

    option: str
    value: object | None

    def apply(self, draft: Draft) -> Draft:
        check_name(self.option, draft.where)
        options = {name: value for name, value in draft.options.items() if name != self.option or self.value is not None}
        return replace(draft, options=options if self.value is None else {**options, self.option: self.value})


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
        given = _field_of(name, self.type, draft.where)
        if self.comment is not None:
            given = given.with_metadata({types.COMMENT: self.comment.encode()})
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

    def _check_column(self, place: Place) -> None:
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


@dataclass(frozen=True)
class ChangeType(Alteration):
    path: Path
    type: object

    def apply(self, draft: Draft) -> Draft:
        place = draft.place(self.path)
        old = place.field
        given = _field_of(old.name, self.type, draft.where)
        if not given.nullable:
            raise InvalidSchema(
                "the new type of a column is NOT NULL",
                where=place.where,
                expected="a type alone",
                found=self.type,
                cure=Wording("add set_not_null() as another alteration", command=f"add --not-null {shown(self.path)}"),
            )
        new = types.canonical(given.type, shown(self.path))
        if types.plain(old.type) == types.plain(new):
            return draft
        if place.role or place.in_map_key:
            raise InvalidSchema(
                f"the type of a {place.role or 'map key'} column cannot change",
                where=place.where,
                expected=format_type(old.type),
                found=format_type(new),
                cure="create a table with the new type and upsert the rows of this one into it"
                + (": rows are placed by a hash of the value, which depends on its type" if place.role else ""),
            )
        if pa.types.is_nested(old.type) or pa.types.is_nested(new) or not widens(old.type, new):
            raise InvalidSchema(
                "the type cannot change without a possible loss",
                where=place.where,
                expected=f"a type that holds every value of {format_type(old.type)} and that Parquet readers convert to",
                found=format_type(new),
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


@dataclass(frozen=True)
class AddPartitionField(Alteration):
    """`term`: such as 'days(ts)'. `name`: None: as Iceberg names it. `place`: among the fields; None: the last one."""

    term: str
    name: str | None = None
    place: int | None = None

    def apply(self, draft: Draft) -> Draft:
        names = [field.name for field in draft.columns]
        term = Term.parse(self.term, names, draft.where)
        column = draft.place([term.column])
        source, transform = types.field_id(column.field), term.transform
        known = next((one for one in draft.partitioning.fields if one.means(source, transform)), None)
        ids = (field.id for field in (*draft.fields, *draft.partitioning.fields))
        number = known.id if known else max(draft.partitioning.highest_field, *ids, FIRST_ID - 1) + 1
        name = self.name or (known.name if known else transform.added_name(column.field.name))
        place = len(draft.fields) if self.place is None else self.place
        made = PartitionField(number, source, name, transform)
        return replace(draft, fields=(*draft.fields[:place], made, *draft.fields[place:]))


@dataclass(frozen=True)
class DropPartitionField(Alteration):
    """`field`: its name, or what it is: 'ts_day' or 'days(ts)'."""

    field: str

    def apply(self, draft: Draft) -> Draft:
        place = _field_place(draft, self.field)
        return replace(draft, fields=(*draft.fields[:place], *draft.fields[place + 1 :]))


@dataclass(frozen=True)
class ReplacePartitionField(Alteration):
    field: str
    term: str
    name: str | None = None

    def apply(self, draft: Draft) -> Draft:
        place = _field_place(draft, self.field)
        return AddPartitionField(self.term, self.name, place).apply(DropPartitionField(self.field).apply(draft))


def _field_place(draft: Draft, given: str) -> int:
    """The number of a partition field among those of the draft. Raises InvalidSchema."""
    names = [field.name.lower() for field in draft.fields]
    if given.lower() in names:
        return names.index(given.lower())
    columns = [field.name for field in draft.columns]
    term, ids = Term.parse(given, columns, draft.where), {field.name: types.field_id(field) for field in draft.columns}
    found = [place for place, one in enumerate(draft.fields) if one.means(ids.get(term.column, -1), term.transform)]
    if not found:
        raise InvalidSchema(
            f"there is no partition field {given!r}",
            where=draft.where,
            expected=f"one of {[field.name for field in draft.fields]}",
            cure="correct the name",
        )
    return found[0]


def additions(found: pa.Schema, schema: Schema, ignored: Collection[str] = ()) -> list[Alteration]:
    """Returns what adds the columns of `found` that a table lacks, and the fields that its structs lack, nullable at all levels,
    in their order. `ignored`: columns of the data that are not stored. Raises InvalidSchema for a type that no column has."""
    wanted = [field for field in found if field.name not in ignored]
    return list(_additions((), wanted, tuple(schema.columns)))


def _additions(parent: tuple[str, ...], found: Sequence[pa.Field], known: Siblings) -> Iterator[Alteration]:
    by_name = {field.name.lower(): field for field in known}
    for field in found:
        path = (*parent, field.name)
        there = by_name.get(field.name.lower())
        if there is None:
            yield AddColumn(path, nested.nullable(types.canonical(field.type, shown(path))), None, False, None, None)
        else:
            inside = types.inner_fields(there.type)
            yield from _additions((*parent, there.name), _found_inside(field.type, there.type, inside), inside)


def _found_inside(found: pa.DataType, there: pa.DataType, inside: Siblings) -> list[pa.Field]:
    """Returns the fields inside a type of the data, named as in the nested type that the table has; none if it is of another
    kind. A type of the data can have parts without a type, such as the elements of lists that are all empty."""
    t = pa.types
    if t.is_struct(there) and t.is_struct(found):
        return list(found)
    lists = t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)
    if t.is_list(there) and lists:
        return [found.value_field.with_name(inside[0].name)]
    if t.is_map(there) and t.is_map(found):
        return [one.with_name(own.name) for one, own in zip(types.inner_fields(found), inside, strict=True)]
    return []


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
        if types.field_id(field) > schema.highest_field_id and not field.nullable and default_of(field, INITIAL) is None:
            raise _needs_default(field, where)
    return schema.successor(
        pa.schema(draft.columns),
        draft.highest_field_id,
        draft.primary_key,
        draft.partitioning.with_fields(draft.fields),
        draft.options,
        id,
        time_ms,
        where,
    )


# -- helpers ------------------------------------------------------------------------------------------------------------


def _renaming(column: str | None, old: str, new: str) -> Renaming:
    """A column renamed or, given the column, a field of the structs in it."""
    if column is None:
        return Renaming(lambda one: new if one == old else one, lambda _, inner: inner)
    return Renaming(lambda one: one, lambda at, inner: new if at == column and inner == old else inner)


def _parent_of(draft: Draft, path: Path) -> tuple[Place | None, str]:
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


def _field_of(name: str, type_: object, where: str) -> pa.Field:
    """Returns a field of a given type: text in DDL, a type of PyArrow, or one of Spark."""
    if isinstance(type_, pa.DataType):
        return pa.field(name, type_)
    text = type_ if isinstance(type_, str) else type_.simpleString() if hasattr(type_, "simpleString") else None
    if text is None:
        raise InvalidSchema(
            "not a type", where=where, expected="the text of a type, a pyarrow.DataType or a Spark type", found=repr(type_)
        )
    from lsmlake.schema import ddl  # loads sqlglot

    found = ddl.parse_columns(f"c {text}")
    if len(found) != 1:
        raise InvalidSchema("not one type", where=where, expected=ddl.TYPES, found=repr(text), cure="pass one type")
    return found.field(0).with_name(name)


def _with_defaults(added: pa.Field, given: AddColumn, where: str) -> pa.Field:
    value = scalar_of(given.default, added, where)
    if not added.nullable and not value.is_valid:
        raise _needs_default(added, where)
    return with_default(with_default(added, INITIAL, value) if value.is_valid else added, WRITE, value)


def _needs_default(added: pa.Field, where: str) -> InvalidSchema:
    return InvalidSchema(
        "a new NOT NULL column needs a default",
        where=f"{where}, column {added.name!r}",
        expected="a value for the rows that there are: default=...",
        found="none",
        cure="pass a default, or leave NOT NULL out",
    )


def scalar_of(value: object, of: pa.Field, where: str) -> pa.Scalar:
    """Returns a default as a scalar of the field's type. Raises InvalidSchema."""
    if value is None:
        return pa.scalar(None, types.plain(of.type))
    no_default_of_nested(of.type, of.name)
    try:
        return lossless.convert(pa.array([value]), of.type, "UTC")[0]
    except (lossless.Unfit, LakeError, pa.ArrowException, ValueError, OverflowError, TypeError) as unfit:
        raise InvalidSchema(
            "the default does not fit the type",
            where=f"{where}, column {of.name!r}",
            expected=format_type(of.type),
            found=repr(value),
            cure="correct the default",
        ) from unfit


def _retyped(one: pa.Field, new: pa.DataType) -> pa.Field:
    made = one.with_type(new)
    for which in (INITIAL, WRITE):
        if (value := default_of(one, which)) is not None:
            made = with_default(made, which, value.cast(new))
    return made
