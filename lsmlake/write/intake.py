"""Taking in the rows of a write: in memory as long as they fit `write-buffer-size`, in sorted spills beyond.

Rows carry their place in the input (`order`), which tells the age of rows of one key wherever the shuffle put them. A spill keeps
all rows of a key if the rule cannot combine any two of them, because rows that arrived between them may lie in another spill,
and if they are the changelog, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.merge.runs import grouped
from lsmlake.lsm.merge.windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.row_kinds import with_kind, with_kinds
from lsmlake.options.changelog import INPUT
from lsmlake.schema.rowkind import INSERT
from lsmlake.schema.schema import RESERVED, ROW_KIND, Schema
from lsmlake.store.spill import Spill
from lsmlake.write.bucket import fold, in_replay_order, split, split_given, split_unfolded
from lsmlake.write.prepare import Request, as_given, prepare, without_given

_ORDER = f"{RESERVED}order"


Numbers = "pa.ChunkedArray | np.ndarray"


class Taken(NamedTuple):
    """A bucket's `rows`, ascending by key with unique keys: a list when they are in memory, else an iterator. `given`: all of
    them as they came, if that is to be the changelog."""

    bucket: Bucket
    rows: list[pa.Table] | Iterator[pa.Table]
    given: Iterable[pa.Table]


class Intake:
    """Add tables, then take every bucket's rows, sorted and folded. Use as a context: leaving it removes the spills.

    `request`: how rows are to be prepared when they are sorted, in Spark's tasks. None: they are prepared when they are added.
    """

    def __init__(self, schema: Schema, request: Request | None) -> None:
        self.schema, self.request = schema, request
        self.tables: list[tuple[pa.Table, Numbers, Numbers]] = []
        self.bytes = 0
        self.spill: Spill | None = None
        self.kinds = False  # whether any row spilled is no +I
        self.tells = schema.parsed_options.changelog.producer == INPUT

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spill is not None:
            self.spill.close()

    def add(self, rows: pa.Table, numbers: Numbers, order: Numbers) -> None:
        """Rows as users bring them, their bucket numbers and their places in the input. Raises InvalidData, when rows are
        spilled or taken at the latest."""
        self.tables.append((rows, numbers, order))
        self.bytes += rows.get_total_buffer_size()  # nbytes reads offsets that Spark 4.1 leaves out of empty nested columns
        if self.bytes >= self.schema.parsed_options.write.buffer_bytes:
            self.spill = self.spill or Spill()
            self.spill.write(self._unmerged())

    def sorted(self) -> Iterator[Taken]:
        """Bucket after bucket."""
        buckets = self.schema.parsed_options.layout.buckets
        if self.spill is None:
            if not self.tables:
                return
            rows, numbers, order = self._prepared()
            given = dict(split_given(rows, self.schema, buckets, numbers, order)) if self.tells else {}
            for bucket, part in split(rows, self.schema, buckets, numbers, order):
                yield Taken(bucket, [part], [as_given(given.pop(bucket))] if self.tells else ())
            return
        if self.tables:
            self.spill.write(self._unmerged())
        for bucket in sorted(self.spill.keys(), key=str):
            yield Taken(bucket, self._merged(bucket), self._given(bucket) if self.tells else ())

    def _prepared(self) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """What is in memory as prepared rows, their bucket numbers and places; the memory is given up."""
        taken, self.tables, self.bytes = self.tables, [], 0
        data = pa.concat_tables(
            with_kinds([rows for rows, _, _ in taken]) if self.request is None else [rows for rows, _, _ in taken]
        )
        numbers = np.concatenate([np.asarray(n) for _, n, _ in taken])
        order = np.concatenate([np.asarray(o) for _, _, o in taken])
        del taken
        if self.request is None:
            return data, numbers, order
        rows, kept = prepare(data, self.schema, self.request, None)
        return (rows, numbers, order) if kept is None else (rows, numbers[kept], order[kept])

    def _unmerged(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """What is in memory by bucket, for a spill."""
        rows, numbers, order = self._prepared()
        self.kinds |= ROW_KIND in rows.column_names
        rows = _uniform(rows).append_column(_ORDER, pa.array(order))
        parts = split_unfolded if self.tells or rule_of(self.schema).repeats_keys else split
        yield from parts(rows, self.schema, self.schema.parsed_options.layout.buckets, numbers, order)

    def _merged(self, bucket: Bucket) -> Iterator[pa.Table]:
        key = self.schema.key
        rule = rule_of(self.schema)
        kinds = self.kinds or rule.repeats_keys
        for table in merge_windows(self._runs(bucket), key, partial(_folded, key=key, rule=rule)):
            yield _uniform(table) if kinds else table.select(self.schema.columns.names)

    def _given(self, bucket: Bucket) -> Iterator[pa.Table]:
        merge = partial(_ordered, key=self.schema.key, rule=rule_of(self.schema))
        yield from map(as_given, merge_windows(self._runs(bucket), self.schema.key, merge))

    def _runs(self, bucket: Bucket) -> list[RunReader]:
        return [RunReader(whole_keys(tables, self.schema.key), rows) for tables, rows in self.spill.runs(bucket)]


def _uniform(rows: pa.Table) -> pa.Table:
    """Spills of one bucket, and the tables of one run, agree on their columns: with `_row_kind`."""
    return rows if ROW_KIND in rows.column_names else with_kind(rows, INSERT)


def _folded(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule) -> pa.Table:
    joined, groups = _grouped(pieces, key)
    return fold(without_given(joined), groups, rule, key, None)


def _ordered(pieces: list[pa.Table], key: tuple[str, ...], rule: MergeRule) -> pa.Table:
    joined, groups = _grouped(pieces, key)
    return in_replay_order(joined, groups, rule, None)


def _grouped(pieces: list[pa.Table], key: tuple[str, ...]) -> tuple[pa.Table, Groups]:
    joined = pa.concat_tables(pieces)
    keys = np.concatenate(comparable([piece.select(key) for piece in pieces]))
    return joined.drop_columns([_ORDER]), grouped(keys, np.asarray(joined[_ORDER]))
