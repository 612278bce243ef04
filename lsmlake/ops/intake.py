"""Taking in the rows of a write: in memory as long as they fit `write-buffer-size`, in sorted spills beyond.

Rows carry their place in the input (`order`), which tells the age of rows of one key wherever the shuffle put them. A spill keeps
all rows of a key unless the engine only chooses among them: the others in between may lie in another spill.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket
from lsmlake.format.rowkind import INSERT
from lsmlake.format.schema import RESERVED, ROW_KIND, Schema
from lsmlake.lsm.keys import comparable
from lsmlake.lsm.merge.engine import Engine
from lsmlake.lsm.merge.engines import engine_of
from lsmlake.lsm.merge.rows import with_kind
from lsmlake.lsm.merge.runs import grouped
from lsmlake.lsm.merge.windows import Run, merge_windows, whole_keys
from lsmlake.ops.write import fold, prepare, prepare_deletes, split, split_unfolded
from lsmlake.store.spill import Spill

_ORDER = f"{RESERVED}order"


class Intake:
    """Add tables, then take every bucket's rows, sorted and folded. Use as a context: leaving it removes the spills."""

    def __init__(self, schema: Schema, row_kind: str | None, deletes: bool) -> None:
        self.schema, self.row_kind, self.deletes = schema, row_kind, deletes
        self.tables: list[tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray]] = []
        self.bytes = 0
        self.spill: Spill | None = None
        self.kinds = False  # whether any row spilled is no +I

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spill is not None:
            self.spill.close()

    def add(self, rows: pa.Table, numbers: pa.ChunkedArray, order: pa.ChunkedArray) -> None:
        """Rows as users bring them, their bucket numbers and their places in the input. Raises InvalidData, when rows are
        spilled or taken at the latest."""
        self.tables.append((rows, numbers, order))
        self.bytes += rows.get_total_buffer_size()  # nbytes reads offsets that Spark 4.1 leaves out of empty nested columns
        if self.bytes >= self.schema.parsed_options.write_buffer_bytes:
            self.spill = self.spill or Spill()
            self.spill.write(self._parts(spilled=True))

    def sorted(self) -> Iterator[tuple[Bucket, list[pa.Table] | Iterator[pa.Table]]]:
        """(bucket, its rows ascending by key with unique keys): a list when they are in memory, else an iterator."""
        if self.spill is None:
            yield from ((bucket, [rows]) for bucket, rows in self._parts(spilled=False))
            return
        if self.tables:
            self.spill.write(self._parts(spilled=True))
        for bucket in sorted(self.spill.keys(), key=str):
            yield bucket, self._merged(bucket)

    def _parts(self, *, spilled: bool) -> Iterator[tuple[Bucket, pa.Table]]:
        """What is in memory by bucket; the memory is given up."""
        taken, self.tables, self.bytes = self.tables, [], 0
        if not taken:
            return
        data = pa.concat_tables([rows for rows, _, _ in taken])
        numbers = np.concatenate([np.asarray(n) for _, n, _ in taken])
        order = np.concatenate([np.asarray(o) for _, _, o in taken])
        del taken
        if self.deletes:
            rows = prepare_deletes(data, self.schema)
        else:
            rows, kept = prepare(data, self.schema, self.row_kind)
            numbers, order = (numbers, order) if kept is None else (numbers[kept], order[kept])
        buckets = self.schema.parsed_options.bucket
        if not spilled:
            yield from split(rows, self.schema, buckets, numbers, order)
            return
        self.kinds |= ROW_KIND in rows.column_names
        rows = _uniform(rows).append_column(_ORDER, pa.array(order))
        parts = split_unfolded if engine_of(self.schema).settles_late else split
        yield from parts(rows, self.schema, buckets, numbers, order)

    def _merged(self, bucket: Bucket) -> Iterator[pa.Table]:
        key = self.schema.key
        engine = engine_of(self.schema)
        kinds = self.kinds or not engine.folds_adds
        runs = [Run(whole_keys(tables, key), rows) for tables, rows in self.spill.runs(bucket)]
        for table in merge_windows(runs, key, partial(_folded, key=key, engine=engine)):
            yield _uniform(table) if kinds else table.select(self.schema.columns.names)


def _uniform(rows: pa.Table) -> pa.Table:
    """Spills of one bucket, and the tables of one run, agree on their columns: with `_row_kind`."""
    return rows if ROW_KIND in rows.column_names else with_kind(rows, INSERT)


def _folded(pieces: list[pa.Table], key: tuple[str, ...], engine: Engine) -> pa.Table:
    joined = pa.concat_tables(pieces)
    keys = np.concatenate(comparable([piece.select(key) for piece in pieces]))
    groups = grouped(joined, keys, engine, np.asarray(joined[_ORDER]))
    return fold(joined.drop_columns([_ORDER]), groups, engine, None)
