"""Puts the rows of a write into the partitions of their keys, in a table whose keys can move between partitions.

The rows of a write are first brought together by key. Then, for each key:

1. Look up its row in the table, in any partition.
2. Choose the place of the key. Under `deduplicate` it is the partition of the last row; a delete goes to where the row lies, and
   is dropped if there is none. Under `partial-update` and `aggregation` it is the partition of the row of the table, else that of
   the first row. A -D that removes the row makes the key a new one. Under `first-row` the rows of a known key are dropped.
3. Give the rows the partition columns of their place. If the key leaves a partition, add a row of kind -U to remove it there.

Of an overwrite all rows stay in their partitions. It removes the rows of their keys from partitions that it does not replace.

With `changelog-producer = lookup` the write emits its changes as well, since the old and the new row are known: -U and +U of a
key that moves are in one commit, each in its own partition.

The commit requires that no other one has written these keys since (`write.read_set`); otherwise the rows are placed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.compact.changelog import compared_columns
from lsmlake.kernels import nested, segments
from lsmlake.kernels.groups import gather
from lsmlake.kernels.keys import comparable, joined
from lsmlake.lsm.cover import partition_codes
from lsmlake.lsm.difference import difference
from lsmlake.lsm.merge.rule import MergeRule, OldRow, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.options.changelog_options import LOOKUP
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.read.find_keys import NO_KEYS, FoundKeys, find_keys, rows_at
from lsmlake.read.point import matches, rows_of_keys
from lsmlake.schema.rowkind import DELETE, ERASES, UPDATE_BEFORE, kinds_of, retractions, with_kind, without_deletes
from lsmlake.schema.schema import RESERVED, ROW_KIND, Schema
from lsmlake.tables.version import Version
from lsmlake.write.replace import Replacement

CHANGE = f"{RESERVED}change"
"""A column of placed rows if the write emits its changes: whether the row belongs to the changelog only."""


class _KeyRows(NamedTuple):
    """The keys of a batch and their rows in the table. `number`: the key of each row of the batch, `starts`: its first row.
    `old`: the rows of the table; `at`: for each key its row there, -1: none."""

    starts: np.ndarray
    number: np.ndarray
    old: pa.Table
    at: np.ndarray

    @property
    def old_of_rows(self) -> np.ndarray:
        return self.at[self.number]


class _Kept(NamedTuple):
    """`rows`: the numbers of the rows that are written. `places`: for each of them, the row whose partition columns it takes:
    below the number of rows of the batch one of them, else a row of the table."""

    rows: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class KeyPlaces:
    """The places of keys at a version. `replaces`: the write is an overwrite of these rows, whose new rows all stay in their
    partitions; if it replaces the whole table, nothing is looked up."""

    version: Version
    replaces: Replacement | None = None

    @property
    def schema(self) -> Schema:
        return self.version.schema

    @cached_property
    def rule(self) -> MergeRule:
        return rule_of(self.schema, self.version.meta.paths.root)

    @property
    def reports(self) -> bool:
        return reports(self.schema, self.replaces)

    def placed(self, rows: pa.Table) -> pa.Table:
        """Places prepared rows of one partition by `Schema.of_keys`, which ascend by key: under `deduplicate` and `first-row` one
        row per key, else all rows in the order of their arrival. Returns rows to route to buckets, in no order of keys; the rows
        of a key in one partition are in their order. With the column `CHANGE` if the write emits its changes."""
        keys = self._found(rows)
        kinds = kinds_of(rows)
        kinds = np.zeros(rows.num_rows, np.int8) if kinds is None else kinds
        kept = self._kept(rows, kinds, keys)
        written = with_kind(self._at(rows, keys, kept), kinds[kept.rows])
        left = self._left(rows, keys, kept)
        made = [written, *left]
        if not self.reports:
            made = made if any(kinds_of(part).any() for part in made) else [part.drop_columns([ROW_KIND]) for part in made]
            return pa.concat_tables(made)
        changes = self._changes(written, keys, kinds[kept.rows])
        flagged = [(part, False) for part in made] + [(changes.select(written.column_names), True)]
        return pa.concat_tables([part.append_column(CHANGE, pa.repeat(flag, part.num_rows)) for part, flag in flagged])

    def _found(self, rows: pa.Table) -> _KeyRows:
        schema = self.schema
        starts = segments.of_sorted(comparable([rows.select(schema.key)])[0])
        keys = rows.select(schema.primary_key).take(pa.array(starts))
        reads = self.replaces is None or not self.replaces.everything
        stored = find_keys(self.version, keys) if reads else NO_KEYS
        at = np.full(keys.num_rows, -1)
        at[stored.keys] = np.arange(len(stored.keys))
        return _KeyRows(
            starts, segments.numbers(starts, rows.num_rows), self._old_rows(keys.take(pa.array(stored.keys)), stored), at
        )

    def _old_rows(self, keys: pa.Table, found: FoundKeys) -> pa.Table:
        """The rows of the table: all columns if the write emits its changes, else those of the key and of the partition."""
        schema = self.schema
        if self.reports:
            if self.rule.old_row is not OldRow.REPLACED and keys.num_rows:  # merged, or the first of several rows
                rows = rows_of_keys(self.version, keys)
                return rows.take(pa.array(matches(keys, rows.select(keys.column_names)))).cast(schema.row_columns)
            return rows_at(self.version, found, schema.columns.names)
        columns = [name for name in schema.columns.names if name in {*schema.primary_key, *self._partitioning}]
        if not all(field.transform.is_identity for field in schema.partition_columns):
            return rows_at(self.version, found, columns)
        values = dict(zip(keys.column_names, keys.columns, strict=True))
        for number, field in enumerate(schema.partition_columns):
            of_file = pa.array([one.bucket.partition[number] for one in found.files], field.source_type)
            values[field.column] = of_file.take(pa.array(found.file))
        return pa.table([values[name] for name in columns], schema=pa.schema([schema.row_columns.field(n) for n in columns]))

    @cached_property
    def _partitioning(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field.column for field in self.schema.partition_columns))

    def _kept(self, rows: pa.Table, kinds: np.ndarray, found: _KeyRows) -> _Kept:
        count, old = rows.num_rows, found.old_of_rows
        own, exists = np.arange(count), old >= 0
        erases = (kinds & ERASES) != 0
        if self.replaces is not None:
            return _Kept(own, own)
        if self.rule.old_row is OldRow.MERGED:
            return self._kept_to_merge(kinds, found)
        retract = retractions(kinds & 3)
        keep = exists == retract if self.rule.old_row is OldRow.KEPT else exists | ~retract
        keep &= exists | ~erases
        chosen = np.flatnonzero(keep)
        return _Kept(chosen, np.where(retract, count + old, own)[chosen])

    def _kept_to_merge(self, kinds: np.ndarray, found: _KeyRows) -> _Kept:
        """Of rows that are merged with the row of the table."""
        count, old, merge = len(kinds), found.old_of_rows, self.schema.parsed_options.merge
        own, exists = np.arange(count), old >= 0
        removes = (kinds & ERASES) != 0
        if merge.remove_on_delete or merge.aggregation_remove_on_delete:
            removes |= kinds == DELETE
        adds = ~retractions(kinds & 3) if merge.engine == PARTIAL_UPDATE else ~removes
        last = segments.last_where(removes, found.starts, count)[found.number]
        first = segments.first_where(adds & (own > last), found.starts, count)[found.number]
        first = np.where(first < 0, own, first)  # rows that change nothing: there is no row to take anything from
        stays = exists & ((last < 0) | (own == last))
        chosen = np.flatnonzero((own > last) | ((own == last) & exists))
        return _Kept(chosen, np.where(stays, count + old, first)[chosen])

    def _at(self, rows: pa.Table, found: _KeyRows, kept: _Kept) -> pa.Table:
        """The rows that are kept, with the partition columns of their places and without kinds."""
        taken = gather(rows.select(self.schema.columns.names), kept.rows)
        if (kept.places == kept.rows).all():
            return taken
        for name in self._partitioning:
            place, field = taken.column_names.index(name), taken.schema.field(name)
            values = pa.concat_arrays([joined(rows[name]), joined(found.old[name]).cast(field.type)])
            taken = taken.set_column(place, field, segments.take(values, kept.places))
        return taken

    def _left(self, rows: pa.Table, found: _KeyRows, kept: _Kept) -> list[pa.Table]:
        """Rows of kind -U for the keys that leave a partition. Under other rules than `deduplicate` a key does so only by a
        delete, which is written."""
        if self.rule.old_row is not OldRow.REPLACED or not found.old.num_rows:
            return []
        both = pa.concat_tables([rows.select(self._partitioning), found.old.select(self._partitioning)])
        codes, _ = partition_codes(both, self.schema)
        before = found.old_of_rows[kept.rows]
        moved = (before >= 0) & (codes[kept.places] != codes[rows.num_rows + before])
        if not moved.any():
            return []
        old = gather(found.old, before[moved])
        known = {*self.schema.primary_key, *self._partitioning}
        columns = [old[f.name] if f.name in known else nested.nulls(old.num_rows, f.type) for f in self.schema.row_columns]
        return [with_kind(pa.table(columns, schema=self.schema.row_columns), UPDATE_BEFORE)]

    def _changes(self, written: pa.Table, found: _KeyRows, kinds: np.ndarray) -> pa.Table:
        """The changes of the table, with their kinds, ascending by key."""
        old, key = found.old, self.schema.key
        if self.rule.old_row is OldRow.MERGED:
            old = old.take(pa.array(np.argsort(comparable([old.select(key)])[0], kind="stable"))) if old.num_rows else old
            after = without_deletes(merge_runs([old, written], key, self.rule)) if written.num_rows else old
        else:
            after = without_deletes(written)
            if self.rule.old_row is OldRow.KEPT:  # only the rows that are erased
                old = old if written.num_rows and retractions(kinds & 3).any() else old.slice(0, 0)
        after = after.select(old.column_names)
        return difference(old, after, key, compared_columns(self.schema, self.rule.old_row))


def reports(schema: Schema, replaces: Replacement | None) -> bool:
    """Whether a write emits its changes. Readers of changes compare the snapshots before and after an overwrite."""
    return schema.parsed_options.changelog.producer == LOOKUP and replaces is None
