"""Scans data files with Catalyst's Parquet reader, with Spark's own partition pruning where the directory names allow it.

Spark reads partition columns from directory names, so a filter or a join on them skips whole directories. This is used only for
files whose directory name Spark reads as the value in the manifest. Other files (null or empty partitions, types whose text Spark
reads differently) are scanned by path, and the partition columns are read from the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.format.files import Bucket, DataFile
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema
from lsmlake.spark.evolved import EvolvedRead, reading
from lsmlake.spark.settings import READER
from lsmlake.spark.types import lengths, to_spark
from lsmlake.tables.metadata import Metadata
from lsmlake.types.table import column_type
from lsmlake.types.type_text import backticked
from lsmlake.types.types import has_sized_text

Place = tuple[Bucket, DataFile]

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
        found: dict[tuple, Group] = {}
        for places, partitioned in zip(self.by_directory(files), (True, False), strict=True):
            for place in places:
                reading = readings[place[1].schema_id]
                group = found.setdefault((partitioned, reading.select, str(reading.columns)), Group([], partitioned, reading))
                group.places.append(place)
        return list(found.values())

    def _reading(self, schema_id: int) -> EvolvedRead:
        if schema_id == self.schema.id:
            return EvolvedRead(self.schema.row_columns)
        return reading(self.meta.schemas.get(schema_id), self.schema)

    def scan(self, group: Group, extra: Callable[[object], Sequence[object]] = lambda rows: ()):
        """Scans all columns of the table. With `partitioned`, Spark reads the partition columns from directory names and, in
        files of the current schema, appends them. `extra`: returns further columns to select, given the scan of the stored
        columns."""
        reader = self.spark.read.schema(to_spark(self._declared(group.reading))).options(**READER)
        if group.partitioned:
            reader = reader.option("basePath", _GLOB_ESCAPE.sub(r"\1", self.meta.env.storage.uri(self.meta.paths.root)))
        else:
            reader = reader.option("recursiveFileLookup", "true")
        paths = [self.meta.paths.data(file) for _, file in group.places]
        self.meta.env.storage.refuse_links(paths)
        rows = reader.parquet(*map(self.meta.env.storage.uri, paths))
        if group.partitioned:
            for name in self._sized_partitions:  # Spark drops the metadata of columns that it reads from directory names
                rows = rows.withMetadata(name, lengths(self.schema.typed_columns.field(name)))
        added = extra(rows)
        if group.reading.select is not None:
            named = zip(group.reading.select, self.schema.typed_columns, strict=True)
            return rows.select(*(_named(sql, field) for sql, field in named), *added)
        return rows.select("*", *added) if added else rows

    @property
    def _sized_partitions(self) -> list[str]:
        """The partition columns with a VARCHAR(n) or CHAR(n)."""
        return [name for name in self.schema.identity_columns if has_sized_text(self.schema.typed_columns.field(name))]

    def _declared(self, reading: EvolvedRead) -> pa.Schema:
        """The columns that Spark reads; those of the table with the lengths of their texts."""
        if reading.select is not None:
            return reading.columns
        return pa.schema([self.schema.typed_columns.field(one.name).with_nullable(True) for one in reading.columns])

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
        found = [part.partition("=") for part in directory.split("/") if "=" in part]
        expected = list(zip(self.schema.identity_columns, bucket.partition, strict=True))
        return len(found) == len(expected) and all(
            name == column and _same(value, text) for (name, _, text), (column, value) in zip(found, expected, strict=True)
        )


def _named(sql: str, field: pa.Field):
    """An expression as a column of the table."""
    made = F.expr(sql)
    return made.alias(field.name, metadata=lengths(field)) if has_sized_text(field) else made


def _same(value: object, text: str) -> bool:
    """Whether Spark reads `value` from `text`, the part of a directory name after '='."""
    if value is None or text == _HIVE_NULL:
        return False
    if isinstance(value, str):
        return value != "" and _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) == value
    return text == (str(value).lower() if isinstance(value, bool) else str(value))
