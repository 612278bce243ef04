"""Reads a Delta table: which files a version of it has, and which of their rows are deleted.

The package deltalake reads the log of the table. Columns have the ids of Delta's column mapping; without a mapping they are
numbered. Files are read by the names of their columns, which a column mapping makes differ from those of the table.

Source: the Delta transaction log protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidQuery, SnapshotNotFound, StorageFailed, UnsupportedFormat
from lsmlake.extras import need
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.imports.foreign import ForeignFile, ForeignTable, unknown_type
from lsmlake.schema.adapt import NamedFields
from lsmlake.schema.partitioning import FIRST_ID, PartitionField, Partitioning, PartitionSpec
from lsmlake.schema.transform import IDENTITY, Transform
from lsmlake.schema.years import check_years
from lsmlake.storage.location import Outside, joined
from lsmlake.storage.object_requests import refusal
from lsmlake.types import column_types
from lsmlake.types.json_shape import shown
from lsmlake.types.type_table import BY_DELTA, named
from lsmlake.undo import pass_interruption

_WHAT = "a table of Delta Lake"
_COMMIT = re.compile(r"[0-9]{20}\.json")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:/", re.I)
_VECTORS, _WIDENING = "deletionVectors", "typeWidening"
_READ = {"columnMapping", _VECTORS, "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", _WIDENING}
"""The features of readers that this module, or deltalake for it, follows."""
_PARTITION = "partition"
_SAID = ("path", "size_bytes", "num_records", _PARTITION)
"""The fields that are read of the log's action for a file."""
_OTHER_PARTITIONS = "write those rows with other values there"
_VOID = "void"
"""The type of columns that have no value and are in no file."""
_MODE, _ID, _PHYSICAL = "delta.columnMapping.mode", "delta.columnMapping.id", "delta.columnMapping.physicalName"


def read_delta(outside: Outside, table: str, version: int | None, *, partitioned: bool) -> ForeignTable:
    """A table as of a version, by default the newest.

    Args:
        outside: reaches the files.
        table: the path or address of its folder.
        version: the number of a version of Delta.
        partitioned: whether its partition columns are partitions of the new table.

    Raises:
        InvalidQuery: there is no such table.
        SnapshotNotFound: there is no such version.
        InvalidSchema: a column has a type that lsmlake does not have.
        UnsupportedFormat: the table has a feature that is not read.
        MissingDependency: deltalake is not installed.
    """
    delta = _opened(outside, table, version)
    _check_features(delta, table)
    columns, names = _DeltaColumns(table).of(json.loads(delta.schema().to_json()))
    described = delta.metadata()
    partition_by = list(described.partition_columns) if partitioned else []
    ids = {field.name: column_types.field_id(field) for field in columns}
    fields = tuple(
        PartitionField(FIRST_ID + number, ids[name], name, Transform(IDENTITY)) for number, name in enumerate(partition_by)
    )
    partitioning = Partitioning((PartitionSpec(0, fields),), 0, 0, FIRST_ID + len(fields) - 1)
    with _reading(table, delta.table_uri):
        actions = pa.table(delta.get_add_actions())
        vectors = _vectors(delta) if _VECTORS in _features(delta) else {}
    if _PARTITION in actions.column_names:
        check_years(actions[_PARTITION], f"{table}, values of partitions", _OTHER_PARTITIONS)
    known = actions.select([name for name in _SAID if name in actions.column_names])  # bounds may be dates that Python lacks
    files = list(_files(known.to_pylist(), vectors, table, described.partition_columns, partition_by, columns))
    highest = max([*column_types.field_ids(columns), int(described.configuration.get("delta.columnMapping.maxColumnId", 0))])
    return ForeignTable(table, columns, highest, partitioning, files, comment=described.description, names=names, by_name=True)


def _opened(outside: Outside, table: str, version: int | None) -> Any:
    """The table, as deltalake reads it."""
    deltalake = need("deltalake", _WHAT)
    uri, settings = outside.foreign(table)
    if unquote(unquote(uri)) != unquote(uri):
        raise InvalidQuery(
            "deltalake does not read a folder whose name has a percent sign and two hexadecimal digits",
            where=table,
            expected="another name",
            cure="rename the folder, or name a symbolic link to it",
        )
    if not any(outside.list(joined(table, "_delta_log"))):
        raise InvalidQuery(
            "no Delta table found", where=table, expected="the path or address of its folder", cure="correct the path"
        )
    try:
        with _reading(table, uri):
            delta = deltalake.DeltaTable(uri, storage_options=settings or None)
    except StorageFailed:
        _refuse_unknown(_stated_features(outside, table), table)  # deltalake opens no table with a feature that it does not know
        raise
    newest = delta.version()
    if version is None:
        return delta
    if 0 <= version <= newest:
        try:
            delta.load_as_version(version)
            return delta
        except Exception as error:  # of many kinds; their texts can hold secrets
            pass_interruption(error)
    raise SnapshotNotFound(
        f"the Delta table has no version {version}",
        where=table,
        expected=f"a version that its log still has, at most {newest}",
        cure="name one of those that its history lists",
    )


@contextmanager
def _reading(table: str, uri: str) -> Iterator[None]:
    """Raises errors of deltalake as StorageFailed, without texts of object stores, which can hold secrets."""
    try:
        yield
    except Exception as error:  # of many kinds
        pass_interruption(error)
        reason = shown(str(error)) if uri.startswith("file:") else refusal(error).found
    else:
        return
    raise StorageFailed(
        "the Delta table cannot be read",
        where=table,
        expected="a whole log",
        found=reason,
        cure="correct the path or the settings of the object store, or restore the log",
    )


def _features(table: Any) -> set[str]:
    """The features that readers of the table must know."""
    return set(table.protocol().reader_features or ())


def _stated_features(outside: Outside, table: str) -> set[str]:
    """The features of the newest protocol in the commits of the log; none if there is none."""
    folder = joined(table, "_delta_log")
    for name in sorted((entry.path for entry in outside.list(folder) if _COMMIT.fullmatch(entry.path)), reverse=True):
        for line in outside.read(joined(folder, name)).splitlines():
            with suppress(ValueError, AttributeError, TypeError):  # the log may be damaged
                if "protocol" in (action := json.loads(line)):
                    return {str(one) for one in action["protocol"].get("readerFeatures", ())}
    return set()


def _check_features(table: Any, where: str) -> None:
    """Raises UnsupportedFormat if reading the table right takes a feature that is not known."""
    features = _features(table)
    if features >= {_VECTORS, _WIDENING}:
        raise UnsupportedFormat(
            "deltalake does not read deletion vectors of tables with type widening",
            where=where,
            expected=f"not both of the features {_VECTORS} and {_WIDENING}",
            found="both",
            cure="drop one of them there (ALTER TABLE ... DROP FEATURE)",
        )
    if table.metadata().configuration.get(_MODE) == "id":
        raise UnsupportedFormat(
            "the Delta table finds columns by their ids only",
            where=where,
            expected=f"{_MODE} none or name",
            found="id",
            cure="write its rows with Spark",
        )
    _refuse_unknown(features, where)


def _refuse_unknown(features: set[str], where: str) -> None:
    if unknown := features - _READ:
        raise UnsupportedFormat(
            "the Delta table has a feature that is not read",
            where=where,
            expected=f"some of {', '.join(sorted(_READ))}",
            found=", ".join(sorted(unknown)),
            cure="drop the feature there (ALTER TABLE ... DROP FEATURE), or write its rows with Spark",
        )


class _DeltaColumns:
    """Makes columns with field ids, and the names that they have in files."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.next_id = count(1)

    def of(self, schema: Mapping) -> tuple[pa.Schema, tuple[NamedFields, ...]]:
        self.next_id = count(1 + max(self._given(schema), default=0))
        fields, names = self._fields(schema, "")
        return pa.schema(fields), names

    def _given(self, content: object) -> Iterator[int]:
        """The ids of the column mapping, at any depth."""
        if isinstance(content, Mapping):
            for field in content.get("fields", ()):
                if _ID in field["metadata"]:
                    yield field["metadata"][_ID]
            for inner in content.values():
                yield from self._given(inner)
        elif isinstance(content, list):
            for inner in content:
                yield from self._given(inner)

    def _fields(self, struct: Mapping, path: str) -> tuple[list[pa.Field], tuple[NamedFields, ...]]:
        made = [self._field(field, f"{path}{field['name']}") for field in struct["fields"] if path or field["type"] != _VOID]
        return [field for field, _ in made], tuple(named for _, named in made)

    def _field(self, content: Mapping, path: str) -> tuple[pa.Field, NamedFields]:
        about = content["metadata"]
        id = about.get(_ID) or next(self.next_id)
        type_, inner = self._type(content["type"], path)
        metadata = {column_types.FIELD_ID: str(id).encode()}
        if about.get("comment"):
            metadata[column_types.COMMENT] = about["comment"].encode()
        field = pa.field(content["name"], type_, content["nullable"], metadata)
        return field, NamedFields(id, (about.get(_PHYSICAL, content["name"]),), inner)

    def _type(self, content: object, path: str) -> tuple[pa.DataType, tuple[NamedFields, ...]]:
        if isinstance(content, str):
            if (known := named(content, BY_DELTA)) is not None:
                return known.arrow, ()
        elif content["type"] == "struct":
            fields, names = self._fields(content, f"{path}.")
            return pa.struct(fields), names
        elif content["type"] == "array":
            element, of_element = self._inner("element", content["elementType"], content["containsNull"], path)
            return pa.list_(element), (of_element,)
        elif content["type"] == "map":
            key, of_keys = self._inner("key", content["keyType"], False, path)
            value, of_values = self._inner("value", content["valueType"], content["valueContainsNull"], path)
            return pa.map_(key, value), (of_keys, of_values)
        raise unknown_type(content, f"{self.where}, column {path!r}", f"{', '.join(BY_DELTA)}, decimal, struct, array or map")

    def _inner(self, name: str, content: object, nullable: bool, path: str) -> tuple[pa.Field, NamedFields]:
        id = next(self.next_id)
        type_, inner = self._type(content, f"{path}.{name}")
        return pa.field(name, type_, nullable, {column_types.FIELD_ID: str(id).encode()}), NamedFields(id, (name,), inner)


def _files(
    actions: Sequence[Mapping],
    vectors: dict[str, DeletionVector],
    root: str,
    stored_apart: Sequence[str],
    partition_by: Sequence[str],
    columns: pa.Schema,
) -> Iterator[ForeignFile]:
    """The data files of a version.

    Args:
        actions: the actions of the log that add the files, one for each file.
        vectors: the deleted rows of files, by their names.
        root: the folder of the table.
        stored_apart: the partition columns of Delta, whose values are in its log.
        partition_by: the partition columns that are kept.
    """
    for action in actions:
        name = unquote(action["path"])
        partition = action.get(_PARTITION) or {}
        values = {key: pa.scalar(partition.get(key), columns.field(key).type).as_py() for key in stored_apart}
        yield ForeignFile(
            name,
            name if _ABSOLUTE.match(name) else joined(root, name),
            "parquet",
            action["size_bytes"],
            action["num_records"],
            0,
            tuple(values[key] for key in partition_by),
            (),
            0,
            {column_types.field_id(columns.field(key)): value for key, value in values.items()},
            vector=vectors.pop(name, None),
        )
    assert not vectors, "each vector belongs to a file of the version"


def _vectors(table: Any) -> dict[str, DeletionVector]:
    """The deleted rows of the files that have such rows, by their names."""
    vectors, root = {}, unquote(table.table_uri)
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, kept in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            dead = np.flatnonzero(~kept.values.to_numpy(zero_copy_only=False))
            vectors[unquote(uri).removeprefix(root)] = DeletionVector.of(dead)
    return vectors
