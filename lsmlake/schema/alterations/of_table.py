"""Alterations of a table as a whole: its options and its comment, and the fields by which new files are partitioned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lsmlake.errors import InvalidSchema
from lsmlake.options.table_options import check_name
from lsmlake.schema.alterations.draft import Alteration, Draft
from lsmlake.schema.partitioning import FIRST_ID, PartitionField, Term
from lsmlake.types import column_types


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
class SetTableComment(Alteration):
    """Sets the description of the table; None removes it."""

    comment: str | None

    def apply(self, draft: Draft) -> Draft:
        return replace(draft, comment=self.comment or None)


# -- partition fields -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddPartitionField(Alteration):
    """`term`: such as 'days(ts)'. `name`: None for Iceberg's name. `place`: the position among the fields; None for the last."""

    term: str
    name: str | None = None
    place: int | None = None

    def apply(self, draft: Draft) -> Draft:
        names = [field.name for field in draft.columns]
        term = Term.parse(self.term, names, draft.where)
        column = draft.place([term.column])
        source, transform = column_types.field_id(column.field), term.transform
        known = next((one for one in draft.partitioning.fields if one.means(source, transform)), None)
        ids = (field.id for field in (*draft.fields, *draft.partitioning.fields))
        number = known.id if known else max(draft.partitioning.highest_field, *ids, FIRST_ID - 1) + 1
        name = self.name or (known.name if known else transform.added_name(column.field.name))
        place = len(draft.fields) if self.place is None else self.place
        made = PartitionField(number, source, name, transform)
        return replace(draft, fields=(*draft.fields[:place], made, *draft.fields[place:]))


@dataclass(frozen=True)
class DropPartitionField(Alteration):
    """`field`: the name of the field or its term: 'ts_day' or 'days(ts)'."""

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
    term, ids = Term.parse(given, columns, draft.where), {field.name: column_types.field_id(field) for field in draft.columns}
    places = [place for place, one in enumerate(draft.fields) if one.means(ids.get(term.column, -1), term.transform)]
    if not places:
        raise InvalidSchema(
            f"there is no partition field {given!r}",
            where=draft.where,
            expected=f"one of {[field.name for field in draft.fields]}",
            cure="correct the name",
        )
    return places[0]
