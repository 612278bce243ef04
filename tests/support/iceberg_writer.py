"""Writes tables of Iceberg, format version 2, from the specification, with the deletes that PyIceberg does not write.

It shares no code with the library. The names of fields in manifests are not those of the specification, because readers go by
ids; optional fields are left out. A table has the columns of `COLUMNS` and is partitioned by identity of `part`, or not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"id": (1, pa.int64(), "long"), "name": (2, pa.string(), "string"), "part": (3, pa.int32(), "int")}
DATA, POSITIONS, EQUALITY = 0, 1, 2
PATH, POSITION = 2147483546, 2147483545

Row = dict[str, Any]


class File(NamedTuple):
    """A file of a commit. `content`: of what kind; `ids`: of the columns of an equality delete; `of`: the data file of all of its
    positions, or None."""

    content: int
    uri: str
    rows: int
    bytes: int
    partition: float | None
    spec: int
    ids: tuple[int, ...] = ()


class IcebergWriter:
    """A table in `folder`. Each `commit` is a snapshot. `partitioned`: spec 0 has the field `part`; spec 1 never has fields.
    `settings`: those of PyArrow for the files."""

    def __init__(self, folder: Path, *, partitioned: bool) -> None:
        self.folder, self.partitioned, self.sequence = folder, partitioned, 0
        self.manifests: list[dict] = []
        self.pending: list[File] = []
        self.number = 0
        self.settings: dict[str, Any] = {"row_group_size": 3}
        (folder / "data").mkdir(parents=True)
        (folder / "metadata").mkdir()

    def data(self, rows: Sequence[Row], partition: float | None, spec: int = 0) -> str:
        return self._parquet(DATA, rows, {name: id for name, (id, _, _) in COLUMNS.items()}, partition, spec)

    def positions(self, deleted: Sequence[tuple[str, int]], partition: float | None, spec: int = 0) -> None:
        rows = [{"file_path": uri, "pos": position} for uri, position in sorted(deleted)]
        self._parquet(POSITIONS, rows, {"file_path": PATH, "pos": POSITION}, partition, spec)

    def equality(self, keys: Sequence[Row], partition: float | None, spec: int = 0) -> None:
        ids = {name: COLUMNS[name][0] for name in keys[0]}
        self._parquet(EQUALITY, keys, ids, partition, spec, tuple(ids.values()))

    def _parquet(
        self, content: int, rows: Sequence[Row], ids: Mapping[str, int], partition: float | None, spec: int, equal: tuple = ()
    ) -> str:
        types = {"file_path": pa.string(), "pos": pa.int64()} | {name: type_ for name, (_, type_, _) in COLUMNS.items()}
        fields = [pa.field(name, types[name], True, {"PARQUET:field_id": str(id)}) for name, id in ids.items()]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), sink, **self.settings)
        path = self.folder / "data" / f"{self.number}.parquet"
        self.number += 1
        path.write_bytes(sink.getvalue())
        self.pending.append(File(content, f"file:{path}", len(rows), len(sink.getvalue()), partition, spec, equal))
        return self.pending[-1].uri

    def commit(self) -> Path:
        """Publish what was written since the last commit; returns the metadata file."""
        self.sequence += 1
        for deletes in (False, True):
            for spec in (0, 1):
                files = [one for one in self.pending if (one.content != DATA) == deletes and one.spec == spec]
                if files:
                    self.manifests.append(self._manifest(files, deletes, spec))
        self.pending = []
        listed = self.folder / "metadata" / f"list-{self.sequence}.avro"
        listed.write_bytes(avro(LIST, self.manifests, {"format-version": "2"}))
        fields = [{"id": id, "name": name, "required": False, "type": type_} for name, (id, _, type_) in COLUMNS.items()]
        field = {"source-id": 3, "field-id": 1000, "name": "part", "transform": "identity"}
        snapshot = {
            "snapshot-id": 1000 + self.sequence,
            "sequence-number": self.sequence,
            "timestamp-ms": self.sequence,
            "manifest-list": f"file:{listed}",
            "summary": {"operation": "overwrite"},
            "schema-id": 0,
        }
        content = {
            "format-version": 2,
            "table-uuid": "00000000-0000-0000-0000-000000000000",
            "location": f"file:{self.folder}",
            "last-sequence-number": self.sequence,
            "last-updated-ms": self.sequence,
            "last-column-id": 3,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "default-spec-id": 0,
            "partition-specs": [
                {"spec-id": 0, "fields": [field] if self.partitioned else []},
                {"spec-id": 1, "fields": []},
            ],
            "last-partition-id": 1000,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "current-snapshot-id": snapshot["snapshot-id"],
            "snapshots": [snapshot],
        }
        path = self.folder / "metadata" / f"v{self.sequence}.metadata.json"
        path.write_text(json.dumps(content))
        return path

    def _manifest(self, files: Sequence[File], deletes: bool, spec: int) -> dict:
        fields = [field(1000, "p", ["null", COLUMNS["part"][2]])] if self.partitioned and spec == 0 else []
        partition = {"type": "record", "name": "r102", "fields": fields}
        file = [
            field(134, "kind", "int"),
            field(100, "where", "string"),
            field(101, "how", "string"),
            field(102, "part", partition),
            field(103, "n", "long"),
            field(104, "size", "long"),
            field(135, "equal", ["null", {"type": "array", "items": "int", "element-id": 136}]),
        ]
        schema = {
            "type": "record",
            "name": "entry",
            "fields": [
                field(0, "state", "int"),
                field(3, "seq", ["null", "long"]),
                field(2, "file", {"type": "record", "name": "r2", "fields": file}),
            ],
        }
        entries = [
            {
                "state": 1,
                "seq": None,
                "file": {
                    "kind": one.content,
                    "where": one.uri,
                    "how": "PARQUET",
                    "part": {"p": one.partition} if fields else {},
                    "n": one.rows,
                    "size": one.bytes,
                    "equal": list(one.ids) or None,
                },
            }
            for one in files
        ]
        path = self.folder / "metadata" / f"m{len(self.manifests)}-{self.sequence}.avro"
        path.write_bytes(avro(schema, entries, {"format-version": "2"}))
        return {
            "where": f"file:{path}",
            "size": path.stat().st_size,
            "spec": spec,
            "kind": int(deletes),
            "seq": self.sequence,
            "least": self.sequence,
        }


def field(id: int, name: str, type_: object) -> dict:
    return {"name": name, "type": type_, "field-id": id}


LIST = {
    "type": "record",
    "name": "listed",
    "fields": [
        field(500, "where", "string"),
        field(501, "size", "long"),
        field(502, "spec", "int"),
        field(517, "kind", "int"),
        field(515, "seq", "long"),
        field(516, "least", "long"),
    ],
}


def avro(schema: dict, records: Sequence[dict], header: Mapping[str, str]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(json.loads(json.dumps(schema))), records, metadata=dict(header))
    return sink.getvalue()
