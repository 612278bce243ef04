"""Point lookups: reads the rows of given primary keys. Skips buckets, files and row groups that cannot hold one of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.tree import Column, In, IsNull, or_
from lsmlake.read.plan import plan
from lsmlake.read.point import lookups, rows_by_lookup
from lsmlake.read.scan import read_plan
from lsmlake.schema.schema import Schema
from lsmlake.store.version import Version


def rows_of_keys(version: Version, keys: pa.Table) -> pa.Table:
    """Returns the rows of `keys` (conformed primary key columns) in the order of the keys, without duplicates. Keys without a row
    are skipped."""
    empty = version.schema.plain_columns.empty_table()
    if not keys.num_rows or version.snapshot is None:
        return empty
    with version.unless_expired():
        few = lookups(version, keys)
        tables = read_plan(plan(version, _predicate(keys, version.schema))) if few is None else rows_by_lookup(version, few)
        found = pa.concat_tables([empty, *(table.cast(empty.schema) for table in tables)])
    if keys.num_rows == 1:
        return found
    wanted, stored = _codes(keys, found)
    _, first = np.unique(wanted, return_index=True)
    wanted = wanted[np.sort(first)]
    order = np.argsort(stored)
    places = np.searchsorted(stored[order], wanted)
    inside = places < len(stored)
    hit = np.zeros(len(wanted), bool)
    hit[inside] = stored[order][places[inside]] == wanted[inside]
    return found.take(pa.array(order[places[hit]]))


def _predicate(keys: pa.Table, schema: Schema) -> Predicate:
    """Returns a predicate that is true of all `keys`; with several key columns it may match other keys as well."""
    return and_(*(_is_in(keys[name], Column((name,), schema.plain_columns.field(name).type)) for name in schema.primary_key))


def _is_in(values: pa.ChunkedArray, column: Column) -> Predicate:
    distinct = values.unique()
    valid = distinct.drop_null().to_pylist()
    return or_(*([In(column, tuple(valid))] if valid else []), *([IsNull(column)] if distinct.null_count else []))


def _codes(keys: pa.Table, found: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns one number per row of both tables; equal keys, including nulls, have equal numbers."""
    code = np.zeros(keys.num_rows + found.num_rows, np.int64)
    for name in keys.column_names:
        values = pa.chunked_array([*keys[name].chunks, *found[name].chunks], keys.schema.field(name).type)
        encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + np.asarray(encoded.indices), return_inverse=True)
    return code[: keys.num_rows], code[keys.num_rows :]
