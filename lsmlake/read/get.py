"""Point lookups: reads the rows of given primary keys. Skips buckets, files and row groups that cannot hold one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pyarrow as pa

from lsmlake.predicate import Predicate, and_, key_values
from lsmlake.predicate.tree import Column, In, IsNull, or_
from lsmlake.read.plan import Projection, plan
from lsmlake.read.point import Lookup, lookups, rows_by_lookup
from lsmlake.read.scan import filtered, finished, read_plan
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version


def rows_of_keys(version: Version, keys: pa.Table) -> pa.Table:
    """Returns the rows of `keys` (conformed primary key columns) in the order of the keys, without duplicates. Keys without a row
    are skipped."""
    columns = version.schema.plain_columns
    if not keys.num_rows or version.snapshot is None:
        return columns.empty_table()
    found = pa.concat_tables([columns.empty_table(), *(table.cast(columns) for table in _tables(version, keys))])
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


def row_of_key(version: Version, key: pa.Table) -> dict[str, object] | None:
    """Returns the row of one key as Python values; None if there is none."""
    found = [] if version.snapshot is None else _tables(version, key)
    return next((table.to_pylist()[0] for table in found if table.num_rows), None)


def read_keys(version: Version, projection: Projection) -> Iterator[pa.Table] | None:
    """Reads a projection whose predicate names whole keys by lookups, and applies the predicate to the rows that are found.
    Returns None if it does not name keys, or if a scan is cheaper."""
    keys = None if version.snapshot is None else _named_keys(version, projection)
    found = None if keys is None else lookups(version, keys)
    return None if found is None else _projected(version, found, projection)


def _projected(version: Version, found: Sequence[Lookup], projection: Projection) -> Iterator[pa.Table]:
    with version.unless_expired():
        for table in rows_by_lookup(version, found, projection.needed or projection.schema.key[:1]):
            yield finished(filtered(table, projection), projection)


def _named_keys(version: Version, projection: Projection) -> pa.Table | None:
    """All keys that rows of a projection can have; None if they are not limited by the predicate, or too many."""
    schema = projection.schema
    values = None if projection.predicate is None else key_values(projection.predicate, schema.primary_key)
    if values is None or not 0 < prod(map(len, values.values())) <= version.snapshot.total_rows:
        return None
    arrays = [pa.array(values[name], schema.plain_columns.field(name).type) for name in schema.primary_key]
    places = np.indices([len(array) for array in arrays]).reshape(len(arrays), -1)
    return pa.table([array.take(pa.array(at)) for array, at in zip(arrays, places, strict=True)], names=list(schema.primary_key))


def _tables(version: Version, keys: pa.Table) -> list[pa.Table]:
    with version.unless_expired():
        few = lookups(version, keys)
        if few is None:
            return list(read_plan(plan(version, _predicate(keys, version.schema))))
        return list(rows_by_lookup(version, few, version.schema.columns.names))


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
