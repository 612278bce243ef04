"""Listings of a table's metadata as Arrow tables, such as snapshots, tags, consumers, files, buckets, partitions and options."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import SnapshotNotFound
from lsmlake.format.files import BucketState, DataFile
from lsmlake.lsm.levels import recency
from lsmlake.options.columns import PREFIX
from lsmlake.options.reference import COLUMNS, OptionFacts, column_facts, reference
from lsmlake.options.types import duration
from lsmlake.schema.schema import Schema
from lsmlake.store.consumers import consumers as read_consumers
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version

_TIME = pa.timestamp("ms", "UTC")
_COUNTS, _BOUNDS = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.string())


def snapshots(meta: Metadata) -> pa.Table:
    found = []
    for number in meta.snapshots.ids():
        with suppress(SnapshotNotFound):  # it has expired since it was listed
            found.append(meta.snapshots.get(number))
    columns = {
        "snapshot_id": pa.array([s.id for s in found], pa.int64()),
        "schema_id": pa.array([s.schema_id for s in found], pa.int64()),
        "writer_id": pa.array([s.writer_id for s in found], pa.string()),
        "commit_id": pa.array([s.commit_id for s in found], pa.int64()),
        "commit_kind": pa.array([s.kind for s in found], pa.string()),
        "commit_time": pa.array([s.time_ms for s in found], _TIME),
        "total_record_count": pa.array([s.total_rows for s in found], pa.int64()),
        "delta_record_count": pa.array([s.delta_rows for s in found], pa.int64()),
        "changelog_record_count": pa.array([s.changelog_rows for s in found], pa.int64()),
        "watermark": pa.array([s.watermark for s in found], pa.int64()),
        "base_manifest_list": pa.array([s.base_manifest_list.name for s in found], pa.string()),
        "delta_manifest_list": pa.array([s.delta_manifest_list.name for s in found], pa.string()),
        "changelog_manifest_list": pa.array(
            [s.changelog_manifest_list.name if s.changelog_manifest_list else None for s in found], pa.string()
        ),
        "index_manifest": pa.array([s.index_manifest.name if s.index_manifest else None for s in found], pa.string()),
    }
    return pa.table(columns)


def tags(meta: Metadata) -> pa.Table:
    """One row per tag, ordered by snapshot, then by name. `branches`: those that were created from the tag."""
    found = meta.tags.all()
    begun = meta.branches.all() if meta.paths.branch is None else {}
    named = {(info.tag, info.base.id): [] for info in begun.values() if info.base is not None}
    for name, info in begun.items():
        if info.base is not None:
            named[info.tag, info.base.id].append(name)
    return pa.table(
        {
            "tag_name": pa.array([t.name for t in found], pa.string()),
            "snapshot_id": pa.array([t.snapshot.id for t in found], pa.int64()),
            "schema_id": pa.array([t.snapshot.schema_id for t in found], pa.int64()),
            "commit_time": pa.array([t.snapshot.time_ms for t in found], _TIME),
            "record_count": pa.array([t.snapshot.total_rows for t in found], pa.int64()),
            "create_time": pa.array([t.create_time_ms for t in found], _TIME),
            "time_retained": pa.array(
                [None if t.time_retained_ms is None else duration.text(t.time_retained_ms) for t in found], pa.string()
            ),
            "branches": pa.array([named.get((t.name, t.snapshot.id), []) for t in found], pa.list_(pa.string())),
        }
    )


def branches(meta: Metadata) -> pa.Table:
    """One row per branch, ordered by name. `created_from_snapshot`: where the branch begins; null: without rows."""
    found = meta.branches.all()
    return pa.table(
        {
            "branch_name": pa.array(found, pa.string()),
            "created_from_snapshot": pa.array([info.base and info.base.id for info in found.values()], pa.int64()),
            "created_from_tag": pa.array([info.tag for info in found.values()], pa.string()),
            "create_time": pa.array([info.time_ms for info in found.values()], _TIME),
        }
    )


def consumers(meta: Metadata) -> pa.Table:
    """One row per consumer, ordered by name."""
    found = read_consumers(meta)
    return pa.table(
        {
            "consumer_id": pa.array([c.name for c in found], pa.string()),
            "next_snapshot_id": pa.array([c.progress.next_snapshot for c in found], pa.int64()),
            "reads_in_full": pa.array([c.progress.full for c in found], pa.bool_()),
            "last_progress": pa.array([c.modified_ms for c in found], _TIME),
        }
    )


def files(version: Version) -> pa.Table:
    """One row per live file, ordered by partition, bucket and recency, newest first. `deleted_record_count` is the number of rows
    that the file's vector marks; partitions and keys are text."""
    meta, schema = version.meta, version.schema
    with version.unless_expired():
        found = version.states()
    rows = [(state, file) for state in sorted(found.values(), key=place) for file in sorted(state.files, key=_age)]
    names = {number: name for name, number in schema.field_ids().items()}
    dead = [state.vectors[f.name].cardinality if f.name in state.vectors else 0 for state, f in rows]
    return pa.table(
        {
            "partition": pa.array([partition_text(schema, state.bucket.partition) for state, _ in rows], pa.string()),
            "bucket": pa.array([state.bucket.number for state, _ in rows], pa.int32()),
            "file_path": pa.array([meta.paths.data(f) for state, f in rows], pa.string()),
            "file_format": pa.array(["parquet"] * len(rows), pa.string()),
            "level": pa.array([f.level for _, f in rows], pa.int32()),
            "record_count": pa.array([f.rows for _, f in rows], pa.int64()),
            "deleted_record_count": pa.array(dead, pa.int64()),
            "delete_row_count": pa.array([f.delete_rows for _, f in rows], pa.int64()),
            "file_size_in_bytes": pa.array([f.bytes for _, f in rows], pa.int64()),
            "min_key": pa.array([key_text(f.min_key) for _, f in rows], pa.string()),
            "max_key": pa.array([key_text(f.max_key) for _, f in rows], pa.string()),
            "null_value_counts": pa.array([_by_name(f, names, 0) for _, f in rows], _COUNTS),
            "min_value_stats": pa.array([_by_name(f, names, 1) for _, f in rows], _BOUNDS),
            "max_value_stats": pa.array([_by_name(f, names, 2) for _, f in rows], _BOUNDS),
            "min_sequence_number": pa.array([f.min_sequence for _, f in rows], pa.int64()),
            "max_sequence_number": pa.array([f.sequence for _, f in rows], pa.int64()),
            "schema_id": pa.array([f.schema_id for _, f in rows], pa.int32()),
            "file_source": pa.array([f.source for _, f in rows], pa.string()),
            "creation_time": pa.array([f.created_ms for _, f in rows], _TIME),
        }
    )


def partition_text(schema: Schema, partition: tuple) -> str | None:
    """A partition as text, such as 'dt=2026-01-01, region=EU'; None for a table without partitions. A null is shown as the name
    of its directory, and text equal to that name is quoted."""
    null = schema.parsed_options.layout.default_partition

    def shown(value: object) -> str:
        return null if value is None else repr(value) if value == null else value_text(value)

    named = zip(schema.partition_by, partition, strict=True)
    return ", ".join(f"{name}={shown(value)}" for name, value in named) if partition else None


def key_text(key: tuple) -> str:
    return ", ".join(map(value_text, key))


def value_text(value: object) -> str:
    """A value that is not null as text, in the form of directory names: not escaped, not cut."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def _age(file: DataFile) -> tuple:
    return recency(file), file.min_key


def place(state: BucketState) -> tuple:
    """The sort key of a bucket in a listing; nulls first."""
    return tuple((value is not None, value) for value in state.bucket.partition), state.bucket.number


def _by_name(file: DataFile, names: dict[int, str], part: int) -> list[tuple[str, object]]:
    """(column, statistic) of each column that has statistics; bounds as text."""
    known = ((names[number], stats[part]) for number, stats in file.stats.items() if number in names)
    return [(name, value if part == 0 or value is None else value_text(value)) for name, value in known]


def buckets(files_table: pa.Table) -> pa.Table:
    return _summed(files_table, ["partition", "bucket"])


def partitions(files_table: pa.Table) -> pa.Table:
    return _summed(files_table, ["partition"])


def _summed(files_table: pa.Table, by: list[str]) -> pa.Table:
    grouped = files_table.group_by(by, use_threads=False).aggregate(
        [
            ("record_count", "sum"),
            ("deleted_record_count", "sum"),
            ("file_size_in_bytes", "sum"),
            ("file_path", "count"),
            ("creation_time", "max"),
        ]
    )
    live = pc.subtract(grouped["record_count_sum"], grouped["deleted_record_count_sum"])
    columns = {name: grouped[name] for name in by} | {
        "record_count": live,
        "deleted_record_count": grouped["deleted_record_count_sum"],
        "file_size_in_bytes": grouped["file_size_in_bytes_sum"],
        "file_count": grouped["file_path_count"],
        "last_update_time": grouped["creation_time_max"],
    }
    return pa.table(columns).sort_by([(name, "ascending") for name in by])


def manifests(version: Version) -> pa.Table:
    with version.unless_expired():
        found = version.meta.manifests.metas(version.snapshot) if version.snapshot else ()
    return pa.table(
        {
            "file_name": pa.array([m.name for m in found], pa.string()),
            "file_size": pa.array([m.bytes for m in found], pa.int64()),
            "num_added_files": pa.array([m.added for m in found], pa.int64()),
            "num_deleted_files": pa.array([m.deleted for m in found], pa.int64()),
            "schema_id": pa.array([m.schema_id for m in found], pa.int64()),
            "snapshot_id": pa.array([m.sequence for m in found], pa.int64()),
        }
    )


def schemas(meta: Metadata) -> pa.Table:
    meta.files.first_schema()
    uncached = meta.with_empty_cache()  # a schema that loses its race is deleted, and its number used again
    found = [uncached.schemas.get(number) for number in meta.schemas.ids()]
    return pa.table(
        {
            "schema_id": pa.array([s.id for s in found], pa.int64()),
            "fields": pa.array([", ".join(f"{f.name} {f.type}" for f in s.columns) for s in found], pa.string()),
            "partition_keys": pa.array([list(s.partition_by) for s in found], pa.list_(pa.string())),
            "primary_keys": pa.array([list(s.primary_key) for s in found], pa.list_(pa.string())),
            "options": pa.array([list(s.options.items()) for s in found], pa.map_(pa.string(), pa.string())),
            "comment": pa.array([s.comment for s in found], pa.string()),
            "update_time": pa.array([s.time_ms for s in found], _TIME),
        }
    )


def option_reference() -> pa.Table:
    """One row per supported option."""
    return _option_rows(reference())


def options(schema: Schema) -> pa.Table:
    """One row per option; `value` is null unless the table sets the option. Options of single columns are listed last, and only
    if the table sets them."""
    facts = [option for option in reference() if option.group != COLUMNS]
    facts += [column_facts(name) for name in schema.options if name.startswith(PREFIX)]
    found = _option_rows(facts)
    values = pa.array([schema.options.get(name) for name in found["name"].to_pylist()], pa.string())
    return found.add_column(1, "value", values)


def _option_rows(facts: Iterable[OptionFacts]) -> pa.Table:
    rows = list(facts)
    return pa.table({name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in OptionFacts._fields})
