"""Compacts one bucket of an append-only table: rewrites the files that `files_to_rewrite` picks, without their dead rows. Commits
nothing.

A file is rewritten if too many of its rows are dead. Small files are rewritten together once there are enough of them. With
clustering columns, a full compaction rewrites the whole bucket unless compactions wrote all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lsmlake.compact.clustering import clustered, sampled
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import live_rows
from lsmlake.files.data_writer import Origin, nan_columns_of
from lsmlake.format.data_files import COMPACT, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import EMPTY
from lsmlake.options.compaction_options import AppendOptions

_SAMPLE_ROWS = 1 << 18


def files_to_rewrite(files: BucketFiles, state: BucketState, *, full: bool) -> tuple[DataFile, ...]:
    """Returns the files that a compaction of the bucket rewrites. Reads nothing."""
    options = files.schema.parsed_options
    dead = state.dead
    indexed = bool(options.index.columns)
    return pick_appends(state.files, dead, options.appends, options.files.target_bytes, full=full, indexed=indexed)


def compact_appends(files: BucketFiles, state: BucketState, *, full: bool) -> CommitMessage | None:
    """Compacts a bucket. Returns None if there was nothing to do."""
    picked = files_to_rewrite(files, state, full=full)
    if not picked:
        return None
    first = picked[0]
    newest = max(file.sequence or 0 for file in picked)
    oldest = min(file.min_sequence or 0 for file in picked)
    origin = Origin(first.level, COMPACT, newest, oldest)
    written = files.write(_rows(files, state, picked), origin, nan_columns_of(picked, files.schema))
    names = {file.name for file in picked}
    base = BucketState(
        state.bucket, state.total_buckets, picked, {name: ref for name, ref in state.vectors.items() if name in names}
    )
    edit = BucketEdit(state.bucket, state.total_buckets, written, picked, base=base, only_files=True)
    return CommitMessage(state.bucket, compact=edit, written=files.paths(written))


def _rows(files: BucketFiles, state: BucketState, picked: Sequence[DataFile]) -> Iterator[pa.Table]:
    """Yields the live rows of the files in the order in which they are written."""
    schema, options = files.schema, files.schema.parsed_options
    rows = _live(files, state, picked, schema.columns.names)
    columns = options.appends.clustering_columns
    if not columns:
        yield from rows
        return
    per_file = max(1, _SAMPLE_ROWS // len(picked))
    sample = pa.concat_tables([sampled([*_live(files, state, [file], columns)], per_file) for file in picked])
    yield from clustered(rows, sample, schema.row_columns, options.appends, options.write.buffer_bytes)


def _live(files: BucketFiles, state: BucketState, picked: Sequence[DataFile], columns: Sequence[str]) -> Iterator[pa.Table]:
    vectors = files.meta.vectors.read(state.vectors, picked)
    for file in picked:
        with files.open(file) as reader:
            for chunk in reader.stream(columns):
                rows = live_rows(chunk, vectors.get(file.name, EMPTY))
                if rows.num_rows:
                    yield rows


_SMALL = 0.7  # of the target size, as in Paimon


def pick_appends(
    files: Sequence[DataFile],
    dead: Mapping[str, int],
    options: AppendOptions,
    target_bytes: int,
    *,
    full: bool,
    indexed: bool = False,
) -> tuple[DataFile, ...]:
    """Returns the files to rewrite, in the order given; empty if there is nothing to do.

    Args:
        files: The live files of the bucket.
        dead: The number of dead rows by file name.
        options: The options of the table.
        target_bytes: The size of a full file.
        full: Rewrite every file with dead rows or without an index that a new file would get, and small files if there are at
            least two.
        indexed: New files get an index.
    """
    unclustered = full and options.clustering_columns and any(file.source != COMPACT for file in files)
    ratio, least = (0.0, 2) if full else (options.delete_ratio, options.min_files)
    worn = {file.name for file in files if dead.get(file.name, 0) > ratio * file.rows}
    small = {file.name for file in files if _live_bytes(file, dead) < _SMALL * target_bytes}
    if len(small) < least:
        small = set()
    bare = {file.name for file in files if full and indexed and file.index is None and file.index_bytes is None}
    return tuple(file for file in files if unclustered or file.name in worn | small | bare)


def _live_bytes(file: DataFile, dead: Mapping[str, int]) -> float:
    """Estimated bytes after a rewrite, if all rows have the same size."""
    return file.bytes * (1 - dead.get(file.name, 0) / max(file.rows, 1))
