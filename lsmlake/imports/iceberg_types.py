"""The schemas and partition specs of Iceberg's JSON as columns with field ids and as partitionings.

The inverse of `iceberg.schemas`. Source: the specification of Apache Iceberg, "Appendix C: JSON serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.imports.foreign import unknown_type
from lsmlake.schema.adapt import NamedFields
from lsmlake.schema.defaults import INITIAL, WRITE, with_default
from lsmlake.schema.partitioning import PartitionField, Partitioning, PartitionSpec
from lsmlake.schema.schema import UNPARTITIONED
from lsmlake.schema.transform import Transform
from lsmlake.types import column_types
from lsmlake.types.type_table import BY_ICEBERG, column_type, named

_VOID, _UNKNOWN = "void", "unknown"


def columns_of(schema: Mapping, where: str) -> pa.Schema:
    """The columns of a schema, without those of the type `unknown`, which have no value and are in no file.

    Raises InvalidSchema for a type that no column can have."""
    return pa.schema([_field(one, one["name"], where) for one in schema["fields"] if one["type"] != _UNKNOWN])


def _field(content: Mapping, path: str, where: str) -> pa.Field:
    type_ = _type(content["type"], path, where)
    metadata = {column_types.FIELD_ID: str(content["id"]).encode()}
    if content.get("doc"):
        metadata[column_types.COMMENT] = content["doc"].encode()
    field = pa.field(content["name"], type_, not content["required"], metadata)
    for name, which in (("initial-default", INITIAL), ("write-default", WRITE)):
        if content.get(name) is not None:
            field = with_default(field, which, _value(content[name], type_, path, where))
    return field


def _type(content: object, path: str, where: str) -> pa.DataType:
    if isinstance(content, str):
        if (known := named(content, BY_ICEBERG)) is not None:
            return known.arrow
    elif content.get("type") == "struct":
        return pa.struct([_field(one, f"{path}.{one['name']}", where) for one in content["fields"]])
    elif content.get("type") == "list":
        return pa.list_(_inner(content, "element", path, not content["element-required"], where))
    elif content.get("type") == "map":
        key = _inner(content, "key", path, False, where)
        return pa.map_(key, _inner(content, "value", path, not content["value-required"], where))
    raise unknown_type(content, f"{where}, column {path!r}", f"{', '.join(BY_ICEBERG)}, decimal, struct, list or map")


def _inner(content: Mapping, name: str, path: str, nullable: bool, where: str) -> pa.Field:
    type_ = _type(content[name], f"{path}.{name}", where)
    return pa.field(name, type_, nullable, {column_types.FIELD_ID: str(content[f"{name}-id"]).encode()})


def _value(content: object, type_: pa.DataType, path: str, where: str) -> pa.Scalar:
    """A default. Raises InvalidSchema."""
    try:
        if (iso := column_type(type_).iso) is not None:
            return pa.scalar(iso.fromisoformat(content), type_)
        if pa.types.is_decimal(type_):
            return pa.scalar(Decimal(content), pa.decimal128(38, type_.scale)).cast(type_)
        return pa.scalar(bytes.fromhex(content.replace("-", "")) if pa.types.is_binary(type_) else content, type_)
    except (ValueError, TypeError, InvalidOperation, pa.ArrowException) as unfit:
        raise InvalidSchema(
            "a default is no value of its column", where=f"{where}, column {path!r}", found=repr(content), cure="correct it there"
        ) from unfit


class Spec(NamedTuple):
    """A partition spec: the one of the table to be made, and the ids of its fields there, in order."""

    id: int
    fields: tuple[int, ...]


def partitioning_of(
    specs: Sequence[Mapping], current: int, columns: pa.Schema, highest: int, *, kept: bool, where: str
) -> tuple[Partitioning, dict[int, Spec]]:
    """The partitioning of a table, and the spec that the files of each spec of Iceberg have in it. Fields that are always null
    are left out; unless `kept`, all fields are, which leaves one spec without fields.

    Raises InvalidSchema for a transform that lsmlake does not have."""
    made: list[PartitionSpec] = []
    known: dict[int, Spec] = {}
    for spec in specs:
        fields = (
            tuple(_partition_field(one, columns, where) for one in spec["fields"] if one["transform"] != _VOID) if kept else ()
        )
        target = next((one for one in made if one.fields == fields), None)
        if target is None:
            target = PartitionSpec(spec["spec-id"], fields)
            made.append(target)
        known[spec["spec-id"]] = Spec(target.id, tuple(field.id for field in fields))
    if current not in known:
        raise InvalidSchema("the current partition spec is missing", where=where, found=current, cure="repair the table")
    partitioning = Partitioning(tuple(made), known[current].id, max(spec.id for spec in made), highest)
    return partitioning, known


def _partition_field(content: Mapping, columns: pa.Schema, where: str) -> PartitionField:
    source = content["source-id"] if "source-id" in content else content.get("source-ids", [None])[0]
    transform = Transform.parse(content["transform"]) if len(content.get("source-ids", [0])) == 1 else None
    known = {column_types.field_id(field) for field in columns}
    if transform is None or source not in known:
        raise InvalidSchema(
            "a partition field is none that lsmlake has",
            where=f"{where}, partition field {content['name']!r}",
            expected="identity, bucket, truncate, year, month, day or hour of one column that is not nested",
            found=f"{content['transform']} of field {source}",
            cure=UNPARTITIONED,
        )
    return PartitionField(content["field-id"], source, content["name"], transform)


def names_of(content: Iterable[Mapping]) -> tuple[NamedFields, ...]:
    """A name mapping."""
    return tuple(NamedFields(one.get("field-id"), tuple(one["names"]), names_of(one.get("fields") or ())) for one in content)
