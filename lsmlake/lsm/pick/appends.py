"""Chooses the files of an append-only bucket that a compaction rewrites. Pure.

A file is rewritten if too many of its rows are dead. Small files are rewritten together once there are enough of them. With
clustering columns, a full compaction rewrites the whole bucket unless compactions wrote all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lsmlake.format.files import COMPACT, DataFile
from lsmlake.options.appends import AppendOptions

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
        full: Rewrite every file with dead rows or without an index that it would get, and small files if there are at least two.
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
