"""How the columns of a history follow those of its source: columns that were renamed, added or widened."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lsmlake.errors import InvalidSchema, Wording
from lsmlake.schema.alterations.altered import additions, altered
from lsmlake.schema.alterations.draft import Alteration, Path
from lsmlake.schema.alterations.of_columns import ChangeType, RenameColumn
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import field_id, inner_fields, widens_text
from lsmlake.types.type_text import format_type_of
from lsmlake.types.widening import widens


def followed(history: Schema, wanted: pa.Schema, renames: list[Alteration], where: str) -> list[Alteration]:
    """The alterations by which a history gets the columns of its source; none if it has them.

    Args:
        history: the columns that it has.
        wanted: those that a new history would have.
        renames: those of `renames`, which come first.
        where: the history, for messages.

    Raises:
        InvalidSchema: a column of the source has a type that the one of the history does not widen to.
    """
    now = altered(history, renames, history.id + 1, history.time_ms, where) if renames else history
    known = {field.name: field for field in now.columns}
    pairs = [(known[field.name], field) for field in wanted if field.name in known]
    widened = [one for own, given in pairs for one in _widened((own.name,), own, given, where)]
    return [*renames, *widened, *additions(wanted, now)]


def renames(history: Schema, before: Schema, source: Schema, where: str) -> list[Alteration]:
    """The alterations by which the columns of a history get the names that their columns of the source have now.

    Args:
        history: the columns that the history has.
        before: the source when the history got these columns.
        source: the source.
        where: the history, for messages.

    Raises:
        InvalidSchema: the history has another column of the new name, which the source has no longer.
    """
    now, has = {field_id(field): field.name for field in source.columns}, {field.name for field in history.columns}
    pairs = [(field.name, now[field_id(field)]) for field in before.columns if field.name in has and field_id(field) in now]
    pairs = [(old, new) for old, new in pairs if old != new]
    leaving = {old.lower() for old, _ in pairs}
    staying = {name.lower(): name for name in has if name.lower() not in leaving}
    if taken := next(((old, new) for old, new in pairs if new.lower() in staying), None):
        raise _taken(*taken, where)
    aside = {old: f"_aside_{number}" for number, (old, new) in enumerate(pairs) if new.lower() in leaving}
    first = [RenameColumn((old,), name) for old, name in aside.items()]
    plain = [RenameColumn((old,), new) for old, new in pairs if old not in aside]
    return [*first, *plain, *(RenameColumn((aside[old],), new) for old, new in pairs if old in aside)]


def _taken(old: str, new: str, where: str) -> InvalidSchema:
    return InvalidSchema(
        f"column {old!r} of the source is now named {new!r}, and the history has another column of this name",
        where=where,
        found=f"column {new!r}, which the source had before",
        cure=_another_name(new, where, "it keeps the old values"),
    )


def _another_name(name: str, where: str, then: str) -> Wording:
    return Wording(
        f"give the column there another name, such as by alter(rename_column({name!r}, {f'{name}_before'!r})): {then}",
        command=f"give the column another name, such as by `lsmlake alter {where} --rename '{name}={name}_before'`: {then}",
        sql=f"give the column of the history another name by ALTER TABLE ... RENAME COLUMN: {then}",
    )


def _widened(path: Path, own: pa.Field, given: pa.Field, where: str) -> Iterator[Alteration]:
    """The alterations by which a column of the history holds the values of one of the source."""
    mine, theirs = inner_fields(own.type), inner_fields(given.type)
    if mine and own.type.id == given.type.id:
        if pa.types.is_struct(own.type):
            by_name = {field.name: field for field in theirs}
            if not by_name.keys() >= {field.name for field in mine}:
                raise _other(path, own, given, where)
            theirs = [by_name[field.name] for field in mine]
        for inner, wanted in zip(mine, theirs, strict=True):
            yield from _widened((*path, inner.name), inner, wanted, where)
    elif own.type == given.type:
        if widens_text(own, given) and format_type_of(own) != format_type_of(given):
            yield ChangeType(path, format_type_of(given))
    elif mine or theirs or not (widens(own.type, given.type) or widens(given.type, own.type)):
        raise _other(path, own, given, where)
    elif widens(own.type, given.type):
        yield ChangeType(path, given.type)


def _other(path: Path, own: pa.Field, given: pa.Field, where: str) -> InvalidSchema:
    return InvalidSchema(
        "a column of the source has another type than in the history",
        where=f"{where}, column {'.'.join(path)!r}",
        expected=format_type_of(own),
        found=format_type_of(given),
        cure=_another_name(path[0], where, "it keeps the old values, and the history gets a new column"),
    )
