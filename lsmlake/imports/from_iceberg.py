"""Reads the metadata of an Iceberg table, format versions 1 to 3: which files a snapshot has, and which deletes.

1. Find the metadata file (`iceberg_metadata`).
2. Read the manifest list of the snapshot and its manifests. An entry without a sequence number inherits that of its manifest.
3. A vector of version 3 belongs to the data file that it references; other deletes apply by partition and sequence number.

Files carry absolute addresses. If the table was moved, so that its manifest list is not where it was, all addresses below its old
location are taken as below the folder of the metadata file.

Source: the specification of Apache Iceberg.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidData, InvalidQuery, InvalidSchema, SnapshotNotFound
from lsmlake.iceberg.avro import DATA, DELETED, EQUALITY_DELETES, POSITION_DELETES
from lsmlake.imports.foreign import (
    COMPACT_THERE,
    EqualityDeletes,
    ForeignFile,
    ForeignTable,
    ForeignVector,
    PositionDeletes,
)
from lsmlake.imports.iceberg_metadata import Record, metadata_of, records
from lsmlake.imports.iceberg_types import Spec, columns_of, names_of, partitioning_of
from lsmlake.schema.partitioning import FIRST_ID, Partitioning
from lsmlake.schema.years import check_years
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.location import Outside, joined
from lsmlake.types import column_types
from lsmlake.types.type_table import is_time, of_integers

_OTHER_PARTITIONS = "write those rows with other values there"


def read_iceberg(
    outside: Outside, table: str, snapshot: int | None, *, newest: bool, partitioned: bool, workers: int
) -> ForeignTable:
    """A table as of a snapshot, by default the current one.

    Args:
        outside: reaches the files.
        table: as in `Lake.import_iceberg`.
        snapshot: the id of a snapshot of Iceberg.
        newest: as in `Lake.import_iceberg`.
        partitioned: whether to keep the partition specs.
        workers: how many manifests to read side by side.

    Raises:
        InvalidQuery: there is no such table, or the folder does not tell which file is its metadata.
        SnapshotNotFound: there is no such snapshot.
        InvalidSchema: lsmlake does not have the type of a column, or the kind of a partition field.
        InvalidData: the table has files that are not read.
        Corrupt, UnsupportedFormat: the metadata is damaged, or newer.
        MissingDependency: fastavro is not installed, or PyIceberg for the name of a table in a catalog.
        StorageFailed: the metadata cannot be read; or the catalog refused, or did not answer.
    """
    uri, content = metadata_of(outside, table, newest)
    chosen = _snapshot(content, snapshot, table)
    reader = _MetadataReader(outside, table, uri, content, _move(outside, uri, content, chosen), workers)
    return reader.table(chosen, snapshot is not None, partitioned)


class _Move(NamedTuple):
    """Where a table was and is: `old` are spellings of its old folder; none if it was not moved."""

    old: tuple[str, ...]
    new: str

    def of(self, uri: str) -> str:
        """Where a file is now, given its address in the metadata."""
        return next((self.new + uri[len(old) :] for old in self.old if uri.startswith(old)), uri)


def _move(outside: Outside, uri: str, content: Mapping, snapshot: Mapping | None) -> _Move:
    """The location of a table may be spelled otherwise than the addresses of its files: `./x` and `x/metadata/...`, or
    `file:///x` and `/x/metadata/...`. So the folder above that of the manifest list is one of its spellings."""
    listed, new = (snapshot or {}).get("manifest-list", ""), joined(_parent(_parent(uri)), "")
    if not listed or _is_there(outside, listed):
        return _Move((), new)
    location = str(content.get("location", "")).rstrip("/")
    return _Move(tuple(joined(old, "") for old in (location, _parent(_parent(listed))) if old), new)


def _parent(uri: str) -> str:
    """The folder that a file or folder is in."""
    folder, _, name = uri.rpartition("/")
    return joined(uri, "..") if name in (".", "..") else folder or ("/" if uri.startswith("/") else ".")


def _is_there(outside: Outside, uri: str) -> bool:
    try:
        return outside.exists(uri)
    except InvalidQuery:  # in a store that is not known here, such as HDFS
        return False


def _snapshot(content: Mapping, id: int | None, table: str) -> Mapping | None:
    """The snapshot of this id, or the current one; None if the table has none."""
    wanted = content.get("current-snapshot-id") if id is None else id
    if id is None and wanted in (None, -1):
        return None
    known = {one["snapshot-id"]: one for one in content.get("snapshots") or ()}
    if wanted not in known:
        raise SnapshotNotFound(
            f"the table has no snapshot {wanted}", where=table, expected=f"one of {sorted(known)}", cure="name one of them"
        )
    return known[wanted]


class _LiveEntry(NamedTuple):
    """A live entry of a manifest: the file, the id of its spec in Iceberg, and its sequence number."""

    file: Record
    spec: int
    sequence: int

    @property
    def scope(self) -> tuple:
        """Tells its partition from others: to Iceberg, unlike to Python, 0.0 and -0.0 are two values, and NaN equals NaN."""
        partition = (self.file.get("partition") or {}).items()
        return self.spec, tuple(sorted((id, repr(value) if isinstance(value, float) else value) for id, value in partition))

    @property
    def uri(self) -> str:
        return self.file["file_path"]


@dataclass(frozen=True)
class _MetadataReader:
    """Reads the table whose metadata file `uri` has this content. `where`: the table as the user named it."""

    outside: Outside
    where: str
    uri: str
    content: Mapping
    move: _Move
    workers: int

    def table(self, snapshot: Mapping | None, named: bool, partitioned: bool) -> ForeignTable:
        """The table as of a snapshot. `named`: with the columns of that time, not the current ones."""
        content = self.content
        try:
            return self._table(snapshot, named, partitioned)
        except (KeyError, TypeError, StopIteration) as broken:
            raise Corrupt(
                "Iceberg metadata lacks what the specification demands",
                where=self.uri,
                expected=f"metadata of format version {content['format-version']}",
                found=repr(broken),
                cure="name another metadata file of the table, or another snapshot",
            ) from broken

    def _table(self, snapshot: Mapping | None, named: bool, partitioned: bool) -> ForeignTable:
        content = self.content
        schemas = content.get("schemas") or [{"schema-id": 0, **content["schema"]}]
        wanted = content.get("current-schema-id", 0)
        if snapshot is not None and named:
            wanted = snapshot.get("schema-id", wanted)
        schema = next(one for one in schemas if one.get("schema-id", 0) == wanted)
        columns = columns_of(schema, self.where)
        highest = max(content["last-column-id"], *column_types.field_ids(columns))
        specs = content.get("partition-specs") or [{"spec-id": 0, "fields": content["partition-spec"]}]
        last = content.get("last-partition-id") or max((f["field-id"] for s in specs for f in s["fields"]), default=FIRST_ID - 1)
        entries = [] if snapshot is None else self._entries(snapshot)
        current = content.get("default-spec-id", 0)
        used = {entry.spec for entry in entries} | {current}
        partitioning, known = partitioning_of(
            [spec for spec in specs if spec["spec-id"] in used],
            current,
            columns,
            max(last, FIRST_ID - 1),
            kept=partitioned,
            where=self.where,
        )
        properties = content.get("properties") or {}
        mapping = properties.get("schema.name-mapping.default")
        everywhere = {spec["spec-id"] for spec in specs if all(one["transform"] == "void" for one in spec["fields"])}
        return ForeignTable(
            self.where,
            columns,
            highest,
            partitioning,
            self._files(entries, columns, partitioning, known, specs),
            [
                PositionDeletes(
                    self._moved(one.uri),
                    one.file["file_size_in_bytes"],
                    one.scope,
                    one.sequence,
                    one.file.get("referenced_data_file"),
                )
                for one in self._of(entries, POSITION_DELETES)
                if _format(one) == "parquet"
            ],
            [
                EqualityDeletes(
                    self._moved(one.uri),
                    one.file["file_size_in_bytes"],
                    one.file["record_count"],
                    one.scope,
                    one.spec in everywhere,
                    one.sequence,
                    tuple(one.file["equality_ids"]),
                )
                for one in self._of(entries, EQUALITY_DELETES)
            ],
            self._dropped(schemas, columns),
            properties.get("comment"),
            names_of(json.loads(mapping)) if mapping else (),
            next_row_id=content.get("next-row-id", 0),
        )

    # -- manifests ------------------------------------------------------------------------------------------------------

    def _moved(self, uri: str) -> str:
        return self.move.of(uri)

    def _entries(self, snapshot: Mapping) -> list[_LiveEntry]:
        if "manifest-list" not in snapshot:
            raise InvalidData(
                "a snapshot without a manifest list, as early writers of Iceberg made it, is not read",
                where=self.where,
                found=f"snapshot {snapshot['snapshot-id']}",
                cure="write to the table there with a newer release of Iceberg, and import it again",
            )
        read = [partial(self._live, manifest) for manifest in self._records(snapshot["manifest-list"])]
        return [entry for some in side_by_side(read, self.workers) for entry in some]

    def _records(self, uri: str) -> list[Record]:
        uri = self._moved(uri)
        try:
            data = self.outside.read(uri)
        except FileNotFoundError as missing:
            raise Corrupt(
                "a manifest of Iceberg is missing",
                where=uri,
                cure="restore it; if the table was moved, name its folder where it is now",
            ) from missing
        return list(records(data, uri))

    def _live(self, manifest: Record) -> list[_LiveEntry]:
        _refuse_encrypted(manifest.get("key_metadata"), manifest["manifest_path"])
        inherited, entries = manifest.get("sequence_number") or 0, []
        for entry in self._records(manifest["manifest_path"]):
            if entry["status"] != DELETED:
                file, sequence = entry["data_file"], entry.get("sequence_number")
                _refuse_encrypted(file.get("key_metadata"), file["file_path"])
                entries.append(_LiveEntry(file, manifest["partition_spec_id"], inherited if sequence is None else sequence))
        return entries

    def _of(self, entries: Sequence[_LiveEntry], content: int) -> list[_LiveEntry]:
        return [entry for entry in entries if (entry.file.get("content") or DATA) == content]

    # -- files ----------------------------------------------------------------------------------------------------------

    def _files(
        self,
        entries: Sequence[_LiveEntry],
        columns: pa.Schema,
        partitioning: Partitioning,
        known: Mapping[int, Spec],
        specs: Sequence[Mapping],
    ) -> list[ForeignFile]:
        vectors = self._vectors(entries)
        values = _PartitionValues(columns, partitioning, specs)
        floats = [column_types.field_id(field) for field in columns if pa.types.is_floating(field.type)]
        files = []
        for entry in self._of(entries, DATA):
            file, spec, partition = entry.file, known[entry.spec], entry.file.get("partition") or {}
            nans = {one["key"]: one["value"] for one in file.get("nan_value_counts") or ()}
            vector = vectors.get(entry.uri)
            if vector is not None and vector[0] < entry.sequence:
                vector = None
            files.append(
                ForeignFile(
                    entry.uri,
                    self._moved(entry.uri),
                    _format(entry),
                    file["file_size_in_bytes"],
                    file["record_count"],
                    spec.id,
                    tuple(values.of(id, partition.get(id), entry.uri) for id in spec.fields),
                    entry.scope,
                    entry.sequence,
                    values.constants(entry.spec, partition, entry.uri),
                    frozenset(id for id in floats if nans.get(id) == 0),
                    None if vector is None else vector[1],
                )
            )
        return files

    def _vectors(self, entries: Sequence[_LiveEntry]) -> dict[str, tuple[int, ForeignVector]]:
        """The vector of each data file, by the address of the file as in the metadata, with its sequence number."""
        vectors: dict[str, tuple[int, ForeignVector]] = {}
        for entry in self._of(entries, POSITION_DELETES):
            format_, file = _format(entry), entry.file
            if format_ == "puffin":
                place = file["content_offset"], file["content_size_in_bytes"]
                vector = ForeignVector(self._moved(entry.uri), *place, file["record_count"])
                vectors[file["referenced_data_file"]] = entry.sequence, vector
            elif format_ != "parquet":
                raise InvalidData(
                    "a file of position deletes has a format that is not read",
                    where=entry.uri,
                    expected="Parquet or Puffin",
                    found=format_,
                    cure=COMPACT_THERE,
                )
        return vectors

    def _dropped(self, schemas: Sequence[Mapping], columns: pa.Schema) -> list[pa.Field]:
        fields: dict[int, pa.Field] = {}
        for schema in schemas:
            for one in schema["fields"]:
                with suppress(InvalidSchema):  # of a type that lsmlake does not have
                    fields |= {column_types.field_id(field): field for field in columns_of({"fields": [one]}, self.where)}
        return [field for id, field in fields.items() if id not in map(column_types.field_id, columns)]


def _format(entry: _LiveEntry) -> str:
    return entry.file["file_format"].lower()


def _refuse_encrypted(key: object, where: str) -> None:
    if key is not None:
        raise InvalidData(
            "a file is encrypted", where=where, expected="files without encryption", cure="rewrite the table there without it"
        )


class _PartitionValues:
    """Partition values as lsmlake holds them, by the id of the field."""

    def __init__(self, columns: pa.Schema, partitioning: Partitioning, specs: Sequence[Mapping]) -> None:
        types_ = {column_types.field_id(field): field.type for field in columns}
        self.types = {one.id: one.transform.result(column_types.plain(types_[one.source])) for one in partitioning.fields}
        self.identities = {
            spec["spec-id"]: {
                one["field-id"]: (one["source-id"], column_types.plain(types_[one["source-id"]]))
                for one in spec["fields"]
                if one["transform"] == "identity" and one.get("source-id") in types_
            }
            for spec in specs
        }

    def of(self, id: int, value: object, where: str) -> object:
        """The value of a field. `where`: the data file, for messages."""
        return _value(value, self.types[id], where)

    def constants(self, spec: int, partition: Record, where: str) -> dict[int, object]:
        """The values of the columns that are partition fields themselves, by field id."""
        known = self.identities[spec].items()
        return {source: _value(partition[id], type_, where) for id, (source, type_) in known if id in partition}


def _value(value: object, type_: pa.DataType, where: str) -> object:
    """A partition value. Raises InvalidData for a date or time that no table takes."""
    if not is_time(type_):
        return pa.scalar(value, type_).as_py()
    values = of_integers(pa.array([value], pa.int64()), type_)
    check_years(values, f"{where}, a partition value", _OTHER_PARTITIONS)
    return values[0].as_py()
