"""Prunes files by partition, bucket, key range and column statistics. Array operations only.

The value of a partition field limits the values of its column: to a range or, under `bucket`, to the values of one hash.

Partition, bucket and key are the same in all entries of a file, so they choose manifests and prune entries before these are
folded (`tables.live`). Statistics prune the live files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format import manifest
from lsmlake.format.manifest import ManifestMeta
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.predicate import ColumnBounds, Predicate, key_values, may_match
from lsmlake.predicate.tree import And, Column, Compare, In, Is, Literal, Not, Or
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import RESERVED, Schema
from lsmlake.tables.live import Selection

_BUCKET_LISTS_MAX = 10_000  # combinations of key values worth hashing


def selection(schema: Schema, predicate: Predicate | None, *, by_key: bool = True, level0: bool = True) -> Selection | None:
    """Returns the files that may hold a key of the predicate; None if these are all files, for example if the predicate names no
    column of the key or of a partition.

    Args:
        by_key: False: chooses whole buckets.
        level0: False: manifests without deeper files are not opened, and files of level 0 may be missing. Sound because the level
            of a file is 0 at first, and never again.
    """
    if predicate is not None and not _chooses(schema, predicate):
        predicate = None
    if predicate is None and level0:
        return None
    return Selection(
        partial(_manifests, schema=schema, predicate=predicate, by_key=by_key, level0=level0),
        partial(_entries, schema=schema, predicate=predicate, by_key=by_key),
    )


def _chooses(schema: Schema, predicate: Predicate) -> bool:
    """Whether keys, buckets or partitions can leave a file out. A predicate without columns may be false for all rows."""
    chosen = {*schema.primary_key, *schema.bucket_key, *(field.column for field in schema.all_partition_columns)}
    return not predicate.columns or not chosen.isdisjoint(predicate.columns)


def _manifests(
    metas: Sequence[ManifestMeta], where: str, *, schema: Schema, predicate: Predicate | None, by_key: bool, level0: bool
) -> np.ndarray:
    opened = np.array([level0 or meta.level_max > 0 for meta in metas], bool)
    if predicate is None or not len(metas):
        return opened
    unknown = pa.nulls(len(metas), pa.int64())
    bounds: dict[str, ColumnBounds] = {}
    if by_key and schema.key:
        bounds[schema.key[0]] = ColumnBounds(*manifest.key_bounds(metas, schema, where), unknown)
    fields = _used(schema, predicate)
    for field in fields:
        low, high = manifest.partition_bounds(metas, schema, field, where)
        sources = ColumnBounds(
            field.transform.sources(low, field.source_type)[0], field.transform.sources(high, field.source_type)[1], unknown
        )
        narrow(bounds, field, sources)
        bounds[_name(field)] = ColumnBounds(low, high, unknown)
    opened &= may_match(_with_hashes(predicate, fields), bounds, np.array([meta.added + meta.deleted for meta in metas]))
    if (columns := _bucket_keys(schema, predicate)) is not None:
        wanted = {total: np.sort(bucket_of(columns, total)) for total in {meta.total_buckets for meta in metas} - {None}}
        opened &= np.array([meta.total_buckets is None or _reaches(meta, wanted[meta.total_buckets]) for meta in metas])
    return opened


def _reaches(meta: ManifestMeta, numbers: np.ndarray) -> bool:
    """Whether one of the bucket numbers (ascending) lies in the range of the manifest."""
    first = np.searchsorted(numbers, meta.bucket_min)
    return first < len(numbers) and numbers[first] <= meta.bucket_max


def _entries(table: pa.Table, *, schema: Schema, predicate: Predicate | None, by_key: bool) -> np.ndarray:
    if predicate is None:
        return np.ones(table.num_rows, bool)
    bounds = _key_bounds(table, schema, predicate) if by_key else {}
    fields = _used(schema, predicate)
    bounds = _partition_bounds(table, schema, fields, bounds)
    matches = may_match(_with_hashes(predicate, fields), bounds, table["rows"].to_numpy())
    return matches & _by_bucket(table, schema, predicate)


def _partition_bounds(
    table: pa.Table, schema: Schema, fields: Sequence[PartitionColumn], known: Mapping[str, ColumnBounds]
) -> dict[str, ColumnBounds]:
    """The bounds of the partition fields of files and of the columns that they come from, of which some bounds are known."""
    bounds = dict(known)
    for field in fields:
        sources = _sources(table, schema, field)
        narrow(bounds, field, sources)
        values = table[f"p:{field.number}"].combine_chunks()
        bounds[_name(field)] = ColumnBounds(values, values, sources.nulls)
    return bounds


def by_partition(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    """Flags files whose partitions may hold a matching row."""
    fields = _used(schema, predicate)
    bounds = _partition_bounds(table, schema, fields, {})
    return may_match(_with_hashes(predicate, fields), bounds, table["rows"].to_numpy())


def prune_by_key(table: pa.Table, schema: Schema, predicate: Predicate) -> pa.Table:
    """Returns the entries of files that may hold a key of the predicate."""
    return table.filter(pa.array(_entries(table, schema=schema, predicate=predicate, by_key=True)))


def _used(schema: Schema, predicate: Predicate) -> list[PartitionColumn]:
    """The partition fields of columns that the predicate names."""
    return [field for field in schema.all_partition_columns if field.column in predicate.columns]


def _sources(table: pa.Table, schema: Schema, field: PartitionColumn) -> ColumnBounds:
    """Returns the bounds that a partition field gives for its column; nulls where the spec of an entry does not have the
    field."""
    values = table[f"p:{field.number}"].combine_chunks()
    bounds = sources_of(values, table["rows"].to_numpy(), field)
    has_field = _has(table, schema, field)
    return ColumnBounds(*(pc.if_else(pa.array(has_field), side, pa.scalar(None, side.type)) for side in bounds))


def sources_of(values: pa.Array, rows: np.ndarray, field: PartitionColumn) -> ColumnBounds:
    """Returns the bounds of the column of a partition field in partitions with these values and numbers of rows. A null value is
    the partition of the nulls. The bounds of `identity` are exact."""
    return ColumnBounds(
        *field.transform.sources(values, field.source_type), pa.array(np.where(np.asarray(values.is_null()), rows, 0))
    )


def _has(table: pa.Table, schema: Schema, field: PartitionColumn) -> np.ndarray:
    """Flags the entries whose spec has a partition field."""
    return np.isin(table["spec"].to_numpy(), list(schema.partition_places(field)))


def narrow(bounds: dict[str, ColumnBounds], field: PartitionColumn, sources: ColumnBounds) -> None:
    """Narrows the bounds of a column by the bounds that a partition field gives."""
    known = bounds.get(field.column)
    if known is None or field.transform.is_identity:
        bounds[field.column] = sources if known is None else ColumnBounds(*map(pc.coalesce, sources, known))
    elif field.transform.keeps_order:
        low = _first_if(pc.greater(known.min, sources.min), known.min, sources.min)
        high = _first_if(pc.less(known.max, sources.max), known.max, sources.max)
        bounds[field.column] = ColumnBounds(low, high, pc.coalesce(known.nulls, sources.nulls))


def _first_if(condition: pa.Array, first: pa.Array, second: pa.Array) -> pa.Array:
    """Chooses `first` where the condition is true, else `second`; the other one where that is null."""
    return pc.if_else(condition.fill_null(False), first, pc.coalesce(second, first))


def _with_hashes(predicate: Predicate, fields: Sequence[PartitionColumn]) -> Predicate:
    """Returns an equal predicate in which = and IN also name the partition values, under `bucket`, of their literals."""
    match predicate:
        case Compare("=", Column((name,)), Literal(value)):
            return _hashed(predicate, name, [value], fields)
        case In(Column((name,)), values):
            return _hashed(predicate, name, values, fields)
        case Not(child):
            return Not(_with_hashes(child, fields))
        case Is(child, value):
            return Is(_with_hashes(child, fields), value)
        case And(children):
            return And(tuple(_with_hashes(child, fields) for child in children))
        case Or(children):
            return Or(tuple(_with_hashes(child, fields) for child in children))
    return predicate


def _hashed(predicate: Predicate, column: str, values: Sequence[object], fields: Sequence[PartitionColumn]) -> Predicate:
    for field in fields:
        if field.column == column and not field.transform.keeps_order:
            numbers = field.transform.apply(pa.array(values, field.source_type)).unique().to_pylist()
            predicate = And((predicate, In(Column((_name(field),), field.type), tuple(numbers))))
    return predicate


def _name(field: PartitionColumn) -> str:
    """The name of the values of a partition field in predicates and bounds."""
    return f"{RESERVED}{field.number}"


def _by_bucket(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    """Flags files in the buckets of the key values. Each file carries the bucket count it was written with."""
    columns = _bucket_keys(schema, predicate)
    if columns is None:
        return np.ones(table.num_rows, bool)
    totals, numbers = table["total_buckets"].to_numpy(), table["bucket"].to_numpy()
    kept = np.zeros(table.num_rows, bool)
    for total in np.unique(totals):
        kept |= (totals == total) & np.isin(numbers, bucket_of(columns, int(total)))
    return kept


def _bucket_keys(schema: Schema, predicate: Predicate) -> list[pa.Array] | None:
    """Returns all bucket keys that a matching row may have, as columns; None if they are too many."""
    values = key_values(predicate, schema.bucket_key)
    if values is None or math.prod(map(len, values.values())) > _BUCKET_LISTS_MAX:
        return None
    return _product([pa.array(values[name], schema.row_columns.field(name).type) for name in schema.bucket_key])


def _product(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Returns all combinations of the columns' values."""
    grids = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
    return [column.take(pa.array(grid.ravel())) for column, grid in zip(columns, grids, strict=True)]


def _key_bounds(table: pa.Table, schema: Schema, predicate: Predicate) -> dict[str, ColumnBounds]:
    """Returns the bounds of the key columns. The bounds of the first column are exact, unlike statistics."""
    if not schema.key:
        return {}
    none = pa.array(np.zeros(table.num_rows, np.int64))
    first = ColumnBounds(table["kmin:0"].combine_chunks(), table["kmax:0"].combine_chunks(), none)
    return file_bounds(table, schema, predicate.columns & set(schema.primary_key)) | {schema.key[0]: first}


def by_statistics(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    """Flags files that may hold a matching row, by the statistics of all columns, and all level-0 files."""
    bounds = exact_bounds(table, schema, predicate.columns & set(schema.columns.names))
    return (table["level"].to_numpy() == 0) | may_match(predicate, bounds, table["rows"].to_numpy())


def file_bounds(table: pa.Table, schema: Schema, names: Collection[str]) -> dict[str, ColumnBounds]:
    """Returns the statistics of columns, by name; without columns that the entries lack."""
    ids, present = schema.field_ids(), set(table.column_names)
    return {
        name: ColumnBounds(*(table[f"{side}:{ids[name]}"].combine_chunks() for side in ("lo", "hi", "n")))
        for name in names
        if f"lo:{ids[name]}" in present
    }


def exact_bounds(table: pa.Table, schema: Schema, names: Collection[str]) -> dict[str, ColumnBounds]:
    """As `file_bounds`, with the values of columns that are partition fields in place of their bounds, which may be cut."""
    bounds = file_bounds(table, schema, names)
    for field in schema.all_partition_columns:
        if field.column in names and field.transform.is_identity:
            narrow(bounds, field, _sources(table, schema, field))
    return bounds
