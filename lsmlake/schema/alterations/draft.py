"""A schema while it is being altered, and the place of one field in it. Alterations are steps from draft to draft."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.schema.fields import Path, Siblings, edited, field_at, resolve, shown
from lsmlake.schema.partitioning import PartitionField, Partitioning, PartitionSpec
from lsmlake.types import column_types


@dataclass(frozen=True)
class Draft:
    """`partitioning`: the specs so far. `fields`: the partition fields of the next spec. `where` names the table in messages."""

    columns: Siblings
    highest_field_id: int
    primary_key: tuple[str, ...]
    partitioning: Partitioning
    fields: tuple[PartitionField, ...]
    options: Mapping[str, object]
    comment: str | None
    where: str

    def place(self, path: Path) -> FieldPlace:
        """Raises InvalidSchema if there is no such field."""
        return FieldPlace(self, path, resolve(self.columns, path, self.where))

    def edited(self, parent: Sequence[int], edit: Callable[[Siblings], Sequence[pa.Field]]) -> Draft:
        """Edits the fields inside the field at `parent`; without positions, the columns."""
        return replace(self, columns=edited(self.columns, parent, edit))

    def with_renamed_fields(self, source: int, old: str, new: str) -> Draft:
        """After the renaming of a column: see `Partitioning.renamed`."""
        pending = replace(self.partitioning, specs=(PartitionSpec(0, self.fields),)).renamed(source, old, new)
        return replace(self, partitioning=self.partitioning.renamed(source, old, new), fields=pending.specs[0].fields)


@dataclass(frozen=True)
class FieldPlace:
    """A field of a draft: a column or, with more than one position, a field inside one."""

    draft: Draft
    path: Path
    positions: tuple[int, ...]

    @property
    def field(self) -> pa.Field:
        return field_at(self.draft.columns, self.positions)

    @property
    def column(self) -> pa.Field:
        return self.draft.columns[self.positions[0]]

    @property
    def parent(self) -> pa.Field | None:
        """The field that directly contains this one; None for a column."""
        return None if self.is_column else field_at(self.draft.columns, self.positions[:-1])

    @property
    def is_column(self) -> bool:
        return len(self.positions) == 1

    @property
    def others(self) -> list[str]:
        """The names of the fields beside this one."""
        siblings = column_types.inner_fields(self.parent.type) if self.parent else self.draft.columns
        return [field.name for number, field in enumerate(siblings) if number != self.positions[-1]]

    @property
    def role(self) -> str | None:
        """The role of a column that decides where each row is stored: "key" or "partition"; None for other columns."""
        name = self.column.name
        fields = (*self.draft.partitioning.fields, *self.draft.fields)
        if column_types.field_id(self.column) in {field.source for field in fields}:
            return "partition"
        return "key" if name in self.draft.primary_key else None

    @property
    def in_map_key(self) -> bool:
        depths = range(1, len(self.positions))
        parents = [field_at(self.draft.columns, self.positions[:depth]) for depth in depths]
        return any(
            pa.types.is_map(parent.type) and position == 0 for parent, position in zip(parents, self.positions[1:], strict=True)
        )

    @property
    def where(self) -> str:
        """Names the table and the field in messages."""
        return f"{self.draft.where}, column {shown(self.path)!r}"

    def check_member(self, what: str) -> None:
        """Raises InvalidSchema if the field is the element of a list or the key or value of a map, which cannot have `what`."""
        if self.parent and not pa.types.is_struct(self.parent.type):
            raise InvalidSchema(
                f"only columns and fields of structs have {what}",
                where=self.draft.where,
                found=shown(self.path),
                cure="correct the path",
            )

    def altered(self, alter: Callable[[pa.Field], pa.Field]) -> Draft:
        """Returns the draft with the field replaced by the result of `alter`."""
        return self.siblings_edited(lambda before, field, after: (*before, alter(field), *after))

    def dropped(self) -> Draft:
        return self.siblings_edited(lambda before, field, after: (*before, *after))

    def siblings_edited(self, edit: Callable[[Siblings, pa.Field, Siblings], Sequence[pa.Field]]) -> Draft:
        """Edits the list of fields around the field: `edit` gets the fields before it, the field, and the fields after it."""
        *parent, last = self.positions
        return self.draft.edited(parent, lambda all: edit(all[:last], all[last], all[last + 1 :]))


# -- alterations ------------------------------------------------------------------------------------------------------


class Alteration(ABC):
    """One alteration. The functions that users call, such as `add_column`, are in `api.alterations`."""

    @abstractmethod
    def apply(self, draft: Draft) -> Draft:
        """Returns the altered draft. Raises InvalidSchema, InvalidOption."""


def field_of(name: str, type_: object, where: str) -> pa.Field:
    """Returns a field of a given type: text in DDL, a type or field of PyArrow, or a type of Spark."""
    if isinstance(type_, pa.DataType):
        return pa.field(name, type_)
    if isinstance(type_, pa.Field):
        if type_.name not in ("", name):
            what, cure = "the field has another name than the column", "pass its type"
            raise InvalidSchema(what, where=where, expected=repr(name), found=repr(type_.name), cure=cure)
        return type_.with_name(name)
    text = type_ if isinstance(type_, str) else type_.simpleString() if hasattr(type_, "simpleString") else None
    if text is None:
        raise InvalidSchema(
            "not a type", where=where, expected="the text of a type, a pyarrow.DataType or a Spark type", found=repr(type_)
        )
    from lsmlake.types import ddl  # loads sqlglot

    columns = ddl.parse_columns(f"c {text}")
    if len(columns) != 1:
        raise InvalidSchema("not one type", where=where, expected=ddl.TYPES, found=repr(text), cure="pass one type")
    return columns.field(0).with_name(name)
