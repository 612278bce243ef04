"""The form of changes in which an update is one row: every column is a list, [before, after] for an update. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.keys import joined
from lsmlake.lsm.difference import KIND_FIELD, equal_rows
from lsmlake.schema.rowkind import COMMIT_COLUMNS, NAMES, UPDATE_AFTER, UPDATE_BEFORE

ROWKIND = "rowkind"
"""The column with the row kind, as Apache Paimon calls it."""


def as_lists(changes: Iterable[pa.RecordBatch], key: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields changes as lists, in their order.

    A -U directly before a +U of the same key becomes one +U with two values per column. Every other change has one value per
    column, including a -U or +U without its counterpart.

    Args:
        changes: Changes as `api.changes` returns them, in batches that may separate a -U from its +U.
        key: The primary key columns, all of them among the columns.
        schema: `list_schema` of the changes.
    """
    held: pa.Table | None = None  # one row of kind -U, whose +U may be the first row of the next batch
    for batch in changes:
        rows = pa.Table.from_batches([batch])
        if not rows.num_rows:
            continue
        if held is not None:
            both = _listed(pa.concat_tables([held, rows.slice(0, 1)]), key, schema)
            paired = both.num_rows == 1
            yield both if paired else both.slice(0, 1)
            rows, held = rows.slice(int(paired)), None
        if rows.num_rows and rows[KIND_FIELD.name][-1].as_py() == NAMES[UPDATE_BEFORE]:
            rows, held = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        if rows.num_rows:
            yield _listed(rows, key, schema)
    if held is not None:
        yield _listed(held, key, schema)


def list_schema(kind: pa.Field, columns: pa.Schema) -> pa.Schema:
    """The schema of `as_lists`: the row kind, then each column as a list that is never null. Commit columns stay single values;
    an update has those of its +U."""
    lists = [
        f if f.name in COMMIT_COLUMNS else pa.field(f.name, pa.list_(pa.field("element", f.type, f.nullable)), nullable=False)
        for f in columns
    ]
    return pa.schema([kind, *lists])


def _listed(changes: pa.Table, key: Sequence[str], schema: pa.Schema) -> pa.Table:
    kinds = joined(changes[KIND_FIELD.name])
    before, after = (np.asarray(pc.equal(kinds, NAMES[kind])) for kind in (UPDATE_BEFORE, UPDATE_AFTER))
    places = np.flatnonzero(before[:-1] & after[1:])
    places = places[equal_rows(changes.select(key), places, places + 1)]
    offsets = np.delete(np.arange(changes.num_rows + 1, dtype=np.int32), places + 1)
    last = pa.array(offsets[1:] - 1)
    columns = [
        joined(changes[f.name]).take(last)
        if f.name in COMMIT_COLUMNS
        else pa.ListArray.from_arrays(pa.array(offsets), joined(changes[f.name]), type=f.type)
        for f in list(schema)[1:]
    ]
    return pa.table([kinds.take(last), *columns], schema=schema)
