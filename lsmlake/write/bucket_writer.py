"""Writes prepared rows (`write.prepare`) as one sorted level-0 run per bucket, and optionally compacts the bucket inline.

1. `split` sorts the rows by bucket and key, combines rows of equal keys by the merge rule, and cuts the result at buckets.
2. `write_level0` writes one run.
3. `WrittenRun.compacted` compacts the bucket including the new run, if its picker chooses so.

With `changelog-producer = input` the writer also writes all rows of each key with their original kinds, as changelog files.

A writer does not know its sequence. It reads only the keys of older rows, unless the merge rule merges with older rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

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
from lsmlake.lsm.levels import Levels
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
_PART_BYTES = 32 << 20  # in memory: encoded in 0.3 seconds, where a further file costs a few milliseconds


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
    groups = group(keys, [] if arrival is None else arrival.order(), routed.codes)
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


class WrittenRun(NamedTuple):
    """The level-0 run of one commit in a bucket, written and not compacted.

    Attributes:
        files: the data files of the bucket.
        message: the message of the run alone.
        cached_rows: what a compaction needs of the rows, see `compact_bucket`; None: the run is not compacted.
        reports: whether the compaction writes a changelog, if the options ask for it.
    """

    files: BucketFiles
    message: CommitMessage
    cached_rows: Mapping[str, pa.Table] | None
    reports: bool

    def if_due(self, base: BucketState | None, pick: Picker | None) -> WrittenRun:
        """The run, without its rows in memory if `pick` chooses no compaction. `base`: see `compacted`."""
        base = base or self._new_bucket()
        files = (*base.files, *self.message.append.added)
        is_due = pick is not None and self.cached_rows is not None and pick(Levels.of(files, base.dead)) is not None
        return self if is_due else self._replace(cached_rows=None)

    def compacted(self, base: BucketState | None, pick: Picker) -> CommitMessage:
        """The message of the run, compacted inline.

        Args:
            base: The bucket as of the snapshot that the compaction starts from. None: the bucket does not exist yet.
            pick: Picks the compactions.

        Raises:
            Unmergeable: The rows of a key cannot be merged.
        """
        message, clock = self.message, self.files.meta.env.clock
        base, began_ms, added = base or self._new_bucket(), clock(), message.append.added
        try:
            compacted = compact_bucket(self.files, base, pick, self.cached_rows, added, reports=self.reports)
        except Unmergeable as error:
            if _contain_any(self.cached_rows.values(), error.keys):
                raise error.changed(cure="correct the rows of this key in the batch; nothing was written") from error
            return message  # only rows of earlier commits fail: a writer never fails because of a compaction
        if compacted is None or (compacted.compact.added == added and not compacted.compact.removed):
            return message
        edit = replace(compacted.compact, changelog=message.append.changelog + compacted.compact.changelog)
        return replace(message, compact=edit, written=message.written + compacted.written, compact_ms=clock() - began_ms)

    def _new_bucket(self) -> BucketState:
        return BucketState(self.message.bucket, self.message.append.total_buckets)


def write_level0(
    files: BucketFiles,
    total: int,
    tables: Iterable[pa.Table],
    changelog_rows: Iterable[pa.Table] = (),
    *,
    compacts: bool,
    reports: bool = True,
    threads: int = 1,
) -> WrittenRun | None:
    """Writes the level-0 run of one commit; None if it has no row.

    Args:
        files: The data files of the bucket. In a group, the new files become visible when it ends, or before.
        total: The total of the bucket.
        tables: Sorted, combined rows; a list if they are in memory.
        changelog_rows: The rows of the changelog (`with_input_kinds`), sorted by key.
        compacts: The run may be compacted: what a compaction needs of the rows stays in memory.
        reports: See `WrittenRun`.
        threads: How many files of a large run in memory are encoded at once.
    """
    schema, bucket = files.schema, files.bucket
    parts = _parts(tables, schema.key, threads) if isinstance(tables, list) else tables
    origin, changelog = Origin(0, APPEND), ()
    kept: list[pa.Table] = []
    columns = columns_kept(schema, reports and isinstance(tables, list)) if compacts else ()
    passing = (_keep_columns(table, columns, kept) for table in parts) if compacts else parts
    write = files.write if parts is tables else files.write_parts
    run = write(passing, origin, _nan_columns(tables, schema))
    if not run:
        return None
    try:
        changelog = files.write(changelog_rows, origin, float_columns(schema), CHANGELOG)
    except BaseException:
        files.delete(run)
        raise
    cached_rows = _by_file(run, kept) if compacts else None
    if compacts and len(run) == 1:  # a slice would keep the rows of all files in memory
        files.remember(run[0], cached_rows[run[0].name].select(schema.key))
    append = BucketEdit(bucket, total, added=run, changelog=changelog)
    message = CommitMessage(bucket, append, rows=sum(file.rows for file in run), written=files.paths((*run, *changelog)))
    return WrittenRun(replace(files, opened=None), message, cached_rows, reports)


def _parts(tables: list[pa.Table], key: Sequence[str], threads: int) -> list[pa.Table]:
    """Divides a large run in memory into parts for so many threads, with all rows of a key in one part; otherwise the tables as
    they are."""
    count = min(threads, sum(table.nbytes for table in tables) // _PART_BYTES)
    if count < 2 or len(tables) != 1:
        return tables
    (rows,) = tables
    (keys,) = comparable([rows.select(key)])
    middles = keys[[rows.num_rows * number // count for number in range(1, count)]]
    edges = np.unique([0, *np.searchsorted(keys, middles).tolist(), rows.num_rows]).tolist()
    return [rows.slice(first, last - first) for first, last in pairwise(edges)]


def base_states(base: Version, buckets: Sequence[Bucket]) -> dict[Bucket, BucketState]:
    """Returns the buckets at the snapshot that a writer starts from. If it has expired, newer snapshots exist and an inline
    compaction would be discarded; the result is then empty."""
    try:
        with base.unless_expired():
            return base.states(buckets)
    except SnapshotNotFound:
        return {}


def compacted_onto(base: Version, run: WrittenRun, state: BucketState | None, pick: Picker) -> CommitMessage:
    """The message of a run, compacted with the `state` of its bucket at `base`. If `base` expires meanwhile, it is not compacted.
    After an error, the files of the run stay."""
    try:
        with base.unless_expired():
            return run.compacted(state, pick)
    except SnapshotNotFound:
        return run.message


def compacted_alone(base: Version, run: WrittenRun) -> CommitMessage:
    """The message of a run that replaces the content of its bucket: one merged run at the last level, or nothing if all its rows
    are deletes. Reads nothing of the bucket. After an error, the files of the run stay."""
    message = run.compacted(None, in_full(base.schema, base.meta.env.clock()))
    if message.compact is None:  # the compaction has left no row
        return replace(message, append=None, compact=BucketEdit(message.bucket, message.append.total_buckets), rows=0)
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
