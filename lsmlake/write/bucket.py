"""Writing: prepared rows (`write.prepare`) in, one sorted level-0 run per bucket out, maybe compacted at once.

1. `split`: sort by bucket and key, fold repeats of a key as the merge rule does, cut at buckets.
2. `write_bucket`: one run, then, if asked, compaction of the bucket with the new run in it.

With `changelog-producer = input` the rows are written once more, as they were given: every row of a key, in its kind.

A writer does not know its sequence, and of older rows it reads only their keys unless the rule merges with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lsmlake.compact.bucket import Picker, compact_bucket
from lsmlake.compact.work import own_columns
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.files import APPEND, Bucket, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.kernels.chunks import joined
from lsmlake.kernels.gather import gather
from lsmlake.kernels.groups import Groups
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.lookup import find
from lsmlake.lsm.merge.blame import Unmergeable, merged
from lsmlake.lsm.merge.erase import merge
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.merge.runs import grouped
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.store.data_writer import CHANGELOG, Origin, float_columns, nan_columns, write_run
from lsmlake.store.lookup import remember
from lsmlake.store.metadata import Metadata
from lsmlake.write.prepare import without_given

_THREADS = 2


def split(
    rows: pa.Table, schema: Schema, buckets: int, numbers: np.ndarray | None = None, order: np.ndarray | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """Prepared rows by bucket, each ascending by key and folded as the rule does it before older rows are at hand; rows of one
    key arrived in the order that `order` says (default: as given). `numbers`: bucket numbers if already known. O(rows log
    rows); no copy but the one into the result."""
    yield from _split(without_given(rows), schema, buckets, numbers, order, fold)


def split_unfolded(
    rows: pa.Table, schema: Schema, buckets: int, numbers: np.ndarray | None = None, order: np.ndarray | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """`split` with all rows of a key in the order they arrived, and all columns of the prepared rows."""
    yield from _split(
        rows, schema, buckets, numbers, order, lambda rows, groups, rule, key, pool: gather(rows, groups.rows, pool)
    )


def split_given(
    rows: pa.Table, schema: Schema, buckets: int, numbers: np.ndarray | None = None, order: np.ndarray | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """`split_unfolded` as a changelog tells it: see `in_replay_order`."""
    yield from _split(
        rows, schema, buckets, numbers, order, lambda rows, groups, rule, key, pool: in_replay_order(rows, groups, rule, pool)
    )


def in_replay_order(rows: pa.Table, groups: Groups, rule: MergeRule, pool: Executor | None) -> pa.Table:
    """All rows, those of a key so that applying them one after the other gives what the table holds, whatever the sequence."""
    return gather(rows, rule.replay_order(rows, groups), pool)


Fold = Callable[[pa.Table, Groups, MergeRule, Sequence[str], Executor], pa.Table]


def fold(rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str], pool: Executor | None) -> pa.Table:
    """The rows of every key, combined as far as the rule can before the older row of the key is known."""
    if groups.unique and not rule.repeats_keys:
        return gather(rows, groups.rows, pool)
    return merged(lambda some: merge(rows, some, rule, key, pool, complete=False), rows, groups, key)


def _split(
    rows: pa.Table, schema: Schema, buckets: int, numbers: np.ndarray | None, order: np.ndarray | None, fold: Fold
) -> Iterator[tuple[Bucket, pa.Table]]:
    if not rows.num_rows:
        return
    if numbers is None:
        numbers = bucket_of([rows[name] for name in schema.bucket_key], buckets)
    codes, partitions = _group_codes(rows, schema, numbers)
    keys = comparable([rows.select(schema.key)])[0]
    rule = rule_of(schema)
    groups = grouped(keys, order, codes)
    of_group = codes[groups.first]
    edges = [0, *(np.flatnonzero(np.diff(of_group)) + 1).tolist(), len(of_group)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for first, last in pairwise(edges):
            code = int(of_group[first])
            bucket = Bucket(partitions[code // buckets], code % buckets)
            yield bucket, fold(rows, groups.part(first, last), rule, schema.key, pool)


def _group_codes(rows: pa.Table, schema: Schema, numbers: np.ndarray) -> tuple[np.ndarray, list[tuple]]:
    """(partition number * buckets + bucket number) of every row, and the partition values by partition number."""
    buckets = schema.parsed_options.layout.buckets
    if not schema.partition_by:
        return numbers.astype(np.int64), [()]
    code = np.zeros(rows.num_rows, np.int64)
    for name in schema.partition_by:
        encoded = joined(rows[name]).dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    _, first = np.unique(code, return_index=True)
    values = rows.select(schema.partition_by).take(first)
    partitions = list(zip(*(column.to_pylist() for column in values.columns), strict=True))
    return code * buckets + numbers, partitions


def write_bucket(
    meta: Metadata,
    schema: Schema,
    bucket: Bucket,
    tables: Iterable[pa.Table],
    base: BucketState | None,
    pick: Picker | None,
    given: Iterable[pa.Table] = (),
) -> CommitMessage | None:
    """Write sorted, folded rows (a list if they are in memory) as the level-0 run of one commit and, with `pick`, compact the
    bucket at once.

    `base`: the bucket as of the snapshot the compaction starts from (`None` = no such bucket yet). `given`: the rows `as_given`,
    sorted by key, that are to be the changelog.
    """
    total = schema.parsed_options.layout.buckets
    kept: list[pa.Table] = []
    columns = own_columns(schema)
    remembered = (_remember(table, columns, kept) for table in tables) if pick else tables
    files = write_run(meta.env, meta.paths, schema, bucket, remembered, Origin(0, APPEND), _nan_columns(tables, schema))
    if not files:
        return None
    written = [meta.paths.data(file) for file in files]
    try:
        origin = Origin(0, APPEND)
        changelog = write_run(meta.env, meta.paths, schema, bucket, given, origin, float_columns(schema), CHANGELOG)
        written += (meta.paths.data(file) for file in changelog)
        append = BucketEdit(bucket, total, added=files, changelog=changelog)
        message = CommitMessage(bucket, append, rows=sum(f.rows for f in files), written=tuple(written))
        if pick is None:
            return message
        own = _by_file(files, kept)
        if len(files) == 1:  # a slice would keep all others in memory
            remember(meta, schema, files[0], own[files[0].name].select(schema.key))
        return _compacted(meta, schema, message, base or BucketState(bucket, total), pick, own)
    except BaseException:
        meta.delete_quietly(written)
        raise


def base_states(meta: Metadata, schema: Schema, base: Snapshot | None, buckets: Sequence[Bucket]) -> dict[Bucket, BucketState]:
    """The buckets at the snapshot a writer begins from; none of them if that has expired, and so another has followed: what is
    compacted inline then counts for nothing."""
    try:
        with meta.unless_expired(base):
            return meta.states(base, schema, buckets) if base else {}
    except SnapshotNotFound:
        return {}


def write_onto(
    meta: Metadata,
    schema: Schema,
    bucket: Bucket,
    tables: Iterable[pa.Table],
    base: Snapshot | None,
    state: BucketState | None,
    pick: Picker | None,
    given: Iterable[pa.Table],
) -> CommitMessage | None:
    """`write_bucket` onto the `state` of a bucket at snapshot `base`: as plain level 0 if that has expired meanwhile. Raises
    SnapshotNotFound if it has, and the rows cannot be had twice."""
    try:
        with meta.unless_expired(base):
            return write_bucket(meta, schema, bucket, tables, state, pick, given)
    except SnapshotNotFound:
        if not isinstance(tables, list):
            raise
        return write_bucket(meta, schema, bucket, tables, None, None, given)


def _remember(table: pa.Table, columns: Sequence[str], kept: list[pa.Table]) -> pa.Table:
    """Keep what compaction needs next of rows on their way to disk."""
    kept.append(table.select([name for name in (*columns, ROW_KIND) if name in table.column_names]))
    return table


def _nan_columns(tables: Iterable[pa.Table], schema: Schema) -> set[str]:
    """Float columns that may hold a NaN: exact if the rows are in memory."""
    if isinstance(tables, list):
        return {name for table in tables for name in nan_columns(table)}
    return float_columns(schema)


def _by_file(files: Sequence[DataFile], kept: Sequence[pa.Table]) -> dict[str, pa.Table]:
    """The remembered rows cut where the writer began a new file."""
    table, start, result = pa.concat_tables(kept), 0, {}
    for file in files:
        result[file.name] = table.slice(start, file.rows)
        start += file.rows
    return result


def _among(keys: pa.Table, tables: Iterable[pa.Table]) -> bool:
    """Whether some of the `keys`, which are few, are in the tables."""
    return any(len(find(keys, table.select(keys.column_names), repeats=True)[0]) for table in tables)


def _compacted(
    meta: Metadata, schema: Schema, message: CommitMessage, base: BucketState, pick: Picker, own: dict[str, pa.Table]
) -> CommitMessage:
    try:
        compacted = compact_bucket(meta, schema, base, pick, own, message.append.added)
    except Unmergeable as error:
        if _among(error.keys, own.values()):
            raise Unmergeable(
                error.what,
                where=error.where,
                expected=error.expected,
                found=error.found,
                cure="correct the rows of this key in the batch; nothing was written",
            ) from error
        return message  # rows that were there before do not fit: a writer never fails because of a compaction
    if compacted is None or (compacted.compact.added == message.append.added and not compacted.compact.removed):
        return message
    change = replace(compacted.compact, changelog=message.append.changelog + compacted.compact.changelog)
    return replace(message, compact=change, written=message.written + compacted.written)
