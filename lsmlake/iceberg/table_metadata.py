"""The metadata file of an Iceberg table: pure edits of its JSON. Each function `with_...` returns changed metadata.

The id of a snapshot in Iceberg is its number in the table; snapshots of branches have other ids (`lineage`). The summary of a
snapshot names its identity, because a rollback with cut reuses numbers. Sequence numbers grow with each added snapshot; without
branches they equal the numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lsmlake.format.paths import MAIN
from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg.schemas import schema_json, sort_fields, spec_json
from lsmlake.schema.adapt import NamedFields, names_of
from lsmlake.schema.partitioning import FIRST_ID
from lsmlake.schema.schema import Schema

Metadata = dict[str, Any]
KEPT = 20
"""The number of metadata files that are kept: the newest ones."""
UNSORTED = 0
"""The sort order of files whose rows are in any order."""
OF_BRANCHES = 1 << 62
"""Ids of snapshots of branches begin here."""
_SCHEMAS_OF_BRANCHES = 1 << 30
COMMIT, SNAPSHOT = "lsmlake.commit", "lsmlake.snapshot"
"""Entries in the summary of a snapshot: the identity (`identity_of`) and the number of the snapshot of the table."""
SUMMARY = "iceberg.summary."
"""Before the names of entries that another engine has given the summary, as properties of the snapshot of the table."""
_PROPERTIES = {"write.format.default": "parquet", "gc.enabled": "false"}
"""Other programs must not delete files: with these properties Iceberg refuses to expire snapshots."""
_SET = "lsmlake.set-properties"
"""The property with the names of the properties that a publication sets. A catalog may have others, which its users set."""


def first(table_uuid: str, location: str, schema: Schema, next_row: int) -> Metadata:
    """The metadata of a table without snapshots."""
    return {
        "format-version": 3,
        "table-uuid": uuid_of(table_uuid),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": schema.time_ms,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": FIRST_ID - 1,
        "default-sort-order-id": UNSORTED,
        "sort-orders": [{"order-id": UNSORTED, "fields": []}],
        "properties": {},
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
        "next-row-id": next_row,
    }


def uuid_of(table_uuid: str) -> str:
    """The uuid of a table as Iceberg writes it."""
    digits = table_uuid if len(table_uuid) == 32 and set(table_uuid) <= set("0123456789abcdef") else None
    digits = digits or hashlib.sha256(table_uuid.encode()).hexdigest()[:32]
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def with_schema(metadata: Metadata, schema: Schema) -> tuple[Metadata, int]:
    """Makes a schema, its specs and its sort order the current ones; returns also the id of the sort order."""
    schemas = {one["schema-id"]: one for one in metadata["schemas"]} | {schema.id: schema_json(schema)}
    with_parts, order = _with_parts(metadata, schema, schemas)
    changed = {
        "current-schema-id": schema.id,
        "default-spec-id": schema.spec_id,
        "default-sort-order-id": order,
        "properties": _properties(_PROPERTIES | ({"comment": schema.comment} if schema.comment else {})),
    }
    return {**with_parts, **changed}, order


def with_branch_schema(metadata: Metadata, schema: Schema, common: int) -> tuple[Metadata, int, int]:
    """Adds a schema of a branch; returns also its id and the id of its sort order. `common`: the newest schema that the branch
    has from the table; later schemas get their own ids, because the table may have other schemas with these numbers."""
    schemas, wanted = {one["schema-id"]: one for one in metadata["schemas"]}, schema_json(schema)
    if schema.id <= common:
        id = schema.id
    else:
        same = (id for id, one in schemas.items() if {**one, "schema-id": schema.id} == wanted)
        id = next(same, max(_SCHEMAS_OF_BRANCHES, *(number + 1 for number in schemas)))
    with_parts, order = _with_parts(metadata, schema, schemas | {id: {**wanted, "schema-id": id}})
    return with_parts, id, order


def _with_parts(metadata: Metadata, schema: Schema, schemas: Mapping[int, dict]) -> tuple[Metadata, int]:
    """Sets the schemas, by id, and adds the specs and the sort order of `schema`; returns also the id of the sort order."""
    specs = {one["spec-id"]: one for one in metadata["partition-specs"]}
    specs |= {spec.id: spec_json(spec) for spec in schema.partitioning.specs}
    orders, fields = metadata["sort-orders"], sort_fields(schema)
    order = next((one["order-id"] for one in orders if one["fields"] == fields), None)
    if order is None:
        order = len(orders)
        orders = [*orders, {"order-id": order, "fields": fields}]
    changed = {
        "schemas": [schemas[id] for id in sorted(schemas)],
        "last-column-id": max(metadata["last-column-id"], schema.highest_field_id),
        "partition-specs": [specs[id] for id in sorted(specs)],
        "last-partition-id": max(metadata["last-partition-id"], schema.partitioning.highest_field),
        "sort-orders": orders,
    }
    return {**metadata, **changed}, order


def with_names(metadata: Metadata, schemas: Iterable[Schema]) -> Metadata:
    """Adds the names of columns in files without field ids, which belong to one of these schemas."""
    names: dict[int, dict] = {}
    for schema in schemas:
        _collect(names, names_of(schema.columns))
    mapping = json.dumps(_mapping(names))
    return {**metadata, "properties": _properties(metadata["properties"] | {"schema.name-mapping.default": mapping})}


def _properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {**properties, _SET: ",".join(sorted(properties.keys() - {_SET}))}


def set_properties(properties: Mapping[str, str]) -> list[str]:
    """The names of the properties of a table that a publication has set."""
    return properties.get(_SET, "").split(",")


def _collect(names: dict[int, dict], fields: Iterable[NamedFields]) -> None:
    for field in fields:
        known = names.setdefault(field.id, {"names": {}, "inner": {}})
        taken = {name for id, one in names.items() if id != field.id for name in one["names"]}
        known["names"] |= dict.fromkeys(name for name in field.names if name not in taken)
        _collect(known["inner"], field.inner)


def _mapping(names: Mapping[int, dict]) -> list[dict]:
    return [
        {"field-id": id, "names": list(one["names"]), **({"fields": _mapping(one["inner"])} if one["inner"] else {})}
        for id, one in names.items()
    ]


def identity_of(snapshot: Snapshot) -> str:
    """A value that distinguishes a snapshot from others that had its number."""
    return snapshot.delta_manifest_list.name


def published(metadata: Metadata) -> dict[int, str]:
    """Id -> identity of each snapshot that lsmlake published."""
    return {one["snapshot-id"]: one["summary"][COMMIT] for one in ours(metadata)}


def ours(metadata: Metadata) -> list[Mapping]:
    """The snapshots that lsmlake published, without those that other programs have committed."""
    return [one for one in metadata["snapshots"] if COMMIT in one["summary"]]


def is_ours(metadata: Metadata) -> bool:
    """Whether lsmlake published all snapshots: no other program has committed one."""
    return len(ours(metadata)) == len(metadata["snapshots"])


def with_snapshots(
    metadata: Metadata, made: Iterable[Mapping], kept: Iterable[int], current: int | None, next_row: int
) -> Metadata:
    """Adds snapshots, and removes those whose ids are not `kept`.

    Args:
        current: the id of the newest snapshot of the table; None if it has none.
        next_row: the first unused row id.
    """
    every = {one["snapshot-id"]: one for one in (*metadata["snapshots"], *made)}
    snapshots = sorted((one for id, one in every.items() if id in set(kept)), key=_place)
    ids = {one["snapshot-id"] for one in snapshots}
    log = [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots]
    content = {
        **metadata,
        "snapshots": [
            {name: value for name, value in one.items() if name != "parent-snapshot-id" or value in ids} for one in snapshots
        ],
        "snapshot-log": [one for one in log if current is not None and one["snapshot-id"] <= current],
        "last-sequence-number": max([metadata["last-sequence-number"], *(one["sequence-number"] for one in snapshots)]),
        "next-row-id": next_row,
        "schemas": _used(metadata["schemas"], {one["schema-id"] for one in snapshots} | {metadata["current-schema-id"]}),
    }
    content.pop("current-snapshot-id", None)
    return content if current is None else {**content, "current-snapshot-id": current}


def _place(snapshot: Mapping) -> tuple[bool, int]:
    """The sort key of a snapshot: first snapshots of the table by number, then snapshots of branches in the order of their
    addition."""
    of_branch = snapshot["snapshot-id"] >= OF_BRANCHES
    return of_branch, snapshot["sequence-number" if of_branch else "snapshot-id"]


def _used(schemas: Sequence[Mapping], ids: set[int]) -> list[Mapping]:
    return [one for one in schemas if one["schema-id"] in ids]


def with_refs(metadata: Metadata, tags: Mapping[str, int], branches: Mapping[str, int]) -> Metadata:
    """Sets the references: the tags and branches by name, and the newest snapshot as the main branch. If a tag and a branch have
    the same name, only the tag is published."""
    refs = {name: {"snapshot-id": id, "type": "branch"} for name, id in branches.items()}
    refs |= {name: {"snapshot-id": number, "type": "tag"} for name, number in tags.items() if name != MAIN}
    current = metadata.get("current-snapshot-id")
    if current is not None:
        refs[MAIN] = {"snapshot-id": current, "type": "branch"}
    return {**metadata, "refs": refs}


def logged(metadata: Metadata, before: str, before_ms: int, now_ms: int) -> Metadata:
    """Adds the name of the metadata file before this one to the log. The times are those of both files."""
    log = [*metadata["metadata-log"], {"metadata-file": before, "timestamp-ms": before_ms}] if before else []
    return {**metadata, "metadata-log": log[-KEPT:], "last-updated-ms": now_ms}
