"""Commits of other engines: appends to append-only tables, and nothing else.

An engine has written data files into the folder of the table, and manifests that name them. Their rows are read and appended as
`Table.append` writes them, as one commit that directly follows the snapshot that the engine has seen; then the engine's files are
deleted. So files of the table always have its statistics, buckets and checksums.

The snapshot of the table has the id of the engine's snapshot among its properties. An engine that got no answer, or that lost a
race, sends the same id again: a commit that took place is answered, and not made twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from starlette.responses import JSONResponse, Response

from lsmlake.api.table import Table
from lsmlake.api.writes import write
from lsmlake.commit.request import Identity
from lsmlake.commit.requirements import Fits, Follows
from lsmlake.errors import Corrupt, InvalidData
from lsmlake.format.paths import is_of_a_table
from lsmlake.iceberg.avro import DATA, DELETED
from lsmlake.iceberg.published import is_of_others, uri_of
from lsmlake.iceberg.table_metadata import SUMMARY
from lsmlake.imports.iceberg_metadata import Record, records
from lsmlake.schema.conform import Cast
from lsmlake.serve.rest_catalog.catalog_errors import UNSUPPORTED, Refused
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest, levels_of
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata, Version
from lsmlake.types.column_types import field_id, has_field_id
from lsmlake.write.write_request import WriteRequest

SNAPSHOT_ID = "iceberg.snapshot-id"
"""The property of a snapshot that holds the id which the engine gave it."""
_ADDED, _MAIN = 1, "main"
_OF_REF = {"action", "ref-name", "type", "snapshot-id"}
_ROWS = 1 << 16
_COUNTS = re.compile(
    r"operation|changed-partition-count|partition-summaries-included|replace-partitions|partitions\..*|engine-name|"
    r"(added|deleted|removed|total)-((equality-|position-)?(delete-files|deletes)|data-files|dvs|records|files-size)"
)
"""Entries of a summary that say what is in files, and who wrote them; the table has other files, which lsmlake writes."""
_OWN = "lsmlake."
_SCHEME = re.compile(r"file:/*|s3[an]?://")
_ASSERTED = {
    "assert-table-uuid": ("uuid", "table-uuid"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}
"""Requirement -> its field, and the field of the metadata that must be equal."""


def commit_table(asked: CatalogRequest) -> Response:
    """Appends the rows of an engine's snapshot to a table."""
    content = asked.content(updates=list, requirements=list, identifier=dict)
    _check_identifier(content.get("identifier"), asked.table)
    table = asked.lake.table(asked.table)
    snapshot = _appended(content["updates"])
    version = table.version
    if not version.schema.append_only:
        raise _unsupported("only tables without a primary key take appends of other engines; write by SQL, or from Python")
    if not _took_place(version, snapshot["snapshot-id"]):
        _check(content.get("requirements") or [], asked.publications.of(asked.table).content, version, snapshot)
        _append(asked, table, version, snapshot)
    found = asked.publications.of(asked.table)
    return JSONResponse({"metadata-location": found.metadata_file, "metadata": found.content})


def _unsupported(why: str) -> Refused:
    return Refused(406, UNSUPPORTED, f"the server does not support this commit: {why}")


def _wrong(why: str) -> Refused:
    return Refused(400, "BadRequestException", why)


def _check_identifier(given: Mapping[str, Any] | None, name: str) -> None:
    """Refuses the name of another table than the path has."""
    if given is not None and [*levels_of(given.get("namespace")), given.get("name")] != name.split("."):
        raise _wrong(f"the identifier {given} is not that of the table in the path, {name}; leave it out, or correct it")


# -- what the engine asks for -----------------------------------------------------------------------------------------


def _appended(updates: Sequence[object]) -> Mapping[str, Any]:
    """The snapshot that the updates add to the main branch. Refuses all other updates."""
    snapshot, ref = None, None
    for update in updates:
        if not isinstance(update, dict):
            raise _wrong("an update is a JSON object")
        match update.get("action"):
            case "add-snapshot" if snapshot is None and isinstance(update.get("snapshot"), dict):
                snapshot = update["snapshot"]
            case "set-snapshot-ref" if snapshot is not None and update.get("snapshot-id") == snapshot.get("snapshot-id"):
                if (update.get("ref-name"), update.get("type")) != (_MAIN, "branch"):
                    raise _unsupported(f"{update.get('ref-name')} is not the main branch")
                if retention := sorted(name for name in update.keys() - _OF_REF if update[name] is not None):
                    raise _unsupported(f"it sets {', '.join(retention)}; the options of the table say how long snapshots stay")
                ref = _MAIN
            case other:
                raise _unsupported(f"the update {other!r}; it takes one snapshot for the main branch")
    if snapshot is None:
        raise _unsupported("it adds no snapshot")
    if ref is None:
        raise _unsupported("the snapshot is staged; it takes snapshots for the main branch")
    summary = snapshot.get("summary")
    if not isinstance(summary, dict) or summary.get("operation") != "append":
        raise _unsupported("the snapshot is no append")
    if wrong := [name for name, value in summary.items() if not isinstance(value, str) or name.startswith(_OWN)]:
        raise _wrong(f"the summary has {wrong[0]!r}; values are text, and names that begin with {_OWN} are the table's own")
    if type(snapshot.get("snapshot-id")) is not int or not isinstance(snapshot.get("manifest-list"), str):
        raise _wrong("a snapshot has a snapshot-id and a manifest-list")
    return snapshot


def _took_place(version: Version, id: int) -> bool:
    """Whether a retained snapshot of the table holds this snapshot of the engine."""
    snapshots = version.meta.snapshots
    return any(one.properties.get(SNAPSHOT_ID) == str(id) for one in snapshots.each(snapshots.ids()))


def _check(requirements: Sequence[object], shown: Mapping[str, Any], version: Version, snapshot: Mapping[str, Any]) -> None:
    """Refuses a commit whose requirements the table does not meet. `shown`: the metadata that clients see."""
    current = shown.get("current-snapshot-id")
    wrong = [] if current in (version.number, None) and snapshot.get("parent-snapshot-id") == current else ["the parent"]
    if snapshot.get("schema-id", shown["current-schema-id"]) != shown["current-schema-id"]:
        wrong.append("the schema")  # rows are read by the names of columns, which may have meant others
    for one in requirements:
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "assert-ref-snapshot-id":
            ref = shown["refs"].get(one.get("ref"))
            wrong += [] if one.get("snapshot-id") == (None if ref is None else ref["snapshot-id"]) else [kind]
        elif kind in _ASSERTED:
            field, name = _ASSERTED[kind]
            wrong += [] if one.get(field) == shown[name] else [kind]
        else:
            raise _wrong(f"this server does not know the requirement {kind!r}")
    if wrong:
        raise _changed(wrong)


# -- its files --------------------------------------------------------------------------------------------------------


class _NewFiles(NamedTuple):
    """The data files of a snapshot with the number of their rows, and the manifests that name them."""

    data: dict[str, int]
    manifests: list[str]


def _append(asked: CatalogRequest, table: Table, version: Version, snapshot: Mapping[str, Any]) -> None:
    meta, id = version.meta, snapshot["snapshot-id"]
    files = _new_files(meta, snapshot)
    columns = _columns(version, files)
    rows = pa.RecordBatchReader.from_batches(columns, _rows(meta, files, columns))
    request = WriteRequest(
        Identity(meta.env.ids()),
        cast=Cast(asked.lake.runtime.zone),
        compact=False,
        requires=(Follows(version.number), Fits(version.schema)),
        properties=lambda: {SNAPSHOT_ID: str(id), **_told(snapshot["summary"])},
    )
    write(version, asked.lake.runtime, table.name, rows, request)
    meta.files.delete_quietly([*files.data, *(path for path in files.manifests if is_of_others(meta, path))])


def _told(summary: Mapping[str, Any]) -> dict[str, str]:
    """The entries of an engine's summary that are no counts, such as those that its user has given the snapshot, as properties of
    the snapshot of the table."""
    return {SUMMARY + name: value for name, value in summary.items() if not _COUNTS.fullmatch(name)}


def _new_files(meta: Metadata, snapshot: Mapping[str, Any]) -> _NewFiles:
    listed, id = _inside(meta, snapshot["manifest-list"]), snapshot["snapshot-id"]
    data, manifests = dict[str, int](), [listed]
    for manifest in _records(meta, listed):
        if manifest.get("added_snapshot_id") != id:
            continue
        path = _inside(meta, manifest["manifest_path"])
        manifests.append(path)
        for entry in _records(meta, path):
            if entry["status"] == DELETED or (manifest.get("content") or DATA) != DATA:
                raise _unsupported("an append deletes nothing")
            if entry["status"] == _ADDED:
                file = entry["data_file"]
                if str(file["file_format"]).lower() != "parquet":
                    raise _unsupported(f"files of {file['file_format']}; write Parquet")
                path_of_data = _inside(meta, file["file_path"])
                if is_of_a_table(path_of_data, meta.paths.root):
                    raise _wrong(f"the file {path_of_data} is one of the table already")
                data[path_of_data] = file["record_count"]
    return _NewFiles(data, manifests)


def _changed(what: Sequence[str]) -> Refused:
    about = f"the table is not as the commit requires: {', '.join(what)}; load it and commit again"
    return Refused(409, "CommitFailedException", about)


def _records(meta: Metadata, path: str) -> list[Record]:
    try:
        return list(records(read_bytes(meta.env.storage, path), path))
    except FileNotFoundError:
        raise _wrong(f"there is no file {path}") from None
    except Corrupt as broken:
        raise _wrong(str(broken)) from None


def _inside(meta: Metadata, uri: str) -> str:
    """The path of a file in the folder of the table. Refuses files elsewhere."""
    root, given = (_SCHEME.sub("//", one, count=1) for one in (uri_of(meta, meta.paths.root), uri))
    path = f"{meta.paths.root}/{given[len(root) + 1 :]}"
    if not given.startswith(f"{root}/") or ".." in path.split("/"):
        raise _wrong(f"the file {uri} is not in the folder of the table")
    return path


def _columns(version: Version, files: _NewFiles) -> pa.Schema:
    """The columns of the files, which must agree, since one writer has written them. Refuses columns that have another id in the
    table: rows are read by name, and the writer knew older columns."""
    found: pa.Schema | None = None
    ids = {field.name: field_id(field) for field in version.schema.columns}
    for path in files.data:
        with _opened(version.meta, path) as file:
            stored = file.schema_arrow
        if others := [one.name for one in stored if has_field_id(one) and ids.get(one.name, field_id(one)) != field_id(one)]:
            raise _changed([f"column {name}" for name in others])
        schema = stored.remove_metadata()
        if found is not None and not schema.equals(found):
            raise InvalidData("data files of one snapshot differ in their columns", where=path, cure="write them anew")
        found = schema
    return pa.schema([]) if found is None else found


def _rows(meta: Metadata, files: _NewFiles, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path, count in files.data.items():
        with _opened(meta, path) as file:
            found = 0
            for batch in file.iter_batches(_ROWS):
                found += batch.num_rows
                yield pa.RecordBatch.from_arrays(batch.columns, schema=columns)
        if found != count:
            raise InvalidData("a data file has another number of rows", where=path, expected=count, found=found)


def _opened(meta: Metadata, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(meta.env.storage.read(path))
    except FileNotFoundError:
        raise _wrong(f"there is no file {path}") from None
    except pa.ArrowException as broken:
        raise _wrong(f"{path} is no file of Parquet: {broken}") from None
