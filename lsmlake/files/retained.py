"""The files of retained deletes of a bucket, and the rows of its level 0 that are ignored because of them.

A file holds a row for each of some keys, ascending: the key, the columns of `sequence.field` and the time of the delete. The
newest file with a key decides; a null time means that the key is no longer deleted. The files are live files of the bucket of
source DELETES. Only merges of level 0 read them, and only compactions write them, when they take up level 0.

`lsm.merge.retained_deletes` says which rows are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.files.bucket_files import BucketFiles, Hits
from lsmlake.files.data_writer import RETAINED, Origin, float_columns, write_run
from lsmlake.format.data_files import DELETES, DataFile
from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import of_sorted
from lsmlake.lsm.lookup import find, search_among
from lsmlake.lsm.merge.retained_deletes import settle
from lsmlake.lsm.merge.rule import MergeRule, distinct
from lsmlake.schema.partitioning import Partitioning
from lsmlake.schema.rowkind import DELETE, ERASE, INSERT, kinds_of, plain
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import FIELD_ID

DELETED_MS = "_deleted_ms"
_KEPT_ROWS = 1 << 16  # files with so many rows stay in memory
_DELETED_FIELD = pa.field(DELETED_MS, pa.int64(), True, {FIELD_ID: b"2147483102"})

DataFiles = tuple[DataFile, ...]
RowsOf = Callable[[DataFile], pa.Table]
"""The key and sequence columns of all rows of a level-0 file, and `_row_kind` if it is stored."""


@dataclass(frozen=True)
class Settlement:
    """`ignored`: by name of a level-0 file, the positions of rows that are ignored, ascending. `changed`: the keys whose deletes
    must be retained, or no longer retained, as rows of a file of retained deletes."""

    ignored: Mapping[str, np.ndarray] = field(default_factory=dict)
    changed: pa.Table | None = None

    def live(self, file: DataFile, rows: pa.Table) -> pa.Table:
        """All rows of a file without the ignored ones."""
        if file.name not in self.ignored:
            return rows
        kept = np.ones(rows.num_rows, bool)
        kept[self.ignored[file.name]] = False
        return rows.filter(pa.array(kept))


@dataclass(frozen=True)
class Retained:
    """The retained deletes of a bucket. `held`: their files, oldest first. `rule`: the merge rule of the table."""

    bucket_files: BucketFiles
    held: tuple[DataFile, ...]
    rule: MergeRule

    @staticmethod
    def of(bucket_files: BucketFiles, held: Iterable[DataFile], rule: MergeRule) -> Retained:
        return Retained(bucket_files, oldest_first(held), rule)

    @property
    def limit_ms(self) -> int:
        return self.bucket_files.schema.parsed_options.merge.delete_retained_ms

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of level-0 rows that decide: the key and the sequence."""
        wanted = {*self.bucket_files.schema.key, *self.rule.sequence.columns}
        return tuple(name for name in self.bucket_files.schema.columns.names if name in wanted)

    @cached_property
    def _files(self) -> BucketFiles:
        return replace(self.bucket_files, schema=_stored_schema(self.bucket_files.schema, self.columns))

    def settlement(self, level0: Sequence[DataFile], rows_of: RowsOf) -> Settlement:
        """Finds the ignored rows of the level-0 files of a bucket, oldest first. `rows_of` is called twice for a file, if there
        are several."""
        if not self.rule.retains or not (self.held or any(file.delete_rows for file in level0)):
            return Settlement()
        key = self.bucket_files.schema.key
        deleted, held_by_file, rows, unique, own = [], [self._empty], self._empty, True, np.zeros(0, np.int64)
        for file in level0:
            rows = rows_of(file)
            kinds, keys = kinds_of(rows), rows.select(key)
            gone = np.zeros(rows.num_rows, bool) if kinds is None else kinds != INSERT
            deleted += [keys.filter(pa.array(gone))] if gone.any() else []
            held, at, alone = self._find(keys)
            held_by_file.append(held)
            unique &= alone
            gone[at] = True
            own = np.flatnonzero(gone)
        held = pa.concat_tables(held_by_file)
        if not deleted and not held.num_rows:
            return Settlement()
        if len(level0) == 1 and unique:
            return self._settled(level0, held, [(rows, own)]) if held.num_rows else self._of_single(level0[0], rows)
        if len(held_by_file) > 2:  # a key in several level-0 files is found several times
            held = held.take(pa.array(group(comparable([held.select(key)])[0]).first))
        wanted = distinct([*deleted, held.select(key)])
        again = (rows_of(file) for file in level0) if len(level0) > 1 else (rows,)
        return self._settled(level0, held, ((rows, find(wanted, rows.select(key), repeats=not unique)[1]) for rows in again))

    def _of_single(self, file: DataFile, rows: pa.Table) -> Settlement:
        """The settlement of a file with one row per key and without retained deletes of these keys."""
        kinds = kinds_of(rows)
        deletes = rows.select(list(self.columns)).filter(pa.array((plain(kinds) == DELETE) & (kinds != ERASE)))
        times = pa.array(np.full(deletes.num_rows, file.created_ms), pa.int64())
        return Settlement(changed=deletes.append_column(DELETED_MS, times))

    def _settled(self, level0: Sequence[DataFile], held: pa.Table, chosen: Iterable[tuple[pa.Table, np.ndarray]]) -> Settlement:
        """The settlement of some keys. `held`: the retained deletes of keys at level 0. `chosen`: for each level-0 file its rows,
        and the positions of the rows whose keys are in `held` or have deletes at level 0."""
        schema, columns = self.bucket_files.schema, list(self.columns)
        tables, places = [held.select(columns)], []
        kinds, times = [np.full(held.num_rows, DELETE, np.int8)], [held[DELETED_MS].to_numpy()]
        for file, (rows, positions) in zip(level0, chosen, strict=True):
            own = kinds_of(rows)
            tables.append(rows.select(columns).take(pa.array(positions)))
            places.append(positions)
            kinds.append(np.full(len(positions), INSERT, np.int8) if own is None else own[positions])
            times.append(np.full(len(positions), file.created_ms))
        rows, times_ms = pa.concat_tables(tables), np.concatenate(times)
        settled = settle(rows, np.concatenate(kinds), times_ms, schema.key, self.rule.sequence, self.limit_ms)
        flags = np.split(settled.ignored[held.num_rows :], np.cumsum([len(one) for one in places[:-1]]))
        ignored = {file.name: at[flag] for file, at, flag in zip(level0, places, flags, strict=True) if flag.any()}
        changed = (settled.deleted >= held.num_rows) | ((settled.deleted < 0) & (settled.first < held.num_rows))
        last = np.where(settled.deleted < 0, settled.first, settled.deleted)[changed]
        deleted_ms = pa.array(times_ms[last], pa.int64(), mask=settled.deleted[changed] < 0)
        return Settlement(ignored, rows.take(pa.array(last)).append_column(DELETED_MS, deleted_ms))

    @cached_property
    def _empty(self) -> pa.Table:
        return self._files.schema.row_columns.empty_table()

    def _find(self, keys: pa.Table) -> tuple[pa.Table, np.ndarray, bool]:
        """The retained deletes of `keys` (ascending), in any order; the rows of `keys` with a retained delete, the first row of
        equal keys; and whether all keys are distinct."""
        small = {file.name: self._kept(file) for file in self.held if file.rows <= _KEPT_ROWS}
        wanted, *stored = comparable([keys, *(rows.select(keys.column_names) for rows in small.values())])
        starts = of_sorted(wanted)
        unique = len(starts) == len(wanted)
        if not unique:
            keys, wanted = keys.take(pa.array(starts)), wanted[starts]
        large = [file for file in self.held if file.name not in small]
        hits = self._files.find(keys, large) if large else {}
        search = search_among(wanted)
        hits |= {name: Hits(*search(codes)) for name, codes in zip(small, stored, strict=True)}
        newest, deciding_rows, at = np.full(len(wanted), -1), [self._empty], [np.zeros(0, np.int64)]
        for number, file in enumerate(self.held):
            if file.name in hits:
                newest[hits[file.name].keys] = number
        for number, file in enumerate(self.held):
            if file.name not in hits:
                continue
            deciding = hits[file.name].where(newest[hits[file.name].keys] == number)
            if len(deciding.positions):
                deciding_rows.append(self._rows(file, deciding.positions))
                at.append(deciding.keys)
        rows, at = pa.concat_tables(deciding_rows), np.concatenate(at)
        deleted = rows[DELETED_MS].is_valid()
        return rows.filter(deleted), starts[at[np.asarray(deleted)]], unique

    def _rows(self, file: DataFile, positions: np.ndarray) -> pa.Table:
        if file.rows <= _KEPT_ROWS:
            return self._kept(file).take(pa.array(positions))
        return pa.concat_tables([self._empty, *self._files.fetch(file, positions, self._files.schema.columns.names)])

    def _kept(self, file: DataFile) -> pa.Table:
        """All rows of a small file, from the cache: nearly every compaction looks keys up in it."""
        return self.bucket_files.meta.files.cache.get(self._cache_key(file), lambda: self._all_rows(file), _table_bytes)

    def _cache_key(self, file: DataFile) -> tuple[str, str, int]:
        return self.bucket_files.meta.paths.data(file), "deletes", self.bucket_files.schema.id

    def write(self, changed: pa.Table, merged: Sequence[DataFile], since_ms: int, *, oldest: bool) -> tuple[DataFile, ...]:
        """Writes the newest file of retained deletes, or none if nothing is left.

        Args:
            changed: The rows of a `Settlement`.
            merged: The newest files, oldest first, whose rows are written with them, and which it replaces.
            since_ms: Deletes before this time are left out.
            oldest: Whether no older file remains.
        """
        key = list(self.bucket_files.schema.key)
        tables = [self._kept(file) if file.rows <= _KEPT_ROWS else self._all_rows(file) for file in merged]
        tables.append(changed.select(self._files.schema.columns.names).cast(self._files.schema.row_columns))
        rows = pa.concat_tables(tables)
        if merged:
            rows = rows.take(pa.array(group(comparable([rows.select(key)])[0]).last))
        kept = pc.greater_equal(rows[DELETED_MS], since_ms)
        rows = rows.filter(kept if oldest else pc.fill_null(kept, True))
        files, origin = self.bucket_files, Origin(0, DELETES)
        floats = float_columns(self._files.schema)
        written = write_run(
            files.meta.env, files.meta.paths, self._files.schema, files.directory, [rows], origin, floats, RETAINED
        )
        if len(written) == 1 and rows.num_rows <= _KEPT_ROWS:
            files.meta.files.cache.put(self._cache_key(written[0]), rows.combine_chunks(), _table_bytes)
        return written

    def rows_of(self, file: DataFile) -> pa.Table:
        """All rows of a file: keys, sequences and times."""
        return self._all_rows(file)

    def written_to(self, other: BucketFiles, rows: pa.Table, file: DataFile) -> DataFiles:
        """Writes rows of `file` to the bucket `other`, to which they belong now."""
        meta, origin = other.meta, Origin(0, DELETES, file.sequence, file.min_sequence)
        floats, schema = float_columns(self._files.schema), self._files.schema
        written = write_run(meta.env, meta.paths, schema, other.directory, [rows], origin, floats, RETAINED)
        return tuple(one._replace(created_ms=file.created_ms) for one in written)

    def _all_rows(self, file: DataFile) -> pa.Table:
        with self._files.open(file) as reader:
            rows = reader.read(range(reader.groups), self._files.schema.columns.names)
        return rows.cast(self._files.schema.row_columns)

    def keys(self, file: DataFile) -> pa.Table:
        """The keys of a file, all of whose columns are read. Raises Corrupt."""
        return self._all_rows(file).select(self.bucket_files.schema.key)


def _table_bytes(table: pa.Table) -> int:
    return table.get_total_buffer_size()


def oldest_first(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    """Sorts files of retained deletes. A file without a sequence belongs to the commit being built, and is the newest."""
    return tuple(sorted(files, key=lambda file: (file.sequence is None, file.sequence)))


def _stored_schema(schema: Schema, columns: Sequence[str]) -> Schema:
    """The columns of a file of retained deletes, as a schema of a table without partitions."""
    fields = [schema.columns.field(name) for name in columns]
    fields = [one if one.name in schema.key else one.with_nullable(True) for one in fields]
    return replace(
        schema, columns=pa.schema([*fields, _DELETED_FIELD]), primary_key=schema.key, partitioning=Partitioning.first(())
    )
