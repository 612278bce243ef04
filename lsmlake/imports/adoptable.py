"""Decides whether the data files of another format can be files of a table as they are. Pure.

A file is adopted if every reader of the table - PyArrow, DuckDB, Polars, Spark - reads from it exactly the rows that it holds: by
the field ids, or by the names in the schema of the file. Its *shape* is that schema: the columns that it stores, under their
names and types there. A table has one schema for each shape of its adopted files, as if it had been altered from one to the next.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa

from lsmlake.files.parquet_facts import ParquetFacts, ParquetLeaf
from lsmlake.iceberg.schemas import promotes
from lsmlake.imports.foreign import ForeignFile
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.types import column_types
from lsmlake.types.column_types import field_id, has_field_id, inner_fields
from lsmlake.types.type_table import DECIMAL, TABLE
from lsmlake.types.type_text import format_type
from lsmlake.types.widening import widens

_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
"""The compressions that every reader has."""
_LOGICAL = {row.parquet for row in (*TABLE, DECIMAL)}
"""The logical types that mean the same to all readers. Polars takes JSON for bytes, and DuckDB ENUM for text."""


def why_rewritten(schema: Schema, file: ForeignFile, facts: ParquetFacts, with_nan: Callable[[], Collection[str]]) -> str | None:
    """Why the rows of a file are written anew; None: the file is adopted as it is.

    Args:
        schema: the schema of the table.
        file: the file in its table.
        facts: the facts of its footer; the columns have field ids.
        with_nan: finds the columns that hold a NaN although the file has statistics of them, which leave it out.
    """
    return next(_reasons(schema, file, facts, with_nan), None)


def _reasons(schema: Schema, file: ForeignFile, facts: ParquetFacts, with_nan: Callable[[], Collection[str]]) -> Iterator[str]:
    if schema.merges_at_read:
        yield "without deletion vectors a table with a primary key keeps its rows sorted"
    if not schema.append_only and rule_of(schema).old_row is OldRow.MERGED:
        yield f"merge-engine = {schema.parsed_options.merge.engine} combines rows"
    if schema.parsed_options.layout.first_buckets > 1:
        yield f"bucket = {schema.parsed_options.layout.buckets} assigns each row to a bucket by its hash"
    if not schema.has_spec(file.spec):
        yield "the table has other partitions"
    for field, value in zip(schema.partitioning.of(file.spec).fields, file.partition, strict=True):
        if isinstance(value, float) and math.isnan(value):
            yield f"the partition field {field.name!r} is NaN"
        elif isinstance(value, float) and value == 0:
            yield f"the partition field {field.name!r} may be a negative zero"
    if not facts.has_own_ids:
        yield "its field ids are not those of the table"
    if other := facts.codecs - _CODECS:
        yield f"not every reader has the compression {', '.join(sorted(other))}"
    if any(field.name == ROW_KIND for field in facts.columns):
        yield f"the column {ROW_KIND} belongs to lsmlake"
    stored = {field_id(field): number for number, field in enumerate(facts.columns) if has_field_id(field)}
    leaves = _leaves_by_column(facts)
    for column in schema.columns:
        number = stored.get(field_id(column))
        if number is None:
            if field_id(column) in file.constants:
                yield f"the partition column {column.name!r} is not in the file"
            elif column.name in schema.primary_key:
                yield f"the key column {column.name!r} is not in the file"
            continue
        in_file = facts.columns.field(number)
        if column.name in schema.primary_key and _normal(in_file.type) != column_types.plain(column.type):
            yield f"the key column {column.name!r} is stored as {in_file.type}"
        if column.name in schema.primary_key and pa.types.is_floating(column.type):
            yield f"the key column {column.name!r} may have a negative zero"
        declared = facts.declared[number].type if len(facts.declared) == len(facts.columns) else in_file.type
        if other := _difference(in_file, column, leaves[number]) or _unlike(declared):
            yield f"column {column.name!r} is stored {other}"
        elif schema.parsed_options.iceberg.enabled and not promotes(_normal(in_file.type), column.type):
            yield f"column {column.name!r} is stored as {in_file.type}, which Iceberg does not widen"
    if hiding := [one.name for one in _hiding(schema, facts.columns) if not _is_canonical(_normal(one.type))]:
        yield f"a column that was dropped has the name of a column: {hiding[0]!r}"
    if names := sorted(with_nan()):
        yield f"statistics of column {names[0]!r} leave out a NaN"


def _leaves_by_column(facts: ParquetFacts) -> list[list[ParquetLeaf]]:
    by_column, start = [], 0
    for field in facts.columns:
        stop = start + _leaf_count(field.type)
        by_column.append(list(facts.leaves[start:stop]))
        start = stop
    return by_column


def _leaf_count(type_: pa.DataType) -> int:
    return sum(_leaf_count(type_.field(i).type) for i in range(type_.num_fields)) or 1


def _difference(in_file: pa.Field, wanted: pa.Field, leaves: Sequence[ParquetLeaf]) -> str | None:
    """How a column is stored, if not every reader reads it as the column `wanted`; None: all readers do."""
    if any(leaf.physical == "INT96" for leaf in leaves):
        return "as INT96"
    if not all(map(has_field_id, _all_inner(in_file.type))):
        return "without field ids inside"
    stored = _normal(in_file.type)
    if not _fits(stored, wanted.type):
        shown = "dictionary" if pa.types.is_dictionary(in_file.type) else in_file.type
        return f"as {shown}, not {format_type(column_types.plain(wanted.type))}"
    if other := sorted({leaf.logical for leaf in leaves} - _LOGICAL):
        return f"as {other[0]}"
    for leaf, type_ in zip(leaves, _leaf_types(stored), strict=True):
        if pa.types.is_decimal(type_) and leaf.physical == "BYTE_ARRAY":
            return "as a decimal of varying length"
        if pa.types.is_decimal(type_) and leaf.physical == "FIXED_LEN_BYTE_ARRAY" and _is_widened(stored, wanted.type):
            return "as a decimal of fixed length and another precision"
    if pa.types.is_nested(stored) and not all(leaf.path.count(".") >= _depth(stored) for leaf in leaves):
        return "as a list of an older form"
    return None


def _unlike(declared: pa.DataType) -> str | None:
    """How Polars reads a column of this type in the Arrow schema of a file, if that is not how others do."""
    if pa.types.is_date64(declared):
        return "as date64, a date with a time"
    if pa.types.is_fixed_size_list(declared):
        return "as a list of fixed size"
    return next(filter(None, (_unlike(declared.field(i).type) for i in range(declared.num_fields))), None)


def _all_inner(type_: pa.DataType) -> Iterator[pa.Field]:
    for field in inner_fields(type_):
        yield field
        yield from _all_inner(field.type)


def _leaf_types(type_: pa.DataType) -> Iterator[pa.DataType]:
    inner = inner_fields(type_)
    if not inner:
        yield type_
    for field in inner:
        yield from _leaf_types(field.type)


def _depth(type_: pa.DataType) -> int:
    """The least number of names that follow that of the column in the path of a leaf."""
    if pa.types.is_struct(type_):
        return 1 + min(_depth(field.type) for field in type_)
    if pa.types.is_list(type_):
        return 2 + _depth(type_.value_type)
    return 2 + min(_depth(type_.key_type), _depth(type_.item_type)) if pa.types.is_map(type_) else 0


def _fits(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether `schema.adapt` and the other readers make `wanted` of `stored`."""
    ours, theirs = inner_fields(stored), inner_fields(wanted)
    if not ours and not theirs:
        return widens(stored, wanted)
    if stored.id != wanted.id:
        return False
    if pa.types.is_struct(wanted):
        by_id = {field_id(field): field for field in ours}
        return all(_fits(by_id[id].type, field.type) for field in theirs if (id := field_id(field)) in by_id)
    return all(field_id(a) == field_id(b) and _fits(a.type, b.type) for a, b in zip(ours, theirs, strict=True))


def _is_widened(stored: pa.DataType, wanted: pa.DataType) -> bool:
    return set(map(str, _leaf_types(stored))) != set(map(str, _leaf_types(wanted)))


def _is_canonical(type_: pa.DataType) -> bool:
    return all(column_types.is_name_of_type(column_types.type_name(one)) for one in _leaf_types(type_))


def _normal(type_: pa.DataType) -> pa.DataType:
    """A stored type in canonical form, with field ids, if all readers take it for that; inner fields are nullable.

    A dictionary, a list of fixed size or another zone than UTC stays: Polars goes by the Arrow schema that a file may have."""
    t = pa.types
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_struct(type_):
        return pa.struct([_normal_field(field, field.name) for field in type_])
    if t.is_map(type_):
        return pa.map_(_normal_field(type_.key_field, "key").with_nullable(False), _normal_field(type_.item_field, "value"))
    if t.is_list(type_) or t.is_large_list(type_):
        return pa.list_(_normal_field(type_.value_field, "element"))
    return type_


def _normal_field(field: pa.Field, name: str) -> pa.Field:
    metadata = {column_types.FIELD_ID: field.metadata[column_types.FIELD_ID]} if has_field_id(field) else None
    return pa.field(name, _normal(field.type), True, metadata)


def _hiding(schema: Schema, stored: pa.Schema) -> list[pa.Field]:
    """The columns of a file that are not in the table, but have the name of one of its columns."""
    ids, names = set(schema.field_ids().values()), {name.lower() for name in schema.columns.names}
    return [field for field in stored if has_field_id(field) and field_id(field) not in ids and field.name.lower() in names]


def shape_of(schema: Schema, stored: pa.Schema) -> pa.Schema:
    """The columns of an adopted file, those of the table under their names and types in the file."""
    ids, hiding = set(schema.field_ids().values()), set(map(field_id, _hiding(schema, stored)))
    known = [field for field in stored if has_field_id(field) and field_id(field) in ids | hiding]
    return pa.schema([_normal_field(field, field.name) for field in known])


def is_whole(schema: Schema, shape: pa.Schema) -> bool:
    """Whether a file of this shape has all columns of the table, under their names and types."""
    return shape_key(shape) == shape_key(pa.schema([_normal_field(field, field.name) for field in schema.columns]))


def shape_key(shape: pa.Schema) -> str:
    """A text that is equal for shapes that differ only in the order of their columns."""
    return json.dumps(sorted((column_types.to_json(field) for field in shape), key=lambda one: one["id"]))
