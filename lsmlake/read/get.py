"""Point lookups: the rows of given primary keys. Buckets, files and row groups that cannot hold one of them are not read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.format.snapshot import Snapshot
from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.tree import Column, In, IsNull, or_
from lsmlake.read.plan import plan
from lsmlake.read.scan import output_schema, read_plan
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata


def rows_of_keys(meta: Metadata, schema: Schema, snapshot: Snapshot | None, keys: pa.Table) -> pa.Table:
    """The rows of `keys` (conformed primary key columns) in the order of the keys, each once. Keys without a row are left out."""
    with meta.unless_expired(snapshot):
        planned = plan(meta, schema, snapshot, _predicate(keys, schema))
    empty = output_schema(planned).empty_table()
    if not keys.num_rows:
        return empty
    found = pa.concat_tables([empty, *read_plan(meta, planned)])
    asked, there = _codes(keys, found)
    _, first = np.unique(asked, return_index=True)
    asked = asked[np.sort(first)]
    order = np.argsort(there)
    places = np.searchsorted(there[order], asked)
    inside = places < len(there)
    hit = np.zeros(len(asked), bool)
    hit[inside] = there[order][places[inside]] == asked[inside]
    return found.take(pa.array(order[places[hit]]))


def _predicate(keys: pa.Table, schema: Schema) -> Predicate:
    """Every column has one of its values: of a key of several columns more than the keys asked for."""
    return and_(*(_among(keys[name], Column((name,), schema.plain_columns.field(name).type)) for name in schema.primary_key))


def _among(values: pa.ChunkedArray, column: Column) -> Predicate:
    distinct = values.unique()
    given = distinct.drop_null().to_pylist()
    return or_(*([In(column, tuple(given))] if given else []), *([IsNull(column)] if distinct.null_count else []))


def _codes(keys: pa.Table, found: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """One number per row of both tables; equal keys have equal numbers, nulls included."""
    code = np.zeros(keys.num_rows + found.num_rows, np.int64)
    for name in keys.column_names:
        values = pa.chunked_array([*keys[name].chunks, *found[name].chunks], keys.schema.field(name).type)
        encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + np.asarray(encoded.indices), return_inverse=True)
    return code[: keys.num_rows], code[keys.num_rows :]
