"""A reader of Iceberg tables, written from the specification of format version 3 with loops and dictionaries.

It shares no code with the library. Avro files are read by fastavro, Parquet files by pyarrow; columns are found by field id.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import fastavro
import pyarrow.parquet as pq
from pyroaring import BitMap64

Read = Callable[[str], bytes]
"""The content of a file by its URI."""


ROW_ID = 2147483540
"""The field id of the column `_row_id`."""


class LiveFile(NamedTuple):
    """A data file of a snapshot: its URI, sequence number, partition, spec, first row id, and its dead positions."""

    uri: str
    sequence: int
    partition: tuple
    spec: int
    first_row: int
    rows: int
    dead: frozenset[int]


class Deletes(NamedTuple):
    uri: str
    sequence: int
    partition: tuple
    spec: int
    ids: tuple[int, ...]


class IcebergReader:
    """`metadata`: the content of a metadata file."""

    def __init__(self, metadata: dict, read: Read) -> None:
        self.metadata, self.read = metadata, read
        self.snapshots = {one["snapshot-id"]: one for one in metadata["snapshots"]}
        check_metadata(metadata)

    def rows(self, snapshot: int | None = None) -> list[dict]:
        """The rows of a snapshot, by default the current one, with the columns of its schema (of the current one the current
        schema), in any order."""
        if snapshot is None and "current-snapshot-id" not in self.metadata:
            return []
        schema_id = self.metadata["current-schema-id"] if snapshot is None else self.snapshots[snapshot]["schema-id"]
        number = self.metadata["current-snapshot-id"] if snapshot is None else snapshot
        schema = next(one for one in self.metadata["schemas"] if one["schema-id"] == schema_id)
        files, deletes = self.files(number)
        keys = {one: self._keys(one) for one in deletes}
        found = []
        for file in files:
            table = pq.read_table(io.BytesIO(self.read(file.uri)))
            columns = {int(field.metadata[b"PARQUET:field_id"]): table[field.name].to_pylist() for field in table.schema}
            applied = [
                one
                for one in deletes
                if one.sequence > file.sequence
                and (not one.partition or (one.spec, one.partition) == (file.spec, file.partition))
            ]
            for row in range(table.num_rows):
                if row in file.dead or any(tuple(columns[id][row] for id in one.ids) in keys[one] for one in applied):
                    continue
                found.append({field["name"]: value_of(field, columns, row) for field in schema["fields"]})
        return found

    def row_ids(self, snapshot: int) -> list[int]:
        """Of all rows in the data files of a snapshot, dead ones too: those that a file holds, and for others its own ones."""
        found = []
        for file in self.files(snapshot)[0]:
            table = pq.read_table(io.BytesIO(self.read(file.uri)))
            ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
            held = table[ids.index(ROW_ID)].to_pylist() if ROW_ID in ids else [None] * table.num_rows
            found += [file.first_row + row if id is None else id for row, id in enumerate(held)]
        return found

    def _keys(self, deletes: Deletes) -> set[tuple]:
        table = pq.read_table(io.BytesIO(self.read(deletes.uri)))
        columns = {int(field.metadata[b"PARQUET:field_id"]): table[field.name].to_pylist() for field in table.schema}
        return set(zip(*(columns[id] for id in deletes.ids), strict=True))

    def files(self, snapshot: int) -> tuple[list[LiveFile], list[Deletes]]:
        """The data files of a snapshot and its equality deletes."""
        data, deletes, vectors = [], [], {}
        for manifest, entry in self.entries(snapshot):
            if entry["status"] == 2:
                continue
            file, spec = entry["data_file"], manifest["partition_spec_id"]
            sequence = manifest["sequence_number"] if entry["sequence_number"] is None else entry["sequence_number"]
            partition = tuple(file["partition"].values())
            if file["content"] == 0:
                data.append((file, sequence, partition, spec))
            elif file["content"] == 2:
                deletes.append(Deletes(file["file_path"], sequence, partition, spec, tuple(file["equality_ids"])))
            else:
                assert file["file_format"].upper() == "PUFFIN"
                assert file["referenced_data_file"] not in vectors, "two vectors of one data file"
                vectors[file["referenced_data_file"]] = sequence, self.positions(file)
        found = []
        for file, sequence, partition, spec in data:
            of, dead = vectors.pop(file["file_path"], (sequence, frozenset()))
            assert of >= sequence, "the vector is older than its data file"
            assert all(position < file["record_count"] for position in dead)
            rows = file["record_count"]
            found.append(LiveFile(file["file_path"], sequence, partition, spec, file["first_row_id"], rows, dead))
        assert not vectors, "vectors of files that are not live"
        paths = [file.uri for file in found]
        assert len(set(paths)) == len(paths), "a data file is live twice"
        ids = sorted((file.first_row, file.rows) for file in found)
        assert all(one + rows <= following for (one, rows), (following, _) in pairwise(ids)), "row ids overlap"
        assert all(one + rows <= self.metadata["next-row-id"] for one, rows in ids)
        return found, deletes

    def entries(self, snapshot: int) -> Iterator[tuple[dict, dict]]:
        for manifest in self.manifests(snapshot):
            content = self.read(manifest["manifest_path"])
            assert len(content) == manifest["manifest_length"]
            reader = fastavro.reader(io.BytesIO(content))
            assert reader.metadata["content"] == ("deletes" if manifest["content"] else "data")
            entries = list(reader)
            for status, name in enumerate(("existing", "added", "deleted")):
                some = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
                assert manifest[f"{name}_files_count"] == len(some)
                assert manifest[f"{name}_rows_count"] == sum(some)
            live = [entry["sequence_number"] or manifest["sequence_number"] for entry in entries if entry["status"] != 2]
            assert manifest["min_sequence_number"] <= min(live, default=manifest["sequence_number"])
            next_row = manifest["first_row_id"]
            for entry in entries:
                file = entry["data_file"]
                if file["content"] == 0 and entry["status"] != 2 and file["first_row_id"] is None:
                    file["first_row_id"], next_row = next_row, next_row + file["record_count"]  # inherited
                yield manifest, entry

    def manifests(self, snapshot: int) -> list[dict]:
        return list(fastavro.reader(io.BytesIO(self.read(self.snapshots[snapshot]["manifest-list"]))))

    def positions(self, file: dict) -> frozenset[int]:
        content = self.read(file["file_path"])
        assert len(content) == file["file_size_in_bytes"]
        blobs = blobs_of(content)
        here = [blob for blob in blobs if blob["properties"]["referenced-data-file"] == file["referenced_data_file"]]
        assert [(blob["offset"], blob["length"]) for blob in here] == [(file["content_offset"], file["content_size_in_bytes"])]
        found = vector_of(content[file["content_offset"] : file["content_offset"] + file["content_size_in_bytes"]])
        assert len(found) == file["record_count"] == int(here[0]["properties"]["cardinality"])
        return found

    def named(self) -> set[str]:
        """The URIs of all files that the snapshots name."""
        found = set()
        for number, snapshot in self.snapshots.items():
            found.add(snapshot["manifest-list"])
            for manifest, entry in self.entries(number):
                found |= {manifest["manifest_path"]} | ({entry["data_file"]["file_path"]} if entry["status"] != 2 else set())
        return found


def blobs_of(puffin: bytes) -> list[dict]:
    """The blobs that the footer of a Puffin file names."""
    assert puffin[:4] == puffin[-4:] == b"PFA1"
    size = struct.unpack("<i", puffin[-12:-8])[0]
    assert puffin[-12 - size - 4 : -12 - size] == b"PFA1"
    blobs = json.loads(puffin[-12 - size : -12])["blobs"]
    assert all(blob["type"] == "deletion-vector-v1" for blob in blobs)
    return blobs


def vector_of(blob: bytes) -> frozenset[int]:
    """The positions of a `deletion-vector-v1`."""
    (length,) = struct.unpack(">I", blob[:4])
    body, (crc,) = blob[4 : 4 + length], struct.unpack(">I", blob[4 + length :])
    assert body[:4] == bytes.fromhex("d1d33964")
    assert zlib.crc32(body) == crc
    return frozenset(BitMap64.deserialize(body[4:]))


def value_of(field: dict, columns: dict[int, list], row: int) -> Any:
    if field["id"] in columns:
        return columns[field["id"]][row]
    return field.get("initial-default")


def check_metadata(metadata: dict) -> None:
    """What the specification demands of a metadata file."""
    assert metadata["format-version"] == 3
    ids = [one["snapshot-id"] for one in metadata["snapshots"]]
    assert len(set(ids)) == len(ids)
    assert all(one["sequence-number"] <= metadata["last-sequence-number"] for one in metadata["snapshots"])
    assert all(one["first-row-id"] + one["added-rows"] <= metadata["next-row-id"] for one in metadata["snapshots"])
    schemas = {one["schema-id"] for one in metadata["schemas"]}
    assert {metadata["current-schema-id"], *(one["schema-id"] for one in metadata["snapshots"])} <= schemas
    assert metadata["default-spec-id"] in {one["spec-id"] for one in metadata["partition-specs"]}
    assert all(one["snapshot-id"] in ids for one in metadata["refs"].values())
    if "current-snapshot-id" in metadata:
        assert metadata["refs"]["main"]["snapshot-id"] == metadata["current-snapshot-id"]
    for one in metadata["snapshots"]:
        assert one.get("parent-snapshot-id", ids[0]) in ids
        assert one["summary"]["operation"] in ("append", "replace", "overwrite", "delete")
    times = [one["timestamp-ms"] for one in metadata["snapshot-log"]]
    assert all(time <= metadata["last-updated-ms"] for time in times)
