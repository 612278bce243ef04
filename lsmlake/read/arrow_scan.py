"""Reads the rows of a plan as Arrow tables, in this process.

For each split the reader does a compaction in memory: it looks up the keys of the level-0 rows in the older files, and treats
the found rows as deleted there. Where a new row replaces the old one as a whole, the level-0 files are then read as all others,
without their own superseded rows (`read.superseded`). Under other merge rules the level-0 rows are merged, with the found rows
if the rule needs them. Then it reads each file: prunes row groups by statistics, masks deleted rows by position, filters and
projects. Without deletion vectors it merges overlapping files instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import ALONE_BYTES, Chunk, DataReader, UnmadeRows, joined, live_rows
from lsmlake.files.retained import Retained
from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.kernels.casting import cast
from lsmlake.lsm.levels import recency
from lsmlake.lsm.merge.merge_errors import located
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import MergeRule, OldRow, distinct, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.predicate import ColumnBounds, evaluate, evaluate_live, may_match
from lsmlake.read.plan import Plan, Projection, Split, in_groups
from lsmlake.read.superseded import dead_rows, reads_level0_as_it_is
from lsmlake.schema.rowkind import with_kinds, without_deletes
from lsmlake.schema.schema import ROW_KIND
from lsmlake.storage.concurrency import Once, ahead, side_by_side

Finish = Callable[[pa.Table, np.ndarray | None], pa.Table]
"""The last step for some rows, with flags of those that are live and match the predicate, None: all are. It drops the others and
calls `finished`, unless rows are joined before."""

_AHEAD_BYTES = 1 << 25  # of files that are read in parallel, unless each worker has one


def read_plan(plan: Plan) -> Iterator[pa.Table]:
    """Yields all rows of the plan, columns in its order, with the types and nullability of the schema.

    Reads `Env.workers` files in parallel, and more small ones in an object store. Memory: a few chunks of each, and the level-0
    rows of as many buckets.
    """
    return _read(plan, partial(_finished, plan))


def read_chosen(plan: Plan, choose: Callable[[pa.Table], np.ndarray]) -> Iterator[pa.Table]:
    """As `read_plan`, for a caller that drops most rows: they are dropped together with dead rows, before texts that a file
    stores as a dictionary are decoded. `choose`: flags the rows to yield, also dead ones; called by several threads."""

    def finish(table: pa.Table, wanted: np.ndarray | None) -> pa.Table:
        chosen = choose(table)
        return finished(_kept(table, chosen if wanted is None else chosen & wanted), plan)

    return _read(plan, finish)


def read_unfinished(plan: Plan) -> Iterator[pa.Table]:
    """As `read_plan`, but without the last step: the caller drops most rows first and then calls `finished` for each table."""
    return _read(plan, _kept)


def _read(plan: Plan, finish: Finish) -> Iterator[pa.Table]:
    with plan.version.unless_expired():
        yield from ahead(_parts_of(plan, finish), _files_at_once(plan))


def _parts_of(plan: Plan, finish: Finish) -> Iterator[Generator[pa.Table]]:
    """Yields the parts of a plan that can be read in parallel: those of one split, or all of several small splits as one."""
    for splits in in_groups(plan.splits, plan.version.meta.env.storage.at_once):
        if len(splits) == 1:
            yield from _parts(BucketFiles.of(plan.version, splits[0].bucket), plan, splits[0], finish)
        else:
            yield _joined(plan, splits, finish)


def _joined(plan: Plan, splits: Sequence[Split], finish: Finish) -> Generator[pa.Table]:
    """The rows of several small splits."""
    files = (file for split in splits for file in split.files)
    if (
        plan.names_keys
        or any(split.level0 or split.merged for split in splits)
        or any(file.bytes > ALONE_BYTES for file in files)
    ):
        return _split_by_split(plan, splits, finish)
    return _joined_files(plan, splits, finish)


def _joined_files(plan: Plan, splits: Sequence[Split], finish: Finish) -> Generator[pa.Table]:
    if any(split.files for split in splits):
        yield finish(*_joined_rows(plan, splits))


def read_joined(plan: Plan, splits: Sequence[Split]) -> pa.Table:
    """All rows of many small splits, split by split. None has level-0 files or files to merge, and there is a file. Memory: all
    of the rows."""
    with plan.version.unless_expired():
        return _finished(plan, *_joined_rows(plan, splits))


def _joined_rows(plan: Plan, splits: Sequence[Split]) -> tuple[pa.Table, np.ndarray | None]:
    """The rows of many small files, and flags of those that are wanted, None: all. They are joined first: to mask, filter and
    convert the rows of each file takes longer than to decode them."""
    columns = plan.needed or plan.schema.narrow
    reads = [partial(_stored_rows, plan, split, columns) for split in splits]
    parts, vectors = zip(*chain.from_iterable(side_by_side(reads, plan.version.meta.env.storage.at_once)), strict=True)
    table = pa.concat_tables(joined(parts)).combine_chunks()
    starts = accumulate((part.rows.num_rows for part in parts), initial=0)
    dead = [start + vector.positions() for start, vector in zip(starts, vectors, strict=False) if len(vector)]
    return table, _wanted(Chunk(0, table), DeletionVector.of(np.concatenate(dead)) if dead else EMPTY, plan)


def _stored_rows(plan: Plan, split: Split, columns: Collection[str]) -> list[tuple[UnmadeRows, DeletionVector]]:
    """The rows of each file of a split, and its vector."""
    files = BucketFiles.of(plan.version, split.bucket)
    vectors = files.meta.vectors.read(split.vectors, split.files) if split.vectors else {}
    found = []
    for file in split.files:
        with files.open(file) as reader:
            found.append((reader.read_all(columns), vectors.get(file.name, EMPTY)))
    return found


def _split_by_split(plan: Plan, splits: Sequence[Split], finish: Finish) -> Generator[pa.Table]:
    """The rows of several small splits, of which some are merged at read or need not be decoded as a whole."""
    buckets = ((BucketFiles.of(plan.version, split.bucket), split) for split in splits)
    parts = (part for files, split in buckets for part in _parts(files, plan, split, _kept))
    tables = list(chain.from_iterable(parts))
    if any(not table.schema.equals(tables[0].schema) for table in tables):  # merged rows, or texts with a dictionary
        tables = [finished(table, plan) for table in tables]
    if tables:
        yield finish(pa.concat_tables(tables).combine_chunks(), None)


def _finished(plan: Projection, table: pa.Table, wanted: np.ndarray | None) -> pa.Table:
    return finished(_kept(table, wanted), plan)


def _kept(table: pa.Table, wanted: np.ndarray | None) -> pa.Table:
    return table if wanted is None or wanted.all() else table.filter(pa.array(wanted))


def _files_at_once(plan: Plan) -> int:
    """How many files to read in parallel: where reads wait for a network, more than there are workers."""
    env = plan.version.meta.env
    if env.storage.at_once == 1:
        return env.workers
    sizes = [file.bytes for split in plan.splits for file in (*split.files, *split.level0, *split.merged)]
    fitting = _AHEAD_BYTES * len(sizes) // max(1, sum(sizes))
    return max(env.workers, min(env.storage.at_once, fitting))


def read_split(plan: Plan, split: Split, *, backwards: bool = False) -> Iterator[pa.Table]:
    """Yields the rows of one split, in one thread. Raises SnapshotNotFound if the snapshot has expired meanwhile.

    Args:
        backwards: the row groups of a file are read from the last to the first.
    """
    with plan.version.unless_expired():
        finish = partial(_finished, plan)
        for part in _parts(BucketFiles.of(plan.version, split.bucket), plan, split, finish, backwards=backwards):
            yield from part


def rows_of_split(files: BucketFiles, plan: Projection, split: Split) -> Iterator[pa.Table]:
    """`read_split` for a split that was planned elsewhere. `files`: of the bucket of the split."""
    for part in _parts(files, plan, split, partial(_finished, plan)):
        yield from part


def _parts(
    files: BucketFiles, plan: Projection, split: Split, finish: Finish, *, backwards: bool = False
) -> Iterator[Generator[pa.Table]]:
    """Yields the parts of a split that can be read in parallel. `finish`: see `Finish`."""
    if split.merged:
        yield _merged(files, plan, split, finish)
        return
    fresh = Once(partial(freshen_for_scan if split.level0 else freshen, files, plan, split, plan.needed))
    for file in split.files:
        yield _raw(files, plan, file, fresh, finish, backwards=backwards)
    if split.level0 and reads_level0_as_it_is(split, rule_of(plan.schema)):
        for file in split.level0:
            yield _raw(files, plan, file, fresh, finish, backwards=backwards)
    elif split.level0:
        yield _level0_rows(plan, fresh, finish)


def _merged(files: BucketFiles, plan: Projection, split: Split, finish: Finish) -> Generator[pa.Table]:
    for table in merge_at_read(files, plan, split, plan.needed):
        yield finish(filtered(table, plan), None)


def _level0_rows(plan: Projection, fresh: Once[Fresh], finish: Finish) -> Generator[pa.Table]:
    yield finish(filtered(fresh().rows, plan), None)


def merge_at_read(bucket_files: BucketFiles, plan: Projection, split: Split, columns: Collection[str]) -> Iterator[pa.Table]:
    """Yields the live rows of a section whose files must be merged, one window of the key space at a time."""
    root = bucket_files.meta.paths.root
    rule, key = rule_of(plan.schema, root), plan.schema.key
    wanted = rule.needs({*columns, *key})
    names = [name for name in plan.schema.columns.names if name in wanted]
    ordered = sorted(split.merged, key=lambda file: (recency(file), file.min_key), reverse=True)
    ignored = _ignored_rows(bucket_files, split, rule)
    runs = []
    for _, same_run in groupby(ordered, key=recency):
        files = sorted(same_run, key=lambda file: file.min_key)
        chunks = chain.from_iterable(_stream(bucket_files, file, names, ignored.get(file.name, EMPTY)) for file in files)
        repeats = rule.repeats_keys and any(file.delete_rows for file in files)
        runs.append(RunReader(whole_keys(chunks, key) if repeats else chunks, sum(file.rows for file in files)))
    with located(root, split.bucket):
        for table in merge_windows(runs, key, partial(merge_runs, key=key, rule=rule)):
            yield without_deletes(table)


def _ignored_rows(files: BucketFiles, split: Split, rule: MergeRule) -> dict[str, DeletionVector]:
    """The rows of level-0 files of a section that retained deletes ignore, by file name."""
    level0 = [file for file in sorted(split.merged, key=recency, reverse=True) if file.level == 0]
    retained = Retained.of(files, split.retained, rule)
    ignored = retained.settlement(level0, lambda file: _read_all(files, file, retained.columns)).ignored
    return {name: DeletionVector.of(positions) for name, positions in ignored.items()}


def _stream(files: BucketFiles, file: DataFile, names: list[str], ignored: DeletionVector) -> Iterator[pa.Table]:
    with files.open(file) as reader:
        for chunk in reader.stream([*names, ROW_KIND] if file.delete_rows else names):
            yield live_rows(chunk, ignored)


class Fresh(NamedTuple):
    """The level 0 of a split, merged at read. `rows`: the merged rows of all keys at level 0, None without level-0 files or if
    they are files to read. `dead`: for each file to read, its vector and the rows that level 0 supersedes."""

    rows: pa.Table | None
    dead: Mapping[str, DeletionVector]


def freshen_for_scan(files: BucketFiles, plan: Projection, split: Split, columns: Collection[str]) -> Fresh:
    """The level 0 of a split for a scan. If nothing must be merged, the scan reads the level-0 files, too."""
    rule = rule_of(plan.schema, files.meta.paths.root)
    if reads_level0_as_it_is(split, rule):
        return Fresh(None, dead_rows(files, split, rule))
    return freshen(files, plan, split, columns)


def freshen(files: BucketFiles, plan: Projection, split: Split, columns: Collection[str]) -> Fresh:
    """Merges the level-0 rows of a split with each other and with older rows of their keys. Reads the key and the columns that a
    merge of `columns` needs."""
    stored = files.meta.vectors.read(split.vectors, (*split.files, *split.lookup_files))
    dead = {file.name: stored.get(file.name, EMPTY) for file in split.files}
    if not split.level0:
        return Fresh(None, dead)
    rule = rule_of(plan.schema, files.meta.paths.root)
    wanted = rule.needs({*columns, *plan.schema.key})
    names = [name for name in plan.schema.columns.names if name in wanted]
    runs = _level0_runs(files, split, names, rule)
    keys = distinct([run.select(plan.schema.key) for run in runs])
    old: dict[int, list[pa.Table]] = {}
    older_files = sorted((*split.files, *split.lookup_files), key=lambda file: (file.level, file.min_key))
    older = {file.name: file for file in older_files}
    for name, hits in files.find(keys, tuple(older.values()), repeats=rule.repeats_keys).items():
        if rule.old_row is not OldRow.REPLACED:
            live = hits.positions[stored.get(name, EMPTY).live_mask(hits.positions)]
            rows = files.fetch(older[name], live, names)
            old.setdefault(older[name].level, []).extend(rows)
        if name in dead:
            dead[name] = dead[name] | DeletionVector.of(hits.positions)
    # files are in order of level and key, so the rows of a level form a sorted run; a key is live once at levels >= 1 (I2)
    old_runs = [pa.concat_tables(tables) for tables in old.values() if tables]
    with located(files.meta.paths.root, split.bucket):
        return Fresh(without_deletes(merge_runs([*old_runs, *runs], plan.schema.key, rule)), dead)


def _level0_runs(files: BucketFiles, split: Split, names: list[str], rule: MergeRule) -> list[pa.Table]:
    """Returns the level-0 runs, oldest first, without rows that retained deletes ignore."""
    ordered = sorted(split.level0, key=lambda file: (recency(file), file.min_key), reverse=True)
    tables = {file.name: _read_all(files, file, names) for file in ordered}
    settlement = Retained.of(files, split.retained, rule).settlement(ordered, lambda file: tables[file.name])
    runs = []
    for _, same_run in groupby(ordered, key=recency):
        run = sorted(same_run, key=lambda file: file.min_key)
        runs.append(pa.concat_tables(with_kinds([settlement.live(file, tables[file.name]) for file in run])))
    return runs


def _read_all(files: BucketFiles, file: DataFile, names: Sequence[str]) -> pa.Table:
    with files.open(file) as reader:
        return reader.read(range(reader.groups), [*names, ROW_KIND] if reader.has_row_kind else names)


def _raw(
    files: BucketFiles, plan: Projection, file: DataFile, fresh: Once[Fresh], finish: Finish, *, backwards: bool
) -> Generator[pa.Table]:
    columns = plan.needed or plan.schema.narrow
    dead = fresh().dead[file.name]
    with files.open(file, encoded=columns) as reader:
        groups = groups_to_read(reader, plan, dead, columns)
        for chunk in reader.chunks(columns, groups[::-1] if backwards else groups):
            yield finish(chunk.table, _wanted(chunk, dead, plan))


def groups_to_read(reader: DataReader, plan: Projection, dead: DeletionVector, columns: Collection[str]) -> list[int]:
    """Returns the row groups whose `columns` must be read. If the plan names keys, their columns are read first: many files may
    hold a key, but it is live in at most one."""
    groups, filtered = _matching_groups(reader, plan), plan.predicate.columns if plan.predicate else frozenset()
    if len(columns) <= len(filtered) or not plan.names_keys:
        return groups
    chunks = ((group, chunk) for group in groups for chunk in reader.chunks(filtered, [group]))
    return [group for group, chunk in chunks if _kept(chunk.table, _wanted(chunk, dead, plan)).num_rows]


def _wanted(chunk: Chunk, dead: DeletionVector, plan: Projection) -> np.ndarray | None:
    """Flags the rows of a chunk that are live and match the predicate; None: all."""
    live = ~dead.dead_mask(chunk.start, chunk.table.num_rows) if len(dead) else None
    if plan.predicate is None:
        return live
    return evaluate(plan.predicate, chunk.table) if live is None else evaluate_live(plan.predicate, chunk.table, live)


def _matching_groups(reader: DataReader, plan: Projection) -> list[int]:
    """Returns the row groups whose statistics allow a match. The statistics of the file do, so a single group is kept."""
    if plan.predicate is None or reader.groups == 1:
        return list(range(reader.groups))
    rows = reader.starts[1:] - reader.starts[:-1]
    bounds = {name: ColumnBounds(*reader.group_bounds(name)) for name in plan.predicate.columns}
    return may_match(plan.predicate, bounds, rows).nonzero()[0].tolist()


def filtered(table: pa.Table, plan: Projection) -> pa.Table:
    """Returns the rows for which the predicate is true."""
    return table if plan.predicate is None else table.filter(evaluate(plan.predicate, table))


def finished(table: pa.Table, plan: Projection) -> pa.Table:
    """Returns the columns of the projection, with the nullability of the schema."""
    return cast(table.select(list(plan.columns)), output_schema(plan))


def output_schema(plan: Projection) -> pa.Schema:
    return pa.schema([plan.schema.plain_columns.field(name) for name in plan.columns])
