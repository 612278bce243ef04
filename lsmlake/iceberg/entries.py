"""The manifest entries of Iceberg for the files of a table: data files, deletion vectors and equality deletes.

An entry is a record as `avro` reads and writes it. Partition values are as in manifests of lsmlake, but times are numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lsmlake.format.data_files import Bucket, ColumnStats, DataFile
from lsmlake.iceberg import avro
from lsmlake.iceberg.avro import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    NOTES,
    POSITION_DELETES,
    partition_name,
)
from lsmlake.iceberg.schemas import binary, published
from lsmlake.iceberg.table_metadata import UNSORTED
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types
from lsmlake.types.type_table import number_of

Entry = dict[str, Any]
"""A record of a manifest, with the names of the specification, and its `Point` under `point`. Points are kept in the header of
the manifest."""


class Point(NamedTuple):
    """The search key for the entry of a data file or of its vector: the bucket number, and the sequence of the data file."""

    bucket: int
    sequence: int


class SnapshotNumbers(NamedTuple):
    """The numbers of a snapshot of Iceberg: its id, and its sequence number."""

    id: int
    sequence: int


class VectorPlace(NamedTuple):
    """The place of a Puffin file and of a vector in it."""

    uri: str
    bytes: int
    offset: int
    length: int
    cardinality: int


class EntryKey(NamedTuple):
    """Identifies a live entry: its content, and the URI of its file (for a vector, the URI of its data file)."""

    content: int
    uri: str


def key_of(entry: Entry) -> EntryKey:
    file = entry["data_file"]
    return EntryKey(file["content"], file["referenced_data_file"] or file["file_path"])


class Made(NamedTuple):
    """Makes the entries that a snapshot adds. `schema`: the schema of the table at the snapshot. `number`: the numbers of the
    snapshot."""

    schema: Schema
    number: SnapshotNumbers

    def data(self, uri: str, bucket: Bucket, file: DataFile, first_row: int, order: int) -> Entry:
        """The entry of a data file. `first_row`: the id of its first row. `order`: the id of the sort order of sorted files."""
        stats = _stats(self.schema, file, published(self.schema))
        return self._entry(
            DATA,
            uri,
            bucket,
            file,
            file.sequence,
            **stats,
            first_row_id=first_row,
            sort_order_id=order if file.sorted else UNSORTED,
        )

    def equality_deletes(self, uri: str, bucket: Bucket, file: DataFile) -> Entry:
        """The entry that lists a file as equality deletes: its rows delete older rows with the same keys."""
        ids = self.schema.field_ids()
        equal = [ids[name] for name in self.schema.key]
        stats = _stats(self.schema, file, self.schema.key)
        return self._entry(EQUALITY_DELETES, uri, bucket, file, file.sequence, **stats, equality_ids=equal)

    def vector(self, uri: str, bucket: Bucket, file: DataFile, place: VectorPlace) -> Entry:
        """The entry of a deletion vector. `uri`: the URI of the data file."""
        return self._entry(
            POSITION_DELETES,
            place.uri,
            bucket,
            file,
            self.number.sequence,
            file_format="PUFFIN",
            record_count=place.cardinality,
            file_size_in_bytes=place.bytes,
            referenced_data_file=uri,
            content_offset=place.offset,
            content_size_in_bytes=place.length,
        )

    def _entry(self, content: int, path: str, bucket: Bucket, file: DataFile, sequence: int | None, **more: object) -> Entry:
        columns = self.schema.partition_columns_of(bucket.spec)
        pairs = zip(columns, bucket.partition, strict=True)
        described = {
            "content": content,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": {partition_name(column.name): number_of(value) for column, value in pairs},
            "record_count": file.rows,
            "file_size_in_bytes": file.bytes,
        }
        return {
            "point": Point(bucket.number, file.sequence),
            "status": ADDED,
            "snapshot_id": self.number.id,
            "sequence_number": sequence,
            "file_sequence_number": self.number.sequence,
            "data_file": {**_NOTHING, **described, **more},
        }


_NOTHING = {
    name: None
    for name in (
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
        "key_metadata",
        "split_offsets",
        "equality_ids",
        "sort_order_id",
        "first_row_id",
        "referenced_data_file",
        "content_offset",
        "content_size_in_bytes",
    )
}


def existing(entry: Entry) -> Entry:
    """The entry as a later manifest repeats it, with the status "existing"."""
    return entry if entry["status"] == EXISTING else {**entry, "status": EXISTING}


def deleted(entry: Entry, snapshot: int) -> Entry:
    """The entry as the snapshot that removes the file writes it, with the status "deleted"."""
    return {**entry, "status": DELETED, "snapshot_id": snapshot}


def encode(schema: Schema, spec: int, entries: Sequence[Entry], *, deletes: bool) -> bytes:
    """Encodes a manifest."""
    notes = {NOTES: json.dumps([entry["point"] for entry in entries])}
    return avro.write_manifest(schema, spec, "deletes" if deletes else "data", entries, notes)


def decode(data: bytes, where: str) -> list[Entry]:
    """The entries of a manifest that `encode` made."""
    entries, header = avro.read(data, where)
    for entry, point in zip(entries, json.loads(header[NOTES]), strict=True):
        entry["point"] = Point(*point)
        partition = entry["data_file"]["partition"]
        partition.update({name: number_of(value) for name, value in partition.items()})
    return entries


def _stats(schema: Schema, file: DataFile, names: Sequence[str]) -> Mapping[str, list[dict]]:
    """Counts and bounds of the columns whose statistics a manifest holds."""
    counts, nulls, nans, low, high = [], [], [], [], []
    for name in names:
        field = schema.columns.field(name)
        id = column_types.field_id(field)
        stats: ColumnStats | None = file.stats.get(id)
        if stats is None or pa.types.is_nested(field.type):
            continue
        counts.append({"key": id, "value": file.rows})
        nulls.append({"key": id, "value": stats.nulls})
        if pa.types.is_floating(field.type) and (stats.min is not None or stats.nulls == file.rows):
            nans.append({"key": id, "value": 0})  # a column with a NaN has no bounds
        for side, bound in ((low, stats.min), (high, stats.max)):
            if bound is not None:
                side.append({"key": id, "value": binary(bound, field.type)})
    return {
        "value_counts": counts,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": low,
        "upper_bounds": high,
    }
