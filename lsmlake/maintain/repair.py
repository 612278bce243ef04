"""Repair: finds the rows that cannot be merged with the older rows of their key, and removes them or sets columns to null.

1. Merge the live rows of every bucket as a full compaction does, one window of the key space at a time. Every row carries its
   file and its position in it.
2. A failed merge reports its keys (`lsm.merge.merge_errors`). For each of them, add the rows one at a time, oldest first. A row
   is bad if a write would refuse it, or if it cannot be merged with the rows before it. Continue without it (action 'drop'), or
   with null in its failing columns ('null').
3. Rewrite the files that hold bad rows, without these rows or with null in these columns. A new file has the level and sequence
   of the old one. This step merges nothing, so other rows stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import InvalidData, InvalidQuery, Wording
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import Chunk, live_rows
from lsmlake.files.data_writer import Origin, float_columns
from lsmlake.format.data_files import Bucket, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.kernels import nested
from lsmlake.lsm import lookup
from lsmlake.lsm.levels import recency, sections
from lsmlake.lsm.merge.merge_errors import Unmergeable
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import MergeRule, OldRow, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.read.positions import FILE, PLACE, POSITION, Placed
from lsmlake.schema.rowkind import kinds_of, with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.schema.values import row_text
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.version import Version

NULL, DROP = ACTIONS = "null", "drop"
_ROUNDS = 5


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be merged with the older rows of its key.

    `columns`: the columns that cannot be merged. `row`: a table of this one row with all columns. `file`, `position`: where the
    row is stored.
    """

    bucket: Bucket
    columns: tuple[str, ...]
    row: pa.Table
    reason: str
    file: DataFile
    position: int


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair.

    Attributes:
        rows: one row per bad row.
        snapshot_id: the snapshot of the repair; None if nothing was changed.
    """

    rows: pa.Table
    snapshot_id: int | None = None


def repair(version: Version, action: str | None, keys: Sequence[Mapping[str, object]] | None, name: str) -> RepairReport:
    """See `Table.repair`."""
    if action not in (None, *ACTIONS):
        actions = Wording("None, 'null' or 'drop'", command="--action null or --action drop")
        raise InvalidQuery("unknown action", where=name, expected=actions, found=repr(action), cure="choose one of them")
    meta, schema = version.meta, version.schema
    wanted = None if keys is None else [_key(key, schema, name) for key in keys]
    for _ in attempts(_ROUNDS, "compactions came first on every attempt", name, "pause them and run it again"):
        with version.unless_expired():
            states = version.states()
            rows_by_bucket = {
                bucket: _among(bad_rows(BucketFiles.of(version, bucket), state, action or DROP), wanted, schema)
                for bucket, state in states.items()
            }
            report = RepairReport(_listing([row for rows in rows_by_bucket.values() for row in rows], schema))
            if action is None or not report.rows.num_rows:
                return report
            bad = [(bucket, rows) for bucket, rows in rows_by_bucket.items() if rows]
            messages = [_rewritten(BucketFiles.of(version, bucket), states[bucket], rows, action) for bucket, rows in bad]
        committed = commit(version, Request(Identity(meta.env.ids()), messages, properties={"repair": action}))
        if committed.snapshot and not committed.overtaken:
            return replace(report, snapshot_id=committed.snapshot.id)
        version = replace(version, snapshot=meta.snapshots.latest())


def bad_rows(files: BucketFiles, state: BucketState, action: str) -> list[BadRow]:
    """The rows of a bucket that `action` must change so that the bucket can be merged, in key order.

    Raises InvalidData if the rows of a key can be merged one by one but not together, and InvalidQuery if `action` is 'null' and
    null in the failing columns does not make a row mergeable.
    """
    schema = files.schema
    rule = rule_of(schema, files.meta.paths.root)
    if rule.old_row is not OldRow.MERGED:
        return []
    bad: list[BadRow] = []
    bucket = _ExaminedBucket(files, rule, state, action, files.meta.vectors.read(state.vectors, state.files))
    for section in sections(state.files):
        for _ in merge_windows(_runs(bucket, section.files), schema.key, partial(_inspect, bucket, bad)):
            pass
    return bad


class _ExaminedBucket(NamedTuple):
    """The examined bucket, and the action for bad rows."""

    files: BucketFiles
    rule: MergeRule
    state: BucketState
    action: str
    vectors: Mapping[str, DeletionVector]

    @property
    def schema(self) -> Schema:
        return self.files.schema

    def refusal(self, runs: Sequence[pa.Table]) -> Unmergeable | None:
        """The error of merging these runs, oldest first; None if they can be merged."""
        try:
            merge_runs(list(runs), self.schema.key, self.rule)
        except Unmergeable as error:
            return error
        return None

    def refused(self, older: Sequence[pa.Table], row: pa.Table) -> InvalidData | None:
        """The error of storing `row`, or of merging it with the `older` rows of its key; None if both succeed."""
        try:
            self.rule.validate(row.drop_columns([ROW_KIND]), kinds_of(row))
        except InvalidData as error:
            return error
        return self.refusal([*older, row])

    @property
    def combined(self) -> list[str]:
        """The columns that hold values to be combined: neither key nor sequence."""
        fixed = {*self.schema.primary_key, *self.rule.sequence.columns}
        fixed.update(name for group in getattr(self.rule, "groups", ()) for name in group.sequence.columns)
        return [name for name in self.schema.columns.names if name not in fixed]


def _runs(bucket: _ExaminedBucket, files: Sequence[DataFile]) -> list[RunReader]:
    """The live rows of the files as sorted runs, oldest first, each row with its file and position."""
    numbers = {file.name: number for number, file in enumerate(bucket.state.files)}
    ordered = sorted(files, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = []
    for _, group in groupby(ordered, key=recency):
        run = sorted(group, key=lambda file: file.min_key)
        chunks = chain.from_iterable(_placed(bucket.files, file, numbers[file.name], bucket.vectors) for file in run)
        with_kind = chain.from_iterable(with_kinds([chunk], always=True) for chunk in chunks)
        runs.append(RunReader(whole_keys(with_kind, bucket.schema.key), sum(file.rows for file in run)))
    return runs


def _placed(files: BucketFiles, file: DataFile, number: int, vectors: Mapping[str, DeletionVector]) -> Iterator[pa.Table]:
    """Yields the live rows of a file, each with the file's `number` and its position in the file."""
    columns = [*files.schema.columns.names, *([ROW_KIND] if file.delete_rows else [])]
    with files.open(file) as reader:
        for start, table in reader.stream(columns):
            placed = Placed(number, np.arange(start, start + table.num_rows), table)
            yield live_rows(Chunk(start, placed.with_places()), vectors.get(file.name, EMPTY))


def _inspect(bucket: _ExaminedBucket, bad_rows: list[BadRow], pieces: list[pa.Table]) -> pa.Table:
    """Merges a window and adds its bad rows to `bad_rows`. Returns an empty table, because `merge_windows` expects a table."""
    mended: set[tuple[str, int]] = set()
    while error := bucket.refusal([piece.drop_columns(PLACE) for piece in pieces]):
        for number in range(error.keys.num_rows):
            rows = _rows_of(error.keys.slice(number, 1), pieces)
            bad = _bad_rows_of_key(bucket, rows)
            places = {(row.file.name, row.position) for row in bad}
            if not places or places & mended:  # the next round would fail in the same way
                raise _inconsistent(error)
            mended |= places
            bad_rows += bad
            pieces = [_mended(piece, bucket.state, bad, bucket.action) for piece in pieces]
    return pieces[0].slice(0, 0)


def _inconsistent(error: Unmergeable) -> InvalidData:
    return InvalidData(
        f"the rows of a key can be merged one by one, but not together: {error.what}",
        where=error.where,
        expected="an aggregate function whose result does not depend on how the rows are grouped",
        found=error.found,
        cure="correct the aggregate function of this column",
    )


def _rows_of(key: pa.Table, pieces: Sequence[pa.Table]) -> list[pa.Table]:
    """The rows of `key`, oldest first, each as a table."""
    rows = []
    for piece in pieces:
        if piece.num_rows:
            places = lookup.find(key, piece.select(key.column_names), repeats=True)[1]
            rows += [piece.slice(place, 1) for place in places.tolist()]
    return rows


def _bad_rows_of_key(bucket: _ExaminedBucket, rows: Sequence[pa.Table]) -> list[BadRow]:
    """The rows of one key, oldest first, that cannot be merged with the (repaired) rows before them."""
    kept, bad = [], []
    for row in rows:
        plain = row.drop_columns(PLACE)
        error = bucket.refused(kept, plain)
        if error is None:
            kept.append(plain)
            continue
        alone = [name for name in bucket.combined if bucket.refused(kept, _only(bucket, plain, name))]
        columns = tuple(alone or bucket.combined)
        file, position = bucket.state.files[row[FILE][0].as_py()], row[POSITION][0].as_py()
        bad.append(BadRow(bucket.state.bucket, columns, plain, error.what, file, position))
        if bucket.action == NULL:
            nulled = _nulled(plain, columns, np.array([True]))
            if error := bucket.refused(kept, nulled):
                raise InvalidQuery(
                    f"setting the failing columns to null does not repair a row: {error.what}",
                    where=error.where,
                    found=row_text(plain.select(bucket.schema.primary_key)),
                    cure=Wording("repair this key with action='drop'", command="repair this key with --action drop"),
                )
            kept.append(nulled)
    return bad


def _only(bucket: _ExaminedBucket, row: pa.Table, column: str) -> pa.Table:
    """The row with null in every combined column but one."""
    return _nulled(row, [name for name in bucket.combined if name != column], np.array([True]))


def _nulled(table: pa.Table, columns: Collection[str], rows: np.ndarray) -> pa.Table:
    for name in columns:
        values = pc.if_else(pa.array(rows), nested.nulls(len(rows), table[name].type), table[name])
        table = table.set_column(table.column_names.index(name), table.schema.field(name), values)
    return table


def _mended(table: pa.Table, state: BucketState, rows: Sequence[BadRow], action: str) -> pa.Table:
    """`table`, whose rows carry their file and position, without `rows` or with null in their failing columns."""
    for row in rows:
        number = state.files.index(row.file)
        at_row = (np.asarray(table[FILE]) == number) & (np.asarray(table[POSITION]) == row.position)
        if at_row.any():
            table = table.filter(pa.array(~at_row)) if action == DROP else _nulled(table, row.columns, at_row)
    return table


# -- rewriting files --------------------------------------------------------------------------------------------------


def _rewritten(files: BucketFiles, state: BucketState, rows: Sequence[BadRow], action: str) -> CommitMessage:
    """Rewrites the files with bad rows, live rows only. A file without remaining rows is removed."""
    removed = tuple({row.file.name: row.file for row in rows}.values())
    schema, vectors = files.schema, files.meta.vectors.read(state.vectors, removed)
    added: list[DataFile] = []
    try:
        for file in removed:
            bad = [row for row in rows if row.file.name == file.name]
            placed = _placed(files, file, state.files.index(file), vectors)
            mended = (_mended(table, state, bad, action).drop_columns(PLACE) for table in placed)
            tables = whole_keys(mended, schema.key)
            origin = Origin(file.level, file.source, file.sequence, file.min_sequence)
            added += files.write(tables, origin, float_columns(schema))
    except BaseException:
        files.delete(added)
        raise
    change = BucketEdit(state.bucket, state.total_buckets, tuple(added), removed, {}, state)
    return CommitMessage(state.bucket, compact=change, written=files.paths(added))


# -- keys and listing -------------------------------------------------------------------------------------------------


def _key(key: Mapping[str, object], schema: Schema, name: str) -> pa.Table:
    """The key as a table of one row, cast to the types of its columns; a date or number can be given as text."""
    expected = f"values of {list(schema.primary_key)}"
    if set(key) != set(schema.primary_key):
        raise InvalidQuery(
            "not a key of the table", where=name, expected=expected, found=repr(dict(key)), cure="name every key column"
        )
    try:
        columns = {column: pa.array([key[column]]).cast(schema.row_columns.field(column).type) for column in schema.primary_key}
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise InvalidQuery(
            "not a key of the table", where=name, expected=expected, found=error, cure="correct the values"
        ) from error
    if any(values.null_count for values in columns.values()):
        raise InvalidQuery("not a key of the table", where=name, expected=expected, found="null", cure="correct the values")
    return pa.table(columns)


def _among(rows: list[BadRow], keys: list[pa.Table] | None, schema: Schema) -> list[BadRow]:
    """The `rows` that have one of `keys`; None: all rows."""
    if keys is None:
        return rows
    own = [row.row.select(schema.primary_key) for row in rows]
    return [row for row, key in zip(rows, own, strict=True) if any(len(lookup.find(key, wanted)[1]) for wanted in keys)]


def _listing(rows: Sequence[BadRow], schema: Schema) -> pa.Table:
    fields = [pa.field(name, schema.row_columns.field(name).type) for name in schema.primary_key]
    keys = pa.concat_tables([pa.schema(fields).empty_table(), *(row.row.select(schema.primary_key) for row in rows)])
    shown = [row_text(row.row.select([*schema.primary_key, *row.columns])) for row in rows]
    return pa.table(
        {
            "key": pa.StructArray.from_arrays([column.combine_chunks() for column in keys.columns], fields=fields),
            "columns": pa.array([row.columns for row in rows], pa.list_(pa.string())),
            "reason": pa.array([row.reason for row in rows], pa.string()),
            "row": pa.array(shown, pa.string()),
            "bucket": pa.array([row.bucket.number for row in rows], pa.int32()),
            "snapshot_id": pa.array([row.file.sequence for row in rows], pa.int64()),
            "file": pa.array([row.file.name for row in rows], pa.string()),
            "position": pa.array([row.position for row in rows], pa.int64()),
        }
    )
