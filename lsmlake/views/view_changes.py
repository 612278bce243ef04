"""The changes of a source of a view table, as rows with weights: 1 for a row that came, -1 for one that went.

The difference of two states is the same however it is read: from the changelog files of compactions, which have the old rows,
too; from commit to commit, which is cheap after a compaction that changed no row; or at once. The cheapest is chosen before any
row is read, by the number of values that a reading has to decode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.change_reader import CHANGELOG, DIFF, Piece, by_bucket, diff_pieces, read_piece, snapshot_pieces
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.diff import Pair
from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.snapshot import COMPACT, OVERWRITE, Snapshot
from lsmlake.lsm.difference import KIND_FIELD
from lsmlake.options.changelog_options import LOOKUP
from lsmlake.read.plan import Split
from lsmlake.schema.rowkind import INSERT, NAMES, UPDATE_AFTER
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version
from lsmlake.views.view_costs import ReadingCost

WEIGHT = "_lsmlake_weight"
_FEW_ROWS = 100_000
"""So many changes are always read."""
_COMMITS_MAX = 32
"""A longer history is compared at once."""
_CAME = pa.array([NAMES[INSERT], NAMES[UPDATE_AFTER]])
_COMPRESSION = 2
"""About how many bytes of rows a byte of a file holds."""


@dataclass(frozen=True)
class TableChanges:
    """The changes of a table after a snapshot, which were planned and not read yet. `like`: their columns."""

    version: Version
    like: Feed
    pieces: tuple[Piece, ...]

    @staticmethod
    def of(version: Version, after: int, columns: Sequence[str]) -> TableChanges:
        """The changes after snapshot `after`, 0 for all rows, up to `version`, with these columns. Raises SnapshotNotFound if the
        snapshot is not retained."""
        schema = _narrow(version.schema, columns)
        like = Feed.asked(schema, None, tuple(columns), False, version.meta.paths.root)
        ways = list(_ways(version, after, like)) if version.number != after else [[]]
        planned = [TableChanges(version, like, tuple(pieces)) for pieces in ways]
        return planned[0] if len(planned) == 1 else min(planned, key=lambda one: one.reading.values)

    @cached_property
    def reading(self) -> ReadingCost:
        """The work of reading them. Reads vectors, and no data."""
        old = sum(_old_rows(self.version.meta, piece) for piece in self.pieces)
        return ReadingCost(sum(piece.rows for piece in self.pieces), old, len(self.like.schema.columns))

    @property
    def few(self) -> bool:
        """Whether memory holds them easily."""
        total = self.version.snapshot.total_rows if self.version.snapshot else 0
        return self.reading.changes <= _FEW_ROWS + total // 2

    @property
    def net(self) -> bool:
        """Whether no row comes and goes: each bucket is compared once, and in no other columns than those asked for."""
        compared = all(len(piece.steps) == 1 and isinstance(piece.steps[0], Pair) for piece in self.pieces)
        return compared and len(self.like.columns) == len(self.like.schema.columns)

    def rows(self) -> pa.Table:
        """These columns and `WEIGHT`. The changes are exact, but not always `net`: a row can come and go."""
        fields = (self.like.schema.row_columns.field(name) for name in self.like.columns)
        empty = pa.schema([*fields, pa.field(WEIGHT, pa.int64())])
        tables = [empty.empty_table()]
        for piece in self.pieces:
            tables += (_weighted(rows, empty) for rows in read_piece(self.version.meta, self.like, piece))
        return pa.concat_tables(tables)


def least_reading(version: Version, after: int, columns: Sequence[str]) -> ReadingCost:
    """The least work of reading the changes after snapshot `after`, by the counts of snapshots and of the indexes of vectors.
    Reads no vector and no list of earlier files: a file that was marked since then has at least one row group to be read. Raises
    SnapshotNotFound if the snapshot is not retained."""
    meta, last = version.meta, version.snapshot
    first = meta.snapshots.get(after) if after else None
    if first is None or last is None:
        return ReadingCost(last.total_rows if last else 0, 0, len(columns))
    growth = last.total_rows - first.total_rows
    logged = version.options.changelog.producer == LOOKUP  # its files may have the old rows
    if logged or first.index_manifest == last.index_manifest:
        return ReadingCost(abs(growth), 0, len(columns))
    with meta.snapshots.unless_expired(first, last):
        before, now = dict(meta.manifests.vector_refs(first)), meta.manifests.vector_refs(last)
        files = meta.manifests.live(last, version.schema)
    known = files.filter(pc.less_equal(files["sequence"], after))
    target, went, old = version.options.files.row_group_bytes, 0, 0
    marked = pc.is_in(known["name"], value_set=pa.array([name for name in now if before.get(name) != now[name]], pa.string()))
    for name, rows, size in zip(*(known[one].filter(marked).to_pylist() for one in ("name", "rows", "bytes")), strict=True):
        went += now[name].cardinality - (before[name].cardinality if name in before else 0)
        old += rows // _row_groups(rows, size, target)
    return ReadingCost(max(0, growth + went) + went, old, len(columns))


def _row_groups(rows: int, size_bytes: int, target_bytes: int) -> int:
    """About how many row groups a file has."""
    return max(1, min(rows, _COMPRESSION * size_bytes // target_bytes))


def _old_rows(meta: Metadata, piece: Piece) -> int:
    """About how many rows of older files are decoded to find those that changed: whole row groups."""
    return sum(_fetched(meta, step) for step in piece.steps if isinstance(step, Pair))


def _fetched(meta: Metadata, pair: Pair) -> int:
    (before, old), (after, new) = (_vectors(meta, splits) for splits in (pair.before, pair.after))
    target, rows = meta.schemas.get(pair.schemas[1]).parsed_options.files.row_group_bytes, 0
    superseded = sum(file.rows for splits in (pair.before, pair.after) for split in splits for file in split.level0)
    for name, file in before.items():
        if name not in after:
            rows += file.rows
            continue
        groups = _row_groups(file.rows, file.bytes, target)
        marked = (new.get(name, EMPTY) - old.get(name, EMPTY)) | (old.get(name, EMPTY) - new.get(name, EMPTY))
        touched = len(np.unique(marked.positions() * groups // file.rows)) if marked.cardinality else 0
        rows += file.rows * min(groups, touched + superseded) // groups
    return rows


def _vectors(meta: Metadata, splits: Sequence[Split]) -> tuple[dict[str, DataFile], dict[str, DeletionVector]]:
    files, vectors = {}, {}
    for split in splits:
        files |= {file.name: file for file in (*split.files, *split.merged)}
        vectors |= meta.vectors.read(split.vectors, (*split.files, *split.lookup_files))
    return files, vectors


def _narrow(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema with no other columns than those that the changes need: files are compared in these alone. If the merge engine
    combines rows, or orders them by a column, it needs all."""
    if not schema.append_only and (schema.combines_rows or schema.parsed_options.merge.sequence_field):
        return schema
    partitions = (field.column for field in schema.all_partition_columns)
    wanted = {*columns, *schema.primary_key, *schema.bucket_key, *partitions}
    return replace(schema, columns=pa.schema([field for field in schema.columns if field.name in wanted]))


def _weighted(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    came = pc.is_in(rows[KIND_FIELD.name], value_set=_CAME)
    weights = np.where(np.asarray(came), 1, -1).astype(np.int64)
    return rows.drop_columns([KIND_FIELD.name]).append_column(WEIGHT, pa.array(weights)).cast(wanted)


def _ways(version: Version, after: int, like: Feed) -> Iterator[list[Piece]]:
    """The pieces of each way to read the changes."""
    meta, last = version.meta, version.snapshot
    first = meta.snapshots.get(after) if after else None
    with meta.snapshots.unless_expired(*filter(None, (first, last))):
        numbers = _one_by_one(meta, first, last) if first is not None else None
        if numbers is not None and _logged(version, first, numbers):
            yield by_bucket(piece for number in numbers for piece in snapshot_pieces(meta, like, number, CHANGELOG))
            return
        if numbers is not None:
            numbers = [number for number in numbers if meta.snapshots.get(number).kind != COMPACT]
            yield by_bucket(piece for number in numbers for piece in snapshot_pieces(meta, like, number, DIFF))
        if numbers is None or len(numbers) > 1:
            yield diff_pieces(meta, like, first, last)


def _logged(version: Version, first: Snapshot, numbers: Sequence[int]) -> bool:
    """Whether changelog files have the changes between two states: no row waits at level 0 in either of them."""
    options, meta = version.options, version.meta
    if options.changelog.producer != LOOKUP or options.changelog.ignored_columns:
        return False
    if any(meta.snapshots.get(number).kind == OVERWRITE for number in numbers):
        return False
    ends = (Version(meta, first, version.schema), version)
    return not any(file.level == 0 for end in ends for state in end.states(statistics=False).values() for file in state.files)


def _one_by_one(meta: Metadata, first: Snapshot, last: Snapshot) -> list[int] | None:
    """The snapshots after the first one if their changes can be read one by one."""
    if last.id - first.id > 8 * _COMMITS_MAX:
        return None
    snapshots = list(_between(meta, first, last))
    changing = [one for one in snapshots if one.kind != COMPACT]
    repaired = any("repair" in one.properties for one in snapshots)  # its commit looks like a compaction
    if len(snapshots) < last.id - first.id or len(changing) > _COMMITS_MAX or repaired:
        return None
    return [one.id for one in snapshots]


def _between(meta: Metadata, first: Snapshot, last: Snapshot) -> Iterator[Snapshot]:
    for number in range(first.id + 1, last.id + 1):
        if not meta.snapshots.is_cut(number):
            yield meta.snapshots.get(number)
