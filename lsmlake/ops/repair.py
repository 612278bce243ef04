"""Rows that cannot be merged with the older rows of their key: finding them, and taking them out.

1. Merge every bucket as a reader does, a window of the key space at a time, each row with the file and position it comes from.
2. A merge that fails names its keys (`lsm.merge.blame`). The rows of such a key are added one at a time, oldest first; a row that
   cannot be added is at fault and is left out of what follows, as if its writer had refused it.
3. To repair, write the files of these rows anew without them, or with null in the columns at fault, each file in its own place:
   same level, same sequence. Nothing is merged, so rows of other keys stay as they are.
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

from lsmlake.errors import CommitConflict, InvalidQuery
from lsmlake.format import nested
from lsmlake.format.deletion_vector import EMPTY
from lsmlake.format.files import Bucket, BucketState, Change, CommitMessage, DataFile
from lsmlake.format.schema import RESERVED, ROW_KIND, Schema
from lsmlake.lsm.interval import sections
from lsmlake.lsm.levels import recency
from lsmlake.lsm.merge.blame import Unmergeable
from lsmlake.lsm.merge.engine import Engine, Old
from lsmlake.lsm.merge.engines import engine_of
from lsmlake.lsm.merge.rows import with_kinds
from lsmlake.lsm.merge.runs import distinct, merge_runs
from lsmlake.lsm.merge.windows import Run, merge_windows, whole_keys
from lsmlake.ops.commit import Identity, commit
from lsmlake.ops.lookup import fetch, find
from lsmlake.store.data_reader import Chunk, DataReader
from lsmlake.store.data_writer import Origin, float_columns, write_run
from lsmlake.store.metadata import Metadata

NULL, DROP = ACTIONS = "null", "drop"
_ROUNDS = 5
_FILE, _POSITION = f"{RESERVED}file", f"{RESERVED}position"


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be merged with the older rows of its key: it is number `position` of `file`.
    `columns`: those at fault."""

    bucket: Bucket
    key: Mapping[str, object]
    columns: tuple[str, ...]
    row: Mapping[str, object]
    reason: str
    file: DataFile
    position: int


@dataclass(frozen=True)
class RepairReport:
    """`rows`: a row for each row at fault. `snapshot_id`: the snapshot that took them out; None if nothing was changed."""

    rows: pa.Table
    snapshot_id: int | None = None


def repair(
    meta: Metadata, schema: Schema, action: str | None, keys: Sequence[Mapping[str, object]] | None, name: str
) -> RepairReport:
    """See `Table.repair`."""
    if action not in (None, *ACTIONS):
        raise InvalidQuery("no such repair", where=name, expected="None, 'null' or 'drop'", found=repr(action), cure="choose one")
    wanted = None if keys is None else [_key(key, schema, name) for key in keys]
    for _ in range(_ROUNDS):
        latest = meta.latest()
        with meta.unless_expired(latest):
            states = meta.states(latest, schema) if latest else {}
            found = {bucket: _among(bad_rows(meta, schema, state), wanted) for bucket, state in states.items()}
            report = RepairReport(_listing([row for rows in found.values() for row in rows], schema))
            if action is None or not report.rows.num_rows:
                return report
            messages = [_without(meta, schema, states[bucket], rows, action) for bucket, rows in found.items() if rows]
        committed = commit(meta, schema, messages, Identity(meta.env.ids()), properties={"repair": action})
        if committed.snapshot and not committed.overtaken:
            return replace(report, snapshot_id=committed.snapshot.id)
    raise CommitConflict(
        "compactions overtook the repair every time", where=name, found=f"{_ROUNDS} attempts", cure="pause them and run it again"
    )


def bad_rows(meta: Metadata, schema: Schema, state: BucketState) -> list[BadRow]:
    """The rows of a bucket that cannot be merged, by key. Reads what a scan of the bucket would merge."""
    engine = engine_of(schema, meta.paths.root)
    if engine.old is not Old.JOINS:
        return []
    found: list[BadRow] = []
    numbers = {file.name: number for number, file in enumerate(state.files)}
    for older, together in _merged_together(schema, state):
        runs = [*_met(meta, schema, state, older, together), *_runs(meta, schema, together, numbers)]
        inspect = partial(_inspect, _Bucket(schema, engine, state), found)
        for _ in merge_windows(runs, schema.key, inspect):
            pass
    return found


class _Bucket(NamedTuple):
    """The bucket that is looked through."""

    schema: Schema
    engine: Engine
    state: BucketState

    def refusal(self, runs: Sequence[pa.Table]) -> Unmergeable | None:
        """Why these runs, oldest first, cannot be merged; None if they can."""
        try:
            merge_runs(list(runs), self.schema.key, self.engine)
        except Unmergeable as error:
            return error
        return None

    @property
    def combined(self) -> list[str]:
        """The columns that hold values to be combined: neither key nor sequence."""
        fixed = {*self.schema.primary_key, *self.engine.sequence.columns}
        fixed.update(name for group in getattr(self.engine, "groups", ()) for name in group.sequence.columns)
        return [name for name in self.schema.columns.names if name not in fixed]


def _merged_together(schema: Schema, state: BucketState) -> list[tuple[list[DataFile], list[DataFile]]]:
    """(older files whose rows are looked up, files that are merged), for every set of files that readers merge."""
    if not schema.parsed_options.deletion_vectors:
        return [([], list(section.files)) for section in sections(state.files)]
    level0 = [file for file in state.files if file.level == 0]
    older = sorted((file for file in state.files if file.level > 0), key=lambda file: (file.level, file.min_key))
    return [(older, level0)] if level0 else []


def _runs(meta: Metadata, schema: Schema, files: Sequence[DataFile], numbers: Mapping[str, int]) -> list[Run]:
    """Sorted runs, oldest first, each row with its place."""
    ordered = sorted(files, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = []
    for _, group in groupby(ordered, key=recency):
        run = sorted(group, key=lambda file: file.min_key)
        chunks = chain.from_iterable(map(partial(_placed, numbers[file.name]), _stream(meta, schema, file)) for file in run)
        runs.append(Run(whole_keys(chunks, schema.key), sum(file.rows for file in run)))
    return runs


def _stream(meta: Metadata, schema: Schema, file: DataFile) -> Iterator[Chunk]:
    columns = [*schema.columns.names, *([ROW_KIND] if file.delete_rows else [])]
    with DataReader(meta.env, meta.paths.data(file), file, schema) as reader:
        yield from reader.stream(columns)


def _placed(number: int, chunk: Chunk) -> pa.Table:
    rows = chunk.table.num_rows
    positions = pa.array(np.arange(chunk.start, chunk.start + rows))
    (table,) = with_kinds([chunk.table], always=True)
    return table.append_column(_FILE, pa.array(np.full(rows, number))).append_column(_POSITION, positions)


def _met(meta: Metadata, schema: Schema, state: BucketState, older: Sequence[DataFile], level0: Sequence[DataFile]) -> list[Run]:
    """The live rows of older files with keys that are at level 0, a run a level."""
    if not older:
        return []
    keys = distinct([chunk.table.select(schema.key) for file in level0 for chunk in _stream(meta, schema, file)])
    stored = meta.vectors(state.vectors, older)
    by_name = {file.name: file for file in older}
    found: dict[int, list[pa.Table]] = {}
    for name, hits in find(meta, schema, keys, tuple(older)).items():
        standing = hits.positions[stored.get(name, EMPTY).alive(hits.positions)]
        for table in fetch(meta, schema, by_name[name], standing, schema.columns.names):
            found.setdefault(by_name[name].level, []).append(_placed(-1, Chunk(0, table)))
    return [Run(iter(tables), sum(table.num_rows for table in tables)) for _, tables in sorted(found.items(), reverse=True)]


def _inspect(bucket: _Bucket, found: list[BadRow], pieces: list[pa.Table]) -> pa.Table:
    """Merge a window and add its rows at fault to `found`. Takes the place of a merge, so it returns a table: an empty one."""
    while error := bucket.refusal([piece.drop_columns([_FILE, _POSITION]) for piece in pieces]):
        for key in error.keys.to_pylist():
            rows = [piece.filter(_equals(piece, key)) for piece in pieces]
            bad = _at_fault(bucket, [table.slice(i, 1) for table in rows for i in range(table.num_rows)])
            assert bad, "rows that can be added one by one can be merged"
            found += bad
            for row in bad:
                pieces = [
                    piece.filter(pc.invert(_is_at(piece, bucket.state.files.index(row.file), row.position))) for piece in pieces
                ]
    return pieces[0].slice(0, 0)


def _at_fault(bucket: _Bucket, rows: Sequence[pa.Table]) -> list[BadRow]:
    """Those of the rows of one key, oldest first, that cannot be added to the ones before."""
    kept, bad = [], []
    for row in rows:
        plain = row.drop_columns([_FILE, _POSITION])
        error = bucket.refusal([*kept, plain])
        if error is None:
            kept.append(plain)
            continue
        values = plain.select(bucket.schema.columns.names).to_pylist()[0]
        columns = [name for name in bucket.combined if bucket.refusal([*kept, _only(bucket, plain, name)])]
        key = {name: values[name] for name in bucket.schema.primary_key}
        file, position = bucket.state.files[row[_FILE][0].as_py()], row[_POSITION][0].as_py()
        bad.append(BadRow(bucket.state.bucket, key, tuple(columns), values, error.what, file, position))
    return bad


def _only(bucket: _Bucket, row: pa.Table, column: str) -> pa.Table:
    """The row with null in every combined column but one."""
    return _nulled(row, [name for name in bucket.combined if name != column], np.array([True]))


def _nulled(table: pa.Table, columns: Collection[str], rows: np.ndarray) -> pa.Table:
    for name in columns:
        values = pc.if_else(pa.array(rows), nested.nulls(len(rows), table[name].type), table[name])
        table = table.set_column(table.column_names.index(name), table.schema.field(name), values)
    return table


def _equals(table: pa.Table, key: Mapping[str, object]) -> pa.ChunkedArray:
    masks = [pc.equal(table[name], pa.scalar(value, table[name].type)) for name, value in key.items()]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.and_(mask, other)
    return mask


def _is_at(table: pa.Table, file: int, position: int) -> pa.ChunkedArray:
    return pc.and_(pc.equal(table[_FILE], file), pc.equal(table[_POSITION], position))


# -- taking them out --------------------------------------------------------------------------------------------------


def _without(meta: Metadata, schema: Schema, state: BucketState, rows: Sequence[BadRow], action: str) -> CommitMessage:
    """The files of the rows written anew. A file of nothing else goes."""
    removed = tuple({row.file.name: row.file for row in rows}.values())
    added: list[DataFile] = []
    try:
        for file in removed:
            bad = [row for row in rows if row.file.name == file.name]
            tables = (_mended(chunk, bad, action) for chunk in _stream(meta, schema, file))
            origin = Origin(file.level, file.source, file.sequence, file.min_sequence)
            added += write_run(meta.env, meta.paths, schema, state.bucket, tables, origin, float_columns(schema))
    except BaseException:
        meta.delete_quietly(meta.paths.data(file) for file in added)
        raise
    change = Change(state.bucket, state.total_buckets, tuple(added), removed, {}, state)
    return CommitMessage(state.bucket, compact=change, written=tuple(meta.paths.data(file) for file in added))


def _mended(chunk: Chunk, rows: Sequence[BadRow], action: str) -> pa.Table:
    table, positions = chunk.table, np.arange(chunk.start, chunk.start + chunk.table.num_rows)
    if action == DROP:
        return table.filter(pa.array(~np.isin(positions, [row.position for row in rows])))
    for row in rows:
        table = _nulled(table, row.columns, positions == row.position)
    return table


# -- keys and listing -------------------------------------------------------------------------------------------------


def _key(key: Mapping[str, object], schema: Schema, name: str) -> dict[str, object]:
    """The key with values of the column's types, as rows have them. Text stands for a date or a number as well."""
    expected = f"values of {list(schema.primary_key)}"
    if set(key) != set(schema.primary_key):
        raise InvalidQuery(
            "not a key of the table", where=name, expected=expected, found=repr(dict(key)), cure="name every key column"
        )
    try:
        return {
            column: pa.array([key[column]]).cast(schema.row_columns.field(column).type)[0].as_py()
            for column in schema.primary_key
        }
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise InvalidQuery(
            "not a key of the table", where=name, expected=expected, found=error, cure="correct the values"
        ) from error


def _among(rows: list[BadRow], keys: list[dict[str, object]] | None) -> list[BadRow]:
    return rows if keys is None else [row for row in rows if row.key in keys]


def _listing(rows: Sequence[BadRow], schema: Schema) -> pa.Table:
    key = pa.struct([pa.field(name, schema.row_columns.field(name).type) for name in schema.primary_key])
    return pa.table(
        {
            "key": pa.array([row.key for row in rows], key),
            "columns": pa.array([row.columns for row in rows], pa.list_(pa.string())),
            "reason": pa.array([row.reason for row in rows], pa.string()),
            "row": pa.array([str(dict(row.row)) for row in rows], pa.string()),
            "bucket": pa.array([row.bucket.number for row in rows], pa.int32()),
            "snapshot_id": pa.array([row.file.sequence for row in rows], pa.int64()),
            "file": pa.array([row.file.name for row in rows], pa.string()),
            "position": pa.array([row.position for row in rows], pa.int64()),
        }
    )
