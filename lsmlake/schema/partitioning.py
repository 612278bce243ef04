"""How the rows of a table are partitioned: partition specs, which are lists of fields, each a transform of one column.

A table has one current spec; append-only tables may have files of older ones, because every file knows the spec that it was
written under. Ids are as in Iceberg: specs count from 0, fields from 1000, and a field that means the same has the same id in all
specs. An id is never used for another meaning, also after a rollback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidSchema
from lsmlake.schema.transform import BUCKET, IDENTITY, TRUNCATE, Transform
from lsmlake.types.json_shape import RESTORE, TEXT, JsonKind, check, integer, listing, shown
from lsmlake.types.type_text import PLAIN_NAME, backticked

FIRST_ID = 1000
"""The id of the first partition field of a table, as in Iceberg."""
_ID_MAX = (1 << 31) - 1
_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]*[^`,\s]))\s*(,|$)", re.DOTALL)
_TIMES = {"year": "year", "month": "month", "day": "day", "date": "day", "hour": "hour", "date_hour": "hour"}
_TIMES |= {f"{name}s": name for name in ("year", "month", "day", "hour")}
_TERMS = "a column, years(c), months(c), days(c), hours(c), bucket(N, c) or truncate(W, c)"

OBJECT = JsonKind("an object", lambda value: isinstance(value, dict) and all(map(TEXT.fits, value)))
_ID = integer(0, _ID_MAX)
_FIELD = {"id": integer(FIRST_ID, _ID_MAX), "source": _ID, "name": TEXT, "transform": TEXT}
_SPEC = {"id": _ID, "fields": listing(OBJECT)}
_PARTITIONING = {"specs": listing(OBJECT), "current": _ID, "highest_spec": _ID, "highest_field": integer(FIRST_ID - 1, _ID_MAX)}


class Term(NamedTuple):
    """A partition field as users write it: 'days(ts)'."""

    transform: Transform
    column: str

    @staticmethod
    def parse(text: object, columns: Sequence[str], where: str) -> Term:
        """Parses a term. `columns`: the names of the columns; text that equals a column name is that column, even if it looks
        like a call. Raises InvalidSchema."""
        if isinstance(text, str) and text not in columns and (call := _CALL.fullmatch(text)):
            return _called(text, call[1].lower(), _arguments(call[2]), where)
        if isinstance(text, str) and text not in columns and len(named := _arguments(text)) == 1 and text.strip()[:1] == "`":
            return Term(Transform(IDENTITY), named[0])
        return Term(Transform(IDENTITY), text)  # not text: later reported as an unknown column


def _called(text: str, name: str, arguments: list[str], where: str) -> Term:
    numbers = [one for one in arguments if one.isascii() and one.isdigit()]
    columns = [one for one in arguments if one not in numbers]
    if name in (*_TIMES, IDENTITY) and len(arguments) == 1:
        return Term(Transform(_TIMES.get(name, IDENTITY)), arguments[0])
    if name in (BUCKET, TRUNCATE) and len(numbers) == len(columns) == 1:
        transform = Transform.parse(f"{name}[{int(numbers[0])}]")
        if transform is None:
            raise InvalidSchema(f"not a number for {name}", where=where, expected="1 to 2147483647", found=numbers[0])
        return Term(transform, columns[0])
    raise InvalidSchema("not a partition transform", where=where, expected=_TERMS, found=text, cure="correct the text")


def _arguments(text: str) -> list[str]:
    """The arguments of a call, without quotes; empty if the text is not a list of arguments."""
    arguments, end = [], 0
    while match := _ARGUMENT.match(text, end):
        arguments.append(match[1].replace("``", "`") if match[1] else match[2])
        end = match.end()
        if not match[3]:
            return arguments
    return []


def split_terms(text: str) -> list[str]:
    """Splits 'dt, truncate(4, code)' at the commas outside of parentheses."""
    return [one.strip() for one in re.findall(r"(?:[^,(]|\([^)]*\)|\()+", text)]


@dataclass(frozen=True)
class PartitionField:
    """`source`: the id of the column that the transform reads."""

    id: int
    source: int
    name: str
    transform: Transform

    def means(self, source: int, transform: Transform) -> bool:
        return (self.source, self.transform) == (source, transform)


@dataclass(frozen=True)
class PartitionSpec:
    id: int
    fields: tuple[PartitionField, ...]


@dataclass(frozen=True)
class PartitionColumn:
    """A partition field together with its column, which is named `column` and of type `source_type`.

    `number`: the number of the field, from 0; manifests keep its values in the column `p:<number>`. `type`: the type of its
    values.
    """

    number: int
    name: str
    transform: Transform
    column: str
    source_type: pa.DataType
    type: pa.DataType

    def values(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The partition values of rows."""
        return self.transform.apply(rows[self.column])

    @property
    def term(self) -> str:
        """The field as users write it."""
        plain = self.transform.is_identity or PLAIN_NAME.fullmatch(self.column)
        return self.transform.sql(self.column if plain else backticked(self.column))


def human_values(fields: Sequence[PartitionColumn], partition: tuple) -> tuple[object, ...]:
    """The values of a partition as Iceberg shows them."""
    return tuple(field.transform.human(value) for field, value in zip(fields, partition, strict=True))


@dataclass(frozen=True)
class Partitioning:
    """The specs of a table. `current`: the id of the spec of new files. `highest_spec` and `highest_field`: the greatest ids used
    so far, by this schema or by one that was rolled back."""

    specs: tuple[PartitionSpec, ...]
    current: int
    highest_spec: int
    highest_field: int

    @staticmethod
    def first(fields: Iterable[tuple[int, str, Transform]]) -> Partitioning:
        """The partitioning of a new table, given the source, name and transform of each field."""
        numbered = tuple(PartitionField(FIRST_ID + number, *field) for number, field in enumerate(fields))
        return Partitioning((PartitionSpec(0, numbered),), 0, 0, FIRST_ID - 1 + len(numbered))

    @property
    def spec(self) -> PartitionSpec:
        return self.of(self.current)

    def of(self, id: int) -> PartitionSpec:
        return next(spec for spec in self.specs if spec.id == id)

    @property
    def fields(self) -> tuple[PartitionField, ...]:
        """The fields of all specs, each once, by id."""
        by_id = {field.id: field for spec in self.specs for field in spec.fields}
        return tuple(by_id[id] for id in sorted(by_id))

    def with_fields(self, fields: tuple[PartitionField, ...]) -> Partitioning:
        """Makes a spec with these fields the current one: an older spec that has the same fields, or a new spec."""
        known = next((spec for spec in self.specs if spec.fields == fields), None)
        if known is not None:
            return replace(self, current=known.id)
        id = self.highest_spec + 1
        highest = max(self.highest_field, *(field.id for field in fields), FIRST_ID - 1)
        return Partitioning((*self.specs, PartitionSpec(id, fields)), id, id, highest)

    def after(self, other: Partitioning) -> Partitioning:
        """Returns the same partitioning as a successor of `other`: ids that `other` has used are not used again."""
        spec, field = max(self.highest_spec, other.highest_spec), max(self.highest_field, other.highest_field)
        return replace(self, highest_spec=spec, highest_field=field)

    def renamed(self, source: int, old: str, new: str) -> Partitioning:
        """Returns the partitioning after a column was renamed: identity fields of the column get its new name."""

        def swap(field: PartitionField) -> PartitionField:
            is_column = field.source == source and field.transform.is_identity and field.name == old
            return replace(field, name=new) if is_column else field

        return replace(self, specs=tuple(replace(spec, fields=tuple(map(swap, spec.fields))) for spec in self.specs))


def check_fields(fields: Sequence[PartitionColumn], columns: Sequence[str], where: str) -> None:
    """Raises InvalidSchema if two fields of a spec have the same name or meaning, or if a field has the name of a column."""
    by_name: dict[str, PartitionColumn] = {}
    by_meaning: dict[tuple[str, str], PartitionColumn] = {}
    lower = {name.lower() for name in columns}
    for field in fields:
        field.transform.check(field.source_type, field.column, where)
        meaning = field.column, "time" if field.transform.is_time else str(field.transform)
        if twin := by_meaning.get(meaning):
            raise InvalidSchema(
                "a partition column is named twice"
                if field.transform == twin.transform
                else "two partition fields are redundant",
                where=where,
                found=f"{twin.term} and {field.term}",
                cure="name it once" if field.transform == twin.transform else "keep the finer one",
            )
        if not field.name.strip() or field.name.lower() in by_name:
            raise InvalidSchema(
                "a partition field needs a name of its own", where=where, found=repr(field.name), cure="give it another name"
            )
        if field.name.lower() in lower and not (field.transform.is_identity and field.name == field.column):
            raise InvalidSchema(
                f"the partition field {field.term} would have the name of a column",
                where=where,
                found=repr(field.name),
                cure="rename the column, or give the field another name",
            )
        by_name[field.name.lower()] = by_meaning[meaning] = field


def to_json(partitioning: Partitioning) -> dict:
    specs = [
        {
            "id": spec.id,
            "fields": [
                {"id": one.id, "source": one.source, "name": one.name, "transform": str(one.transform)} for one in spec.fields
            ],
        }
        for spec in partitioning.specs
    ]
    highest = {"highest_spec": partitioning.highest_spec, "highest_field": partitioning.highest_field}
    return {"specs": specs, "current": partitioning.current, **highest}


def from_json(content: object, where: str) -> Partitioning:
    """Parses the partitioning in a schema file. Raises Corrupt naming `where`."""
    check("partitioning", content, _PARTITIONING, where)
    specs = tuple(_spec_of(one, where) for one in content["specs"])
    partitioning = Partitioning(specs, content["current"], content["highest_spec"], content["highest_field"])
    ids, fields = [spec.id for spec in specs], [field for spec in specs for field in spec.fields]
    meanings = {(field.id, field.source, field.transform) for field in fields}
    if len(set(ids)) < len(ids) or partitioning.current not in ids or len({id for id, *_ in meanings}) < len(meanings):
        raise Corrupt("partitioning has an id twice, or lacks the current spec", where=where, found=shown(content), cure=RESTORE)
    if max(ids) > partitioning.highest_spec or max((field.id for field in fields), default=0) > partitioning.highest_field:
        raise Corrupt("partitioning has an id above the highest", where=where, found=shown(content), cure=RESTORE)
    return partitioning


def _spec_of(content: dict, where: str) -> PartitionSpec:
    check("partition spec", content, _SPEC, where)
    return PartitionSpec(content["id"], tuple(_field_of(one, where) for one in content["fields"]))


def _field_of(content: dict, where: str) -> PartitionField:
    check("partition field", content, _FIELD, where)
    transform = Transform.parse(content["transform"])
    if transform is None:
        expected = "identity, year, month, day, hour, bucket[N] or truncate[W]"
        raise Corrupt(
            "unknown partition transform",
            where=where,
            expected=expected,
            found=shown(content["transform"]),
            cure="upgrade lsmlake",
        )
    return PartitionField(content["id"], content["source"], content["name"], transform)
