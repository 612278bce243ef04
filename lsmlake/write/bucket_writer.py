"""Writes prepared rows (`write.prepare`) as one sorted level-0 run per bucket, and optionally compacts the bucket inline.

1. `split` sorts the rows by bucket and key, combines rows of equal keys by the merge rule, and cuts the result at buckets.
2. `write_bucket` writes one run and, with a picker, compacts the bucket including the new run.

With `changelog-producer = input` the writer also writes all rows of each key with their original kinds, as changelog files.

A writer does not know its sequence. It reads only the keys of older rows, unless the merge rule merges with older rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.compact.bucket_compaction import Picker, compact_bucket
from lsmlake.compact.compaction_state import columns_kept
from lsmlake.errors import SnapshotNotFound
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import CHANGELOG, Origin, float_columns, nan_columns
from lsmlake.format.data_files import APPEND, Bucket, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.kernels.groups import Groups, gather, group
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.cover import Covers, route
from lsmlake.lsm.lookup import find
from lsmlake.lsm.merge.merge_errors import Unmergeable, merge_or_name_keys
from lsmlake.lsm.merge.rule import MergeRule, merge
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick.strategy import in_full
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.tables.version import Version
from lsmlake.write.order import Arrival
from lsmlake.write.prepare import without_input_kinds

_THREADS = 2
_KEYS_AT_ONCE = 1 << 16


def split(
    rows: pa.Table, schema: Schema, covers: Covers, numbers: np.ndarray | None = None, arrival: Arrival | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """Yields prepared rows by bucket, ascending by key, with the rows of a key combined as far as possible (see `fold`).

    Args:
        rows: Prepared rows.
        schema: The schema of the table.
        covers: The buckets of each partition.
        numbers: The bucket number of each row, if known.
        arrival: The order of the rows of a key. None: row number.

    Raises:
        InvalidData: The result depends on the order of rows of a key, and these have no order.
    """
    yield from _split(without_input_kinds(rows), schema, covers, numbers, arrival, fold, checks=True)


def split_unfolded(
    rows: pa.Table, schema: Schema, covers: Covers, numbers: np.ndarray | None = None, arrival: Arrival | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """As `split`, but keeps all rows of a key in order of arrival, and all columns of the prepared rows."""
    yield from _split(
        rows, schema, covers, numbers, arrival, lambda rows, groups, rule, key, pool: gather(rows, groups.rows, pool)
    )


def split_in_order(
    rows: pa.Table, schema: Schema, covers: Covers, numbers: np.ndarray | None = None, arrival: Arrival | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """As `split`, but keeps all rows of a key in order of arrival."""
    keep: Fold = lambda rows, groups, rule, key, pool: gather(rows, groups.rows, pool)  # noqa: E731
    yield from _split(without_input_kinds(rows), schema, covers, numbers, arrival, keep, checks=True)


def split_input(
    rows: pa.Table, schema: Schema, covers: Covers, numbers: np.ndarray | None = None, arrival: Arrival | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """As `split_unfolded`, with the rows of a key in the order of a changelog: see `in_replay_order`."""
    yield from _split(
        rows, schema, covers, numbers, arrival, lambda rows, groups, rule, key, pool: in_replay_order(rows, groups, rule, pool)
    )


def in_replay_order(rows: pa.Table, groups: Groups, rule: MergeRule, pool: Threads | None) -> pa.Table:
    """Returns all rows, ordered so that applying the rows of a key one after the other, ignoring sequences, gives the row of the
    table."""
    return gather(rows, rule.of_one_commit().replay_order(rows, groups), pool)


Fold = Callable[[pa.Table, Groups, MergeRule, Sequence[str], Threads], pa.Table]


def fold(rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str], pool: Threads | None) -> pa.Table:
    """Combines the rows of each key as far as the rule can without the older row of the key."""
    if groups.unique and not rule.repeats_keys:
        return gather(rows, groups.rows, pool)
    own = rule.of_one_commit()
    return merge_or_name_keys(lambda some: merge(rows, some, own, key, pool, complete=False), rows, groups, key)


def _split(
    rows: pa.Table,
    schema: Schema,
    covers: Covers,
    numbers: np.ndarray | None,
    arrival: Arrival | None,
    fold: Fold,
    *,
    checks: bool = False,
) -> Iterator[tuple[Bucket, pa.Table]]:
    if not rows.num_rows:
        return
    routed = route(rows, schema, covers, numbers)
    keys = comparable([rows.select(schema.key)])[0]
    rule = rule_of(schema)
    ranks = None if arrival is None else arrival.ranks()
    groups = group(keys, [] if ranks is None else [ranks], routed.codes)
    if arrival is not None and checks:
        arrival.check(rows, groups, rule, schema.key)
    group_codes = routed.codes[groups.first]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(group_codes)) + 1, [len(group_codes)]])
    with Threads(_THREADS) as pool:
        for some in _at_once(edges):
            part = groups.part(some[0], some[-1])
            made = fold(rows, part, rule, schema.key, pool)
            if (cuts := _cuts(some - some[0], part, made.num_rows)) is not None:
                folded = (made.slice(start, stop - start) for start, stop in pairwise(cuts.tolist()))
            else:
                single = (groups.part(first, last) for first, last in pairwise(some.tolist()))
                folded = (fold(rows, one, rule, schema.key, pool) for one in single)
            yield from zip(map(routed.bucket, group_codes[some[:-1]]), folded, strict=True)


def _at_once(edges: np.ndarray) -> Iterator[np.ndarray]:
    """Divides buckets, given by the edges of their keys, into those to fold at once: as many as have `_KEYS_AT_ONCE` keys, at
    least one. For a bucket of few rows, a call of Arrow for each column takes longer than its work."""
    first, last = 0, len(edges) - 1
    while first < last:
        stop = max(first + 1, int(np.searchsorted(edges, edges[first] + _KEYS_AT_ONCE, side="right")) - 1)
        yield edges[first : stop + 1]
        first = stop


def _cuts(edges: np.ndarray, groups: Groups, rows: int) -> np.ndarray | None:
    """The edges of buckets among their folded rows, given the edges of their keys; None if those cannot be told from `rows`, the
    number of folded rows: each key has one row left at least, and all of its rows at most."""
    if len(edges) == 2:
        return np.array([0, rows])
    if rows == len(groups.starts):
        return edges
    return np.append(groups.starts, len(groups.rows))[edges] if rows == len(groups.rows) else None


def write_bucket(
    files: BucketFiles,
    total: int,
    tables: Iterable[pa.Table],
    base: BucketState | None,
    pick: Picker | None,
    changelog_rows: Iterable[pa.Table] = (),
    *,
    reports: bool = True,
) -> CommitMessage | None:
    """Writes the level-0 run of one commit and, with `pick`, compacts the bucket inline.

    Args:
        files: The data files of the bucket.
        total: The total of the bucket.
        tables: Sorted, combined rows; a list if they are in memory.
        base: The bucket as of the snapshot that the compaction starts from. None: the bucket does not exist yet.
        pick: Picks the inline compactions. None: no compaction.
        changelog_rows: The rows of the changelog (`with_input_kinds`), sorted by key.
        reports: Whether the compaction writes a changelog, if the options ask for it.
    """
    schema, bucket = files.schema, files.bucket
    origin = Origin(0, APPEND)
    kept: list[pa.Table] = []
    columns = columns_kept(schema, reports and isinstance(tables, list)) if pick else ()
    passing = (_keep_columns(table, columns, kept) for table in tables) if pick else tables
    run, changelog = files.write(passing, origin, _nan_columns(tables, schema)), ()
    if not run:
        return None
    try:
        changelog = files.write(changelog_rows, origin, float_columns(schema), CHANGELOG)
        append = BucketEdit(bucket, total, added=run, changelog=changelog)
        rows = sum(file.rows for file in run)
        message = CommitMessage(bucket, append, rows=rows, written=files.paths((*run, *changelog)))
        if pick is None:
            return message
        cached_rows = _by_file(run, kept)
        if len(run) == 1:  # a slice would keep the rows of all files in memory
            files.remember(run[0], cached_rows[run[0].name].select(schema.key))
        return _compacted(files, message, base or BucketState(bucket, total), pick, cached_rows, reports)
    except BaseException:
        files.delete((*run, *changelog))
        raise


def base_states(base: Version, buckets: Sequence[Bucket]) -> dict[Bucket, BucketState]:
    """Returns the buckets at the snapshot that a writer starts from. If it has expired, newer snapshots exist and an inline
    compaction would be discarded; the result is then empty."""
    try:
        with base.unless_expired():
            return base.states(buckets)
    except SnapshotNotFound:
        return {}


def write_onto(
    base: Version,
    bucket: Bucket,
    total: int,
    tables: Iterable[pa.Table],
    state: BucketState | None,
    pick: Picker | None,
    changelog_rows: Iterable[pa.Table],
) -> CommitMessage | None:
    """Calls `write_bucket` with the `state` of the bucket at `base`. If `base` expires meanwhile, writes the rows at
    level 0 without compaction. Raises SnapshotNotFound if it expires and `tables` is not a list, so it cannot be read twice."""
    try:
        with base.unless_expired():
            return write_bucket(BucketFiles.of(base, bucket), total, tables, state, pick, changelog_rows)
    except SnapshotNotFound:
        if not isinstance(tables, list):
            raise
        return write_bucket(BucketFiles.of(base, bucket), total, tables, None, None, changelog_rows)


def write_alone(base: Version, bucket: Bucket, total: int, tables: Iterable[pa.Table]) -> CommitMessage | None:
    """Writes rows that replace the content of their bucket: one merged run at the last level, or nothing if all of them are
    deletes. Reads nothing of the bucket and writes no changelog. `tables`: see `write_bucket`."""
    pick = in_full(base.schema, base.meta.env.clock())
    message = write_bucket(BucketFiles.of(base, bucket), total, tables, None, pick, reports=False)
    if message is not None and message.compact is None:  # the compaction has left no row
        return replace(message, append=None, compact=BucketEdit(bucket, total), rows=0)
    return message


def _keep_columns(table: pa.Table, columns: Sequence[str], kept: list[pa.Table]) -> pa.Table:
    """Passes a table on to the file writer and keeps the columns that the compaction needs."""
    kept.append(table.select([name for name in (*columns, ROW_KIND) if name in table.column_names]))
    return table


def _nan_columns(tables: Iterable[pa.Table], schema: Schema) -> Collection[str]:
    """Returns the float columns that may hold NaN: exact if the rows are in memory, else all float columns."""
    if isinstance(tables, list):
        return {name for table in tables for name in nan_columns(table)}
    return float_columns(schema)


def _by_file(files: Sequence[DataFile], kept: Sequence[pa.Table]) -> dict[str, pa.Table]:
    """Splits the kept rows by file."""
    table, start, result = pa.concat_tables(kept), 0, {}
    for file in files:
        result[file.name] = table.slice(start, file.rows)
        start += file.rows
    return result


def _contain_any(tables: Iterable[pa.Table], keys: pa.Table) -> bool:
    """Whether the tables contain at least one of the `keys`."""
    return any(len(find(keys, table.select(keys.column_names), repeats=True)[0]) for table in tables)


def _compacted(
    files: BucketFiles, message: CommitMessage, base: BucketState, pick: Picker, cached_rows: dict[str, pa.Table], reports: bool
) -> CommitMessage:
    clock = files.meta.env.clock
    began_ms = clock()
    try:
        compacted = compact_bucket(files, base, pick, cached_rows, message.append.added, reports=reports)
    except Unmergeable as error:
        if _contain_any(cached_rows.values(), error.keys):
            raise error.changed(cure="correct the rows of this key in the batch; nothing was written") from error
        return message  # only rows of earlier commits fail: a writer never fails because of a compaction
    if compacted is None or (compacted.compact.added == message.append.added and not compacted.compact.removed):
        return message
    edit = replace(compacted.compact, changelog=message.append.changelog + compacted.compact.changelog)
    return replace(message, compact=edit, written=message.written + compacted.written, compact_ms=clock() - began_ms)
