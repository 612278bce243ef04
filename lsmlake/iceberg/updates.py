"""The updates that turn the metadata of a table in a catalog into the published metadata. Pure; works on PyIceberg's objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from lsmlake.iceberg.table_metadata import COMMIT, KEPT, set_properties

FILE, TIME = "lsmlake.metadata-file", "lsmlake.published-ms"
"""Properties of the table in the catalog: the publication that it shows, and its time. After a registration without later commits
the table has neither, because its metadata is the publication."""
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(KEPT),
}


def shows(theirs: Any, metadata_file: str, ours: Any) -> bool:
    """Whether the catalog has this publication or a newer one."""
    shown_file, of = theirs.properties.get(FILE), int(theirs.properties.get(TIME, theirs.last_updated_ms))
    return of > ours.last_updated_ms or (shown_file, of) == (metadata_file, ours.last_updated_ms)


def foreign(theirs: Any) -> list[int]:
    """The snapshots that other programs have committed to the catalog."""
    return [one.snapshot_id for one in theirs.snapshots if not (one.summary and one.summary[COMMIT])]


def updates(of: ModuleType, theirs: Any, ours: Any, metadata_file: str) -> tuple[Any, ...] | None:
    """The updates; None if no updates have this result, because snapshots were made anew or ids would change.

    A catalog chooses the id of an added schema, spec or order: the next id, or the id of an equal one. Schemas may have other ids
    there; specs and orders must not, since manifests name them.

    Args:
        of: the module of PyIceberg with the classes of updates.
        theirs: the metadata in the catalog.
        ours: the metadata of the publication.
        metadata_file: the address of its metadata file.
    """
    schemas, schema_ids = _schemas(theirs.schemas, ours.schemas)
    updates = [of.AddSchemaUpdate(schema=one) for one in schemas]
    updates.append(of.SetCurrentSchemaUpdate(schema_id=schema_ids[ours.current_schema_id]))
    updates += [of.AddPartitionSpecUpdate(spec=one) for one in _missing(theirs.partition_specs, ours.partition_specs, "spec_id")]
    updates.append(of.SetDefaultSpecUpdate(spec_id=ours.default_spec_id))
    updates += [of.AddSortOrderUpdate(sort_order=one) for one in _missing(theirs.sort_orders, ours.sort_orders, "order_id")]
    updates.append(of.SetDefaultSortOrderUpdate(sort_order_id=ours.default_sort_order_id))
    our_snapshots, their_snapshots = ({one.snapshot_id: one for one in side.snapshots} for side in (ours, theirs))
    for number in sorted(our_snapshots.keys() - their_snapshots.keys(), key=lambda id: our_snapshots[id].sequence_number):
        snapshot = our_snapshots[number].model_copy(update={"schema_id": schema_ids[our_snapshots[number].schema_id]})
        updates.append(of.AddSnapshotUpdate(snapshot=snapshot))
    for name, ref in ours.refs.items():
        updates.append(of.SetSnapshotRefUpdate(ref_name=name, type=ref.snapshot_ref_type, snapshot_id=ref.snapshot_id))
    updates += [of.RemoveSnapshotRefUpdate(ref_name=name) for name in theirs.refs if name not in ours.refs]
    if gone := sorted(their_snapshots.keys() - our_snapshots.keys()):
        updates.append(of.RemoveSnapshotsUpdate(snapshot_ids=gone))
    marks = {FILE: metadata_file, TIME: str(ours.last_updated_ms)}
    updates.append(of.SetPropertiesUpdate(updates={**ours.properties, **_PROPERTIES, **marks}))
    if over := [one for one in set_properties(theirs.properties) if one in theirs.properties and one not in ours.properties]:
        updates.append(of.RemovePropertiesUpdate(removals=over))
    try:
        made = of.update_table_metadata(theirs, tuple(updates))
    except ValueError:
        return None
    return tuple(updates) if _content(made) == _content(ours) else None


def _schemas(theirs: Sequence[Any], ours: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
    """The schemas that the catalog lacks, with ids for the catalog; and the id in the catalog of each schema of the
    publication."""
    ids_by_columns = {_columns(one): one.schema_id for one in theirs}
    added, ids = [], {}
    for one in sorted(ours, key=lambda schema: schema.schema_id):
        if _columns(one) not in ids_by_columns:
            ids_by_columns[_columns(one)] = next_id = max(ids_by_columns.values()) + 1
            added.append(one.model_copy(update={"schema_id": next_id}))
        ids[one.schema_id] = ids_by_columns[_columns(one)]
    return added, ids


def _columns(schema: Any) -> tuple:
    return schema.fields, frozenset(schema.identifier_field_ids)


def _missing(theirs: Iterable[Any], ours: Iterable[Any], id: str) -> list[Any]:
    known = {getattr(one, id) for one in theirs}
    return sorted((one for one in ours if getattr(one, id) not in known), key=lambda one: getattr(one, id))


def _content(metadata: Any) -> tuple:
    """The parts of the metadata that readers of a table depend on."""
    columns = {one.schema_id: _columns(one) for one in metadata.schemas}
    specs = {one.spec_id: one.fields for one in metadata.partition_specs}
    orders = {one.order_id: one.fields for one in metadata.sort_orders}
    snapshots = {
        one.snapshot_id: (one.sequence_number, one.manifest_list, one.first_row_id, columns[one.schema_id])
        for one in metadata.snapshots
    }
    return (
        snapshots,
        metadata.refs,
        metadata.current_snapshot_id,
        columns[metadata.current_schema_id],
        specs,
        metadata.default_spec_id,
        orders,
        metadata.default_sort_order_id,
    )
