"""Writing: rows in, one sorted level-0 run a bucket out, moved up or merged at once if the table compacts inline.

1. `prepare`: the rows fit the table, their kinds are known, what options ignore is gone.
2. `split`: sort by bucket and key, fold repeats of a key (the last row in order wins), cut at buckets.
3. `write_bucket`: one run, then - unless told otherwise - compaction of the bucket with the new run in it.

A writer does not know its sequence and never reads older rows but their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.format import nested, rowkind
from lsmlake.format.conform import conform
from lsmlake.format.files import APPEND, Bucket, BucketState, Change, CommitMessage, DataFile
from lsmlake.format.schema import ROW_KIND, Schema
from lsmlake.lsm.bucket_hash import bucket_of
from lsmlake.lsm.keys import comparable
from lsmlake.lsm.merge.deduplicate import gather
from lsmlake.ops.compact import Choose, compact_bucket
from lsmlake.store.data_file import Origin, nan_columns, write_run
from lsmlake.store.metadata import Metadata

_THREADS = 2


def prepare(data: pa.Table, schema: Schema, row_kind: str | None = None) -> tuple[pa.Table, np.ndarray | None]:
    """Rows as they are stored: the schema's columns in its order, and `_row_kind` (0 or 3) last if any row is a delete; and which
    rows of `data` they are, ascending, if options made some of them go (`None`: all).

    `row_kind` names a text column with '+I', '-U', '+U', '-D' (default: option `rowkind.field`); it is left out of the
    rows unless it is a column of the table. -U counts as -D: the row as it was is gone. Raises InvalidData.
    """
    options = schema.parsed_options
    source = row_kind or options.rowkind_field
    kinds = None
    if source is not None:
        if data.schema.names.count(source) != 1:
            raise InvalidData(
                "the row-kind column is not in the data, or twice",
                where=f"column {source!r}",
                expected="once",
                found=data.schema.names,
                cure="name a column of the data",
            )
        kinds = rowkind.parse(data[source], source)
        if source not in schema.columns.names:
            data = data.drop_columns([source])
    rows = conform(data, schema).cast(schema.row_columns)
    return (rows, None) if kinds is None else _with_kinds(rows, kinds, schema)


def prepare_deletes(keys: pa.Table, schema: Schema) -> pa.Table:
    """Delete rows for `keys` (the primary key columns): the other columns are null. Raises InvalidData."""
    keys = conform(keys, schema, schema.primary_key)
    columns = [keys[f.name] if f.name in schema.primary_key else nested.nulls(keys.num_rows, f.type) for f in schema.row_columns]
    rows = pa.table(columns, schema=schema.row_columns)
    return rows.append_column(pa.field(ROW_KIND, pa.int8()), pa.array(np.full(keys.num_rows, rowkind.DELETE, np.int8)))


def _with_kinds(rows: pa.Table, kinds: pa.ChunkedArray, schema: Schema) -> tuple[pa.Table, np.ndarray | None]:
    options = schema.parsed_options
    retract, kept = np.asarray(rowkind.is_retract(kinds)), None
    if options.ignore_delete:
        kept = np.flatnonzero(~retract)
    elif options.ignore_update_before:
        kept = np.flatnonzero(np.asarray(kinds) != rowkind.UPDATE_BEFORE)
    if kept is not None:
        rows, retract = rows.take(kept), retract[kept]
    if retract.any():
        stored = np.where(retract, rowkind.DELETE, rowkind.INSERT).astype(np.int8)
        rows = rows.append_column(pa.field(ROW_KIND, pa.int8()), pa.array(stored))
    return rows, kept


def split(
    rows: pa.Table, schema: Schema, buckets: int, numbers: np.ndarray | None = None, order: np.ndarray | None = None
) -> Iterator[tuple[Bucket, pa.Table]]:
    """Prepared rows by bucket, each ascending by key with unique keys: of rows with one key the last in `order` (default: as
    given) wins. `numbers`: bucket numbers if already known. O(rows log rows); no copy but the one into the result."""
    if not rows.num_rows:
        return
    if numbers is None:
        numbers = bucket_of([rows[name] for name in schema.bucket_key], buckets)
    codes, partitions = _group_codes(rows, schema, numbers)
    keys = comparable([rows.select(schema.key)])[0]
    chosen = sorted_unique(codes, keys, order)
    edges = np.flatnonzero(np.diff(codes[chosen])) + 1
    with ThreadPoolExecutor(_THREADS) as pool:
        for part in np.split(chosen, edges):
            code = int(codes[part[0]])
            bucket = Bucket(partitions[code // buckets], code % buckets)
            yield bucket, gather(rows, part, pool)


def _group_codes(rows: pa.Table, schema: Schema, numbers: np.ndarray) -> tuple[np.ndarray, list[tuple]]:
    """(partition number * buckets + bucket number) of every row, and the partition values by partition number."""
    buckets = schema.parsed_options.bucket
    if not schema.partition_by:
        return numbers.astype(np.int64), [()]
    code = np.zeros(rows.num_rows, np.int64)
    for name in schema.partition_by:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    _, first = np.unique(code, return_index=True)
    values = rows.select(schema.partition_by).take(first)
    partitions = list(zip(*(column.to_pylist() for column in values.columns), strict=True))
    return code * buckets + numbers, partitions


def sorted_unique(codes: np.ndarray, keys: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Row numbers by (code, key), one for each: that of the last row in `order`."""
    rows = np.argsort(keys, kind="stable")
    if codes.any():
        rows = rows[np.argsort(_narrow(codes)[rows], kind="stable")]
    repeated = (keys[rows[1:]] == keys[rows[:-1]]) & (codes[rows[1:]] == codes[rows[:-1]])
    if not repeated.any():
        return rows
    if order is not None:  # the order only matters among repeats: sort by it inside the groups of equal keys
        group = np.cumsum(np.concatenate([[0], ~repeated]))
        rows = rows[np.lexsort((order[rows], group))]
    return rows[np.concatenate([~repeated, [True]])]


def _narrow(codes: np.ndarray) -> np.ndarray:
    """16-bit integers sort by radix."""
    return codes.astype(np.uint16) if codes.max() < 1 << 16 else codes


def write_bucket(
    meta: Metadata, schema: Schema, bucket: Bucket, tables: Iterable[pa.Table], base: BucketState | None, choose: Choose | None
) -> CommitMessage | None:
    """Write sorted, folded rows (a list if they are in memory) as the level-0 run of one commit and, with `choose`, compact the
    bucket at once.

    `base`: the bucket as of the snapshot the compaction starts from (`None` = no such bucket yet).
    """
    total = schema.parsed_options.bucket
    kept: list[pa.Table] = []
    remembered = (_remember(table, schema, kept) for table in tables) if choose else tables
    files = write_run(meta.env, meta.paths, schema, bucket, remembered, Origin(0, APPEND), _nan_columns(tables, schema))
    if not files:
        return None
    append = Change(bucket, total, added=files)
    message = CommitMessage(
        bucket, append, rows=sum(f.rows for f in files), written=tuple(meta.paths.data(bucket, f.name) for f in files)
    )
    if choose is None:
        return message
    try:
        return _compacted(meta, schema, message, base or BucketState(bucket, total), choose, _by_file(files, kept))
    except BaseException:
        meta.delete_quietly(message.written)
        raise


def _remember(table: pa.Table, schema: Schema, kept: list[pa.Table]) -> pa.Table:
    """Keep the keys of rows on their way to disk: compaction needs them next."""
    kept.append(table.select([name for name in (*schema.key, ROW_KIND) if name in table.column_names]))
    return table


def _nan_columns(tables: Iterable[pa.Table], schema: Schema) -> set[str]:
    """Float columns that may hold a NaN: exact if the rows are in memory."""
    if isinstance(tables, list):
        return {name for table in tables for name in nan_columns(table)}
    return {field.name for field in schema.columns if pa.types.is_floating(field.type)}


def _by_file(files: Sequence[DataFile], kept: Sequence[pa.Table]) -> dict[str, pa.Table]:
    """The remembered keys cut where the writer began a new file."""
    table, start, result = pa.concat_tables(kept), 0, {}
    for file in files:
        result[file.name] = table.slice(start, file.rows)
        start += file.rows
    return result


def _compacted(
    meta: Metadata, schema: Schema, message: CommitMessage, base: BucketState, choose: Choose, own: dict[str, pa.Table]
) -> CommitMessage:
    compacted = compact_bucket(meta, schema, base, choose, own, message.append.added)
    if compacted is None or (compacted.compact.added == message.append.added and not compacted.compact.removed):
        return message
    return replace(message, compact=compacted.compact, written=message.written + compacted.written)
