"""Prunes files by partition, bucket, key range and column statistics. Array operations only.

Partition, bucket and key are the same in all entries of a file, so they choose manifests and prune entries before these are
folded (`store.live`). Statistics prune the live files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.format import manifest_list
from lsmlake.format.manifest_list import ManifestMeta
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.predicate import ColumnBounds, Predicate, key_values, may_match
from lsmlake.schema.schema import Schema
from lsmlake.store.live import Selection

_BUCKET_LISTS_MAX = 10_000  # combinations of key values worth hashing


def selection(schema: Schema, predicate: Predicate | None, *, by_key: bool = True, level0: bool = True) -> Selection | None:
    """Returns the files that may hold a key of the predicate; None if that is all files.

    Args:
        by_key: False: chooses whole buckets.
        level0: False: manifests without deeper files are not opened, and files of level 0 may be missing. Sound because the level
            of a file is 0 at first, and never again.
    """
    if predicate is None and level0:
        return None
    return Selection(
        partial(_manifests, schema=schema, predicate=predicate, by_key=by_key, level0=level0),
        partial(_entries, schema=schema, predicate=predicate, by_key=by_key),
    )


def _manifests(
    metas: Sequence[ManifestMeta], where: str, *, schema: Schema, predicate: Predicate | None, by_key: bool, level0: bool
) -> np.ndarray:
    opened = np.array([level0 or meta.level_max > 0 for meta in metas], bool)
    if predicate is None or not len(metas):
        return opened
    unknown = pa.nulls(len(metas), pa.int64())
    bounds = {
        name: ColumnBounds(*manifest_list.partition_bounds(metas, schema, i, where), unknown)
        for i, name in enumerate(schema.partition_by)
    }
    if by_key and schema.key:
        bounds[schema.key[0]] = ColumnBounds(*manifest_list.key_bounds(metas, schema, where), unknown)
    opened &= may_match(predicate, bounds, np.array([meta.added + meta.deleted for meta in metas]))
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
    matches = may_match(predicate, bounds | _partitions(table, schema), table["rows"].to_numpy())
    return matches & _by_bucket(table, schema, predicate)


def prune_by_key(table: pa.Table, schema: Schema, predicate: Predicate) -> pa.Table:
    """Returns the entries of files that may hold a key of the predicate."""
    return table.filter(pa.array(_entries(table, schema=schema, predicate=predicate, by_key=True)))


def _partitions(table: pa.Table, schema: Schema) -> dict[str, ColumnBounds]:
    """Returns the values of the partition columns as exact bounds."""
    rows, bounds = table["rows"].to_numpy(), {}
    for i, name in enumerate(schema.partition_by):
        values = table[f"p:{i}"].combine_chunks()
        bounds[name] = ColumnBounds(values, values, pa.array(np.where(np.asarray(values.is_null()), rows, 0)))
    return bounds


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
    """Returns the bounds of the key columns. Those of the first one are exact, unlike statistics."""
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
    """Returns the statistics of columns, by name; without those that the entries lack."""
    ids, present = schema.field_ids(), set(table.column_names)
    return {
        name: ColumnBounds(*(table[f"{side}:{ids[name]}"].combine_chunks() for side in ("lo", "hi", "n")))
        for name in names
        if f"lo:{ids[name]}" in present
    }


def exact_bounds(table: pa.Table, schema: Schema, names: Collection[str]) -> dict[str, ColumnBounds]:
    """As `file_bounds`, with the values of partition columns in place of their bounds, which may be cut."""
    partitions = {name: bounds for name, bounds in _partitions(table, schema).items() if name in names}
    return file_bounds(table, schema, names) | partitions
