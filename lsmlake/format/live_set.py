"""The live set: the fold of the entries of all manifests, in commit order. The last entry of a file name decides.

Also the changes of manifests that leave the live set as it is: they are merged, and their entries sorted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.manifest import ADD, DELETE, concat
from lsmlake.schema.schema import Schema


def inherit(table: pa.Table, sequence: int) -> pa.Table:
    """Fills empty sequences with that of the snapshot that added the manifest."""
    for name in ("sequence", "min_sequence"):
        column = table[name]
        if column.null_count:
            table = table.set_column(table.schema.get_field_index(name), name, pc.fill_null(column, sequence))
    return table


def _first_and_last(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each file name the row of its first and of its last entry."""
    names = table["name"].combine_chunks().dictionary_encode()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    codes = names.indices.to_numpy()
    first, last = np.empty(len(names.dictionary), np.int64), np.empty(len(names.dictionary), np.int64)
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]
    last[codes] = rows
    return first, last


def fold(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """Returns the live set: the ADD entries of live files, in the order they were added. `tables` are in commit order."""
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    last = np.sort(_first_and_last(table)[1])
    live = last[table["kind"].to_numpy()[last] == ADD]
    return table if len(live) == table.num_rows else table.take(live)


def merge(tables: Iterable[pa.Table], schema: Schema, *, whole: bool = False) -> pa.Table:
    """Merges consecutive manifests so that they fold as before, each with the same change of the number of live files.

    Keeps the last entry of each file, and its first one if that is the DELETE of a file that was added again. Drops files that
    were added and deleted within the manifests. `whole`: there is no manifest before these, so only ADDs of live files are kept.
    """
    if whole:
        return fold(tables, schema)
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    first, last = _first_and_last(table)
    kinds = table["kind"].to_numpy()
    replaced = first[(kinds[first] == DELETE) & (kinds[last] == ADD)]
    kept = last[~((kinds[first] == ADD) & (kinds[last] == DELETE))]
    return table.take(np.sort(np.concatenate([replaced, kept])))


def clustered(table: pa.Table, schema: Schema) -> pa.Table:
    """Sorts entries by partition, bucket and first key, so that parts of them have narrow bounds. Entries of one file keep their
    order."""
    partition = (f"p:{field.number}" for field in schema.all_partition_columns)
    names = ["spec", *partition, "bucket", *(["kmin:0"] if schema.key else [])]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))
