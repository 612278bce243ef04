"""The system tables that describe a table: name -> the listing. `api.system_tables` adds the system tables with rows of the
table.

Names and columns are those of Apache Paimon; `Table.system_table` lists the differences. `history` is Apache Iceberg's;
`maintenance` is lsmlake's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple
from typing import NamedTuple

import pyarrow as pa

from lsmlake.format.data_files import VectorRef
from lsmlake.format.file_index import FileIndex
from lsmlake.format.statistics import ColumnStatistics
from lsmlake.lsm.merge.fold import LAST_NON_NULL
from lsmlake.maintain import named_files, version_listings, work_history
from lsmlake.maintain.analyze import statistics_of
from lsmlake.maintain.callbacks import name_of
from lsmlake.maintain.work_history import WorkHistory, of_commits
from lsmlake.options.column_options import FUNCTION, PREFIX
from lsmlake.options.merge_options import AGGREGATION, PARTIAL_UPDATE
from lsmlake.read.indexed import index_of_file
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version
from lsmlake.types import column_types
from lsmlake.types.type_text import format_type_of


class OfTable(NamedTuple):
    """A system table about all snapshots of a table. `about`: one line."""

    read: Callable[[Metadata], pa.Table]
    about: str


class OfVersion(NamedTuple):
    """A system table about one snapshot. `about`: one line."""

    read: Callable[[Version], pa.Table]
    about: str


_VECTOR = pa.struct(
    [("data_file_name", pa.string()), ("offset", pa.int64()), ("length", pa.int64()), ("cardinality", pa.int64())]
)


def table_indexes(version: Version) -> pa.Table:
    """One row per bucket and Puffin file with deletion vectors of its live files, ordered like `listings.files`. `row_count`: the
    number of vectors of the bucket in the file, which other buckets may share."""
    with version.unless_expired():
        states = version.states()
    rows = []
    for state in sorted(states.values(), key=version_listings.place):
        vectors_by_puffin: dict[str, list[tuple[str, VectorRef]]] = {}
        for file, ref in sorted(state.vectors.items()):
            vectors_by_puffin.setdefault(ref.puffin, []).append((file, ref))
        rows += [(state.bucket, puffin, vectors) for puffin, vectors in sorted(vectors_by_puffin.items())]
    ranges = [[(file, ref.offset, ref.length, ref.cardinality) for file, ref in vectors] for *_, vectors in rows]
    names = _VECTOR.names
    texts = [version_listings.partition_text(version.schema, bucket) for bucket, *_ in rows]
    return pa.table(
        {
            "partition": pa.array(texts, pa.string()),
            "bucket": pa.array([bucket.number for bucket, *_ in rows], pa.int32()),
            "index_type": pa.array(["DELETION_VECTORS"] * len(rows), pa.string()),
            "file_name": pa.array([puffin for _, puffin, _ in rows], pa.string()),
            "row_count": pa.array([len(vectors) for *_, vectors in rows], pa.int64()),
            "dv_ranges": pa.array([[dict(zip(names, each, strict=True)) for each in one] for one in ranges], pa.list_(_VECTOR)),
        }
    )


def file_indexes(version: Version) -> pa.Table:
    """One row per live data file, indexed column and type of index, ordered like `listings.files`. `index_file_path`: null if the
    index is in the manifest. `index_size_in_bytes`: in memory; `index_container_size_in_bytes`: stored, of all columns.
    Raises Corrupt for an index that cannot be read."""
    with version.unless_expired():
        states = version.states()
    meta, names = version.meta, {number: name for name, number in version.schema.field_ids().items()}
    rows = [
        (state.bucket, file, names[number], kind, size)
        for state in sorted(states.values(), key=version_listings.place)
        for file in state.files
        for number, kind, size in _parts(index_of_file(meta.files, file))
        if number in names
    ]
    beside = [file.index_bytes is not None for _, file, *_ in rows]
    sizes = [len(file.index) if file.index is not None else file.index_bytes for _, file, *_ in rows]
    paths = [meta.paths.index(file) if in_file else None for in_file, (_, file, *_) in zip(beside, rows, strict=True)]
    texts = [version_listings.partition_text(version.schema, bucket) for bucket, *_ in rows]
    return pa.table(
        {
            "partition": pa.array(texts, pa.string()),
            "bucket": pa.array([bucket.number for bucket, *_ in rows], pa.int32()),
            "file_path": pa.array([meta.paths.data(file) for _, file, *_ in rows], pa.string()),
            "file_size_in_bytes": pa.array([file.bytes for _, file, *_ in rows], pa.int64()),
            "record_count": pa.array([file.rows for _, file, *_ in rows], pa.int64()),
            "schema_id": pa.array([file.schema_id for _, file, *_ in rows], pa.int32()),
            "column_name": pa.array([name for *_, name, _, _ in rows], pa.string()),
            "index_type": pa.array([kind for *_, kind, _ in rows], pa.string()),
            "storage_type": pa.array(["FILE" if in_file else "MANIFEST" for in_file in beside], pa.string()),
            "index_file_path": pa.array(paths, pa.string()),
            "index_size_in_bytes": pa.array([size for *_, size in rows], pa.int64()),
            "index_container_size_in_bytes": pa.array(sizes, pa.int64()),
        }
    )


def _parts(index: FileIndex) -> Iterator[tuple[int, str, int]]:
    """Yields (field id, type of index, bytes)."""
    for number in sorted({*index.filters, *index.values}):
        if (one := index.filters.get(number)) is not None:
            yield number, "bloom-filter", len(one.bits)
        if (values := index.values.get(number)) is not None:
            yield number, values.kind, values.bytes


def aggregation_fields(schema: Schema) -> pa.Table:
    """One row per column. `function`: the aggregate function in effect, null if the column has none."""
    functions = _functions(schema)
    options = [_options_of(schema, field.name) for field in schema.columns]
    return pa.table(
        {
            "field_name": pa.array(schema.columns.names, pa.string()),
            "field_type": pa.array([format_type_of(field) for field in schema.columns], pa.string()),
            "function": pa.array([functions.get(name) for name in schema.columns.names], pa.string()),
            "function_options": pa.array(options, pa.map_(pa.string(), pa.string())),
            "comment": pa.array([_comment(field) for field in schema.columns], pa.string()),
        }
    )


def _functions(schema: Schema) -> Mapping[str, str]:
    """Column -> its aggregate function, under the merge engine of the table."""
    merge, given = schema.parsed_options.merge, schema.parsed_options.columns
    if merge.engine == AGGREGATION:
        others = [name for name in schema.columns.names if name not in (*schema.primary_key, *merge.sequence_field)]
        return dict.fromkeys(others, given.default_function or LAST_NON_NULL) | given.functions
    if merge.engine != PARTIAL_UPDATE:
        return {}
    members = [name for columns in given.sequence_groups.values() for name in columns]
    return (dict.fromkeys(members, given.default_function) if given.default_function else {}) | given.functions


def _options_of(schema: Schema, column: str) -> list[tuple[str, str]]:
    """The options that the table sets for merging a column, except its function, in the order given."""
    given = schema.parsed_options.columns.merging.given
    named = [each.name for each in given if each.columns == (column,) and each.kind != FUNCTION]
    return [(name.removeprefix(f"{PREFIX}{column}."), schema.options[name]) for name in named]


def _comment(field: pa.Field) -> str | None:
    comment = (field.metadata or {}).get(column_types.COMMENT)
    return None if comment is None else comment.decode()


_COLUMN_STATISTICS = pa.struct(
    [
        ("colId", pa.int32()),
        ("distinctCount", pa.int64()),
        ("min", pa.string()),
        ("max", pa.string()),
        ("nullCount", pa.int64()),
        ("avgLen", pa.int64()),
        ("maxLen", pa.int64()),
    ]
)


def statistics(version: Version) -> pa.Table:
    """One row with the statistics that the snapshot references; no row if there are none. `snapshot_id`: the snapshot that was
    analyzed, which may be an older one. `colstat`: the statistics by column, without columns dropped meanwhile."""
    with version.unless_expired():
        stored = statistics_of(version.meta, version.snapshot)
    known = [] if stored is None else [stored]
    names = {number: name for name, number in version.schema.field_ids().items()}

    def by_name(columns: Iterable[ColumnStatistics]) -> list[tuple[str, dict[str, object]]]:
        shown = ((names.get(column.field_id), astuple(column)) for column in columns)
        return [(name, dict(zip(_COLUMN_STATISTICS.names, values, strict=True))) for name, values in shown if name is not None]

    return pa.table(
        {
            "snapshot_id": pa.array([s.snapshot_id for s in known], pa.int64()),
            "schema_id": pa.array([s.schema_id for s in known], pa.int64()),
            "mergedRecordCount": pa.array([s.rows for s in known], pa.int64()),
            "mergedRecordSize": pa.array([s.bytes for s in known], pa.int64()),
            "colstat": pa.array([by_name(s.columns) for s in known], pa.map_(pa.string(), _COLUMN_STATISTICS)),
        }
    )


def maintenance(meta: Metadata) -> pa.Table:
    """One row per work, oldest first: see `maintain.work_history`."""
    name = name_of(meta)
    known = WorkHistory(meta.env).of(meta.paths.line)
    return work_history.listing([*known, *of_commits(meta, name, known)])


TABLES: Mapping[str, OfTable | OfVersion] = {
    "snapshots": OfTable(named_files.snapshots, "the retained snapshots, oldest first"),
    "history": OfTable(named_files.history, "which snapshots the newest one builds on, oldest first"),
    "schemas": OfTable(named_files.schemas, "the versions of the schema, oldest first"),
    "options": OfVersion(
        lambda version: version_listings.options(version.schema), "all options, with the values that the table sets"
    ),
    "files": OfVersion(version_listings.files, "the live data files"),
    "file_key_ranges": OfVersion(
        lambda version: version_listings.key_ranges(version_listings.files(version)), "the keys of the live data files"
    ),
    "manifests": OfVersion(version_listings.manifests, "the manifests of the live data files"),
    "partitions": OfVersion(
        lambda version: version_listings.partitions(version_listings.files(version)), "rows, bytes and files per partition"
    ),
    "buckets": OfVersion(
        lambda version: version_listings.buckets(version_listings.files(version)), "rows, bytes and files per bucket"
    ),
    "table_indexes": OfVersion(table_indexes, "the files of deletion vectors"),
    "file_indexes": OfVersion(file_indexes, "the indexes of the live data files"),
    "aggregation_fields": OfVersion(lambda version: aggregation_fields(version.schema), "the aggregate functions of the columns"),
    "statistics": OfVersion(statistics, "what the last analysis found"),
    "tags": OfTable(named_files.tags, "the tags, by snapshot"),
    "branches": OfTable(lambda meta: named_files.branches(meta.on(None)), "the branches, by name"),
    "consumers": OfTable(named_files.consumers, "the consumers, by name"),
    "maintenance": OfTable(maintenance, "what compactions, splits and expiries did, oldest first"),
}
