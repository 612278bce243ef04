"""Scans data files with Catalyst's Parquet reader, with Spark's own partition pruning where the directory names allow it.

Spark reads partition columns from directory names, so a filter or a join on them skips whole directories. This is used only for
files whose directory name Spark reads as the value in the manifest. Other files (null or empty partitions, types whose text Spark
reads differently) are scanned by path, and the partition columns are read from the files.

Spark matches Parquet columns by name (by field id only if a setting of the session says so), and its reader widens types and
fills columns that a file lacks with null. So most altered tables need one scan. Files that have other column names, or lack a
column with a default, are scanned by their own names; SQL then computes the table's columns.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import ROW_ADDRESS, ROW_ADDRESS_FIELD, ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.spark.frame_types import lengths, to_spark
from lsmlake.spark.kept_relations import parquet
from lsmlake.spark.mask import PLACE
from lsmlake.spark.settings import READER
from lsmlake.tables.version import Metadata
from lsmlake.types.column_types import field_id, has_sized_text, inner_fields, plain
from lsmlake.types.type_table import column_type
from lsmlake.types.type_text import backticked, format_type

Place = tuple[Bucket, DataFile]

_STORED = {ROW_ADDRESS: ROW_ADDRESS_FIELD, ROW_KIND: ROW_KIND_FIELD}

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # Spark's name of the null partition
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_GLOB_ESCAPE = re.compile(r"\\(.)")


class Group(NamedTuple):
    """Files that one scan can read. `partitioned`: Spark reads the partition columns from directory names."""

    places: list[Place]
    partitioned: bool
    reading: EvolvedRead

    def only(self, places: Sequence[Place]) -> Group:
        return self._replace(places=list(places))


@dataclass(frozen=True)
class Scans:
    """Parquet scans of files of one table, with the columns of `schema`."""

    spark: object
    meta: Metadata
    schema: Schema

    def by_directory(self, files: Sequence[Place]) -> tuple[list[Place], list[Place]]:
        """Splits files into those whose partition values Spark can read from the directory name, and the others."""
        if not self.schema.partition_columns or not all(map(self._is_readable, self.schema.partition_columns)):
            return [], list(files)
        matches = {(bucket, file.directory): self._matches(bucket, file.directory) for bucket, file in files}
        parts: dict[bool, list[Place]] = {True: [], False: []}
        for bucket, file in files:
            parts[matches[bucket, file.directory]].append((bucket, file))
        return parts[True], parts[False]

    def groups(self, files: Sequence[Place]) -> list[Group]:
        """Splits files into those that one scan can read. Groups that Spark prunes by partition come first."""
        readings = {number: self._reading(number) for number in {file.schema_id for _, file in files}}
        grouped: dict[tuple, Group] = {}
        for places, partitioned in zip(self.by_directory(files), (True, False), strict=True):
            for place in places:
                reading = readings[place[1].schema_id]
                group = grouped.setdefault((partitioned, reading.select, str(reading.columns)), Group([], partitioned, reading))
                group.places.append(place)
        return list(grouped.values())

    def _reading(self, schema_id: int) -> EvolvedRead:
        if schema_id == self.schema.id:
            return EvolvedRead(self.schema.row_columns)
        return reading(self.meta.schemas.get(schema_id), self.schema)

    def scan(self, group: Group, added: str | None = None):
        """Scans all columns of the table. With `partitioned`, Spark reads the partition columns from directory names and, in
        files of the current schema, appends them. `added`: a further column, one that files store, as `ROW_ADDRESS` and
        `ROW_KIND`, or `mask.PLACE`."""
        columns = to_spark(self._declared(group.reading, _STORED.get(added)))
        reader = self.spark.read.schema(columns).options(**READER)
        if group.partitioned:
            reader = reader.option("basePath", _GLOB_ESCAPE.sub(r"\1", self.meta.env.storage.uri(self.meta.paths.root)))
        else:
            reader = reader.option("recursiveFileLookup", "true")
        paths = [self.meta.paths.data(file) for _, file in group.places]
        self.meta.env.storage.refuse_links(paths)
        addresses = lambda: [*map(self.meta.env.storage.uri, paths)]  # noqa: E731
        named = columns.json(), group.partitioned, frozenset(paths)
        rows = parquet(self.spark, reader, addresses, self.meta.files.cache, named)
        if group.partitioned:
            for name in self._sized_partitions:  # Spark drops the metadata of columns that it reads from directory names
                rows = rows.withMetadata(name, lengths(self.schema.typed_columns.field(name)))
        further = [] if added is None else [rows.metadataColumn("_metadata").alias(PLACE) if added == PLACE else F.col(added)]
        if group.reading.select is not None:
            named = zip(group.reading.select, self.schema.typed_columns, strict=True)
            return rows.select(*(_named(sql, field) for sql, field in named), *further)
        return rows.select("*", *further) if added == PLACE else rows

    @property
    def _sized_partitions(self) -> list[str]:
        """The partition columns with a VARCHAR(n) or CHAR(n)."""
        return [name for name in self.schema.identity_columns if has_sized_text(self.schema.typed_columns.field(name))]

    def _declared(self, reading: EvolvedRead, added: pa.Field | None) -> pa.Schema:
        """The columns that Spark reads, and `added`. Columns of the table have the lengths of their texts."""
        columns = list(reading.columns)
        if reading.select is None:
            columns = [self.schema.typed_columns.field(one.name).with_nullable(True) for one in columns]
        return pa.schema([*columns, *([added.with_nullable(True)] if added is not None else [])])

    def ordered(self, made: Iterable[str]) -> tuple[str, ...]:
        """Returns a select list for a `partitioned` scan: the columns in table order, without the added columns `made`. It is
        short, since each name costs up to 0.1 ms."""
        first = list(map(backticked, self.schema.columns.names[: len(self.schema.identity_columns)]))
        if sorted(first) == sorted(map(backticked, self.schema.identity_columns)):
            return (*first, f"* except ({', '.join([*first, *made])})")
        return tuple(map(backticked, self.schema.columns.names))

    def _is_readable(self, field: PartitionColumn) -> bool:
        is_column = field.transform.is_identity and field.name == field.column and re.fullmatch(r"\w+", field.name) is not None
        return is_column and column_type(field.type).directory

    def _matches(self, bucket: Bucket, directory: str) -> bool:
        """Whether Spark reads the partition of `bucket` from a directory name."""
        if bucket.spec != self.schema.spec_id:
            return False
        parts = [part.partition("=") for part in directory.split("/") if "=" in part]
        expected = list(zip(self.schema.identity_columns, bucket.partition, strict=True))
        return len(parts) == len(expected) and all(
            name == column and _same(value, text) for (name, _, text), (column, value) in zip(parts, expected, strict=True)
        )


def _named(sql: str, field: pa.Field):
    """An expression with the name and text length of a column of the table."""
    made = F.expr(sql)
    return made.alias(field.name, metadata=lengths(field)) if has_sized_text(field) else made


def _same(value: object, text: str) -> bool:
    """Whether Spark reads `value` from `text`, the part of a directory name after '='."""
    if value is None or text == _HIVE_NULL:
        return False
    if isinstance(value, str):
        return value != "" and _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) == value
    return text == (str(value).lower() if isinstance(value, bool) else str(value))


# -- files of older schemas -------------------------------------------------------------------------------------------


class EvolvedRead(NamedTuple):
    """`columns`: the columns that Spark reads, nullable. `select`: one expression per column of the table, in its order; None:
    the columns are those of the table."""

    columns: pa.Schema
    select: tuple[str, ...] | None = None


def reading(stored: Schema, wanted: Schema) -> EvolvedRead:
    """Returns how to read files that were written under the schema `stored` as rows of the schema `wanted`."""
    ours = {field_id(field): field for field in stored.columns}
    if all(_is_natural(ours.get(field_id(field)), field, stored.columns) for field in wanted.columns):
        return EvolvedRead(wanted.row_columns)
    read, select = [], []
    for field in wanted.columns:
        old = ours.get(field_id(field))
        if old is None:
            made = _constant(field)
        elif _is_natural_type(old.type, field.type):
            read.append(pa.field(old.name, plain(field.type)))
            made = backticked(old.name)
        else:
            read.append(pa.field(old.name, plain(old.type)))
            made = _converted(backticked(old.name), old.type, field.type)
        select.append(f"{made} as {backticked(field.name)}")
    return EvolvedRead(pa.schema(read), tuple(select))


def _is_natural(old: pa.Field | None, new: pa.Field, siblings) -> bool:
    """Whether Spark's reader, which goes by names, reads `old` as `new`; None: fills `new` with null."""
    if old is not None:
        return old.name == new.name and _is_natural_type(old.type, new.type)
    default = default_of(new, INITIAL)
    hidden = any(one.name.lower() == new.name.lower() for one in siblings)
    return not hidden and (default is None or not default.is_valid)


def _is_natural_type(old: pa.DataType, new: pa.DataType) -> bool:
    inside = inner_fields(new)
    if not pa.types.is_struct(new):  # the fields of lists and maps have fixed names
        return all(_is_natural_type(a.type, b.type) for a, b in zip(inner_fields(old), inside, strict=True))
    ours = {field_id(field): field for field in inner_fields(old)}
    some = any(field_id(field) in ours for field in inside)  # else Spark cannot tell a null struct from a struct of nulls
    return some and all(_is_natural(ours.get(field_id(field)), field, inner_fields(old)) for field in inside)


def _converted(value: str, old: pa.DataType, new: pa.DataType, depth: int = 0) -> str:
    """Returns SQL that converts `value`, of the type `old`, to `new`."""
    if not inner_fields(new):
        return value if old == new else f"cast({value} as {format_type(new)})"
    if pa.types.is_struct(new):
        ours = {field_id(field): field for field in inner_fields(old)}
        parts = []
        for field in inner_fields(new):
            stored = ours.get(field_id(field))
            if stored is None:
                inner = _constant(field)
            else:
                inner = _converted(f"{value}.{backticked(stored.name)}", stored.type, field.type, depth)
            parts.append(f"{inner} as {backticked(field.name)}")
        return f"if({value} is null, null, struct({', '.join(parts)}))"
    name = f"v{depth}"
    if pa.types.is_list(new):
        return f"transform({value}, {name} -> {_converted(name, old.value_type, new.value_type, depth + 1)})"
    keys = _converted(name, old.key_type, new.key_type, depth + 1)
    items = _converted(name, old.item_type, new.item_type, depth + 1)
    return f"map_from_arrays(transform(map_keys({value}), {name} -> {keys}), transform(map_values({value}), {name} -> {items}))"


def _constant(field: pa.Field) -> str:
    """Returns SQL for the value of a column that a file lacks. Spark takes it for one that may be null, as a column of files."""
    default, type_ = default_of(field, INITIAL), format_type(plain(field.type))
    if default is None or not default.is_valid:
        return f"cast(null as {type_})"
    return f"if(false, null, {_literal(default, field.type, type_)})"


def _literal(default: pa.Scalar, kind: pa.DataType, type_: str) -> str:
    value = default.as_py()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return _text(value)
    if pa.types.is_timestamp(kind) and kind.tz:
        return f"timestamp_micros({default.cast(pa.int64()).as_py()}L)"
    if isinstance(value, datetime.datetime):
        return f"cast('{value.isoformat(sep=' ')}' as {type_})"
    return f"cast('{value}' as {type_})"


def _text(text: str) -> str:
    """Returns a text literal that has the same value under all session settings."""
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"
