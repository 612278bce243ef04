"""Data files as plain Parquet scans of Catalyst, with Spark's own partition pruning where the directories allow it.

Spark takes the partition columns from the names of directories, so that a filter or a join on them skips whole directories. It
does so only where it reads the same value there that the manifest holds. The other files - null or empty partitions, types
whose text Spark reads in another way - are scanned by path, with the partition columns read from the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.format.files import Bucket, DataFile
from lsmlake.schema.schema import Schema
from lsmlake.spark.settings import READER
from lsmlake.spark.types import quoted, to_spark
from lsmlake.store.metadata import Metadata

Place = tuple[Bucket, DataFile]

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # Spark's name of the null partition
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_GLOB_ESCAPE = re.compile(r"\\(.)")
_DIRECTORY_TYPES = (
    pa.types.is_string,
    pa.types.is_int32,
    pa.types.is_int64,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_boolean,
)


@dataclass(frozen=True)
class Scans:
    """Parquet scans of files of one table, with the columns of `schema`."""

    spark: object
    meta: Metadata
    schema: Schema

    def by_directory(self, files: Sequence[Place]) -> tuple[list[Place], list[Place]]:
        """The files whose directories Spark can read partition values from, and the others."""
        if not self.schema.partition_by or not all(map(self._reads, self.schema.partition_by)):
            return [], list(files)
        tells = {(bucket, file.directory): self._tells(bucket, file.directory) for bucket, file in files}
        parted: dict[bool, list[Place]] = {True: [], False: []}
        for bucket, file in files:
            parted[tells[bucket, file.directory]].append((bucket, file))
        return parted[True], parted[False]

    def scan(self, files: Sequence[Place], *, partitioned: bool):
        """All columns, those of the partition last if `partitioned`: Spark then reads them from the directories."""
        reader = self.spark.read.schema(to_spark(self.schema.row_columns)).options(**READER)
        if partitioned:
            reader = reader.option("basePath", _GLOB_ESCAPE.sub(r"\1", self.meta.env.storage.uri(self.meta.paths.root)))
        else:
            reader = reader.option("recursiveFileLookup", "true")
        return reader.parquet(*[self.meta.env.storage.uri(self.meta.paths.data(file)) for _, file in files])

    def ordered(self, made: Iterable[str]) -> tuple[str, ...]:
        """What to select of a `partitioned` scan to have the columns in their order, without those that were `made` besides. Few
        names, since a name costs up to 0.1 ms."""
        first = list(map(quoted, self.schema.columns.names[: len(self.schema.partition_by)]))
        if sorted(first) == sorted(map(quoted, self.schema.partition_by)):
            return (*first, f"* except ({', '.join([*first, *made])})")
        return tuple(map(quoted, self.schema.columns.names))

    def _reads(self, name: str) -> bool:
        type_ = self.schema.row_columns.field(name).type
        return re.fullmatch(r"\w+", name) is not None and any(is_type(type_) for is_type in _DIRECTORY_TYPES)

    def _tells(self, bucket: Bucket, directory: str) -> bool:
        """Whether Spark reads the partition of `bucket` in the name of a directory."""
        found = [part.partition("=") for part in directory.split("/") if "=" in part]
        expected = list(zip(self.schema.partition_by, bucket.partition, strict=True))
        return len(found) == len(expected) and all(
            name == column and _same(value, text) for (name, _, text), (column, value) in zip(found, expected, strict=True)
        )


def _same(value: object, text: str) -> bool:
    """Whether Spark reads `value` in `text`, the part of a directory's name after '='."""
    if value is None or text == _HIVE_NULL:
        return False
    if isinstance(value, str):
        return value != "" and _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) == value
    return text == (str(value).lower() if isinstance(value, bool) else str(value))
