"""Finds the rows of a bucket that its level-0 rows supersede: the vectors that a compaction would write.

If the newest row of a key replaces the others as a whole, a fresh read needs only these vectors: it scans the files of all levels
unmerged and skips the dead rows. Only keys are read to find them. The vectors of a split stay in the cache of the table handle,
so the next read of the same version is a raw read. Of level-0 files without a key that another file can hold, nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.levels import recency, sections
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.read.plan import Split
from lsmlake.schema.rowkind import is_retract
from lsmlake.schema.schema import ROW_KIND

_POSITION_BYTES = 4  # of a dead row; fewer if many dead rows are near each other

Dead = Mapping[str, DeletionVector]
"""File -> its dead rows, for each file of a split at any level."""


def reads_level0_as_it_is(split: Split, rule: MergeRule) -> bool:
    """Whether the rows of a split are those of its files without the dead rows, so that none must be merged."""
    return bool(split.level0) and rule.old_row is OldRow.REPLACED and not rule.retains


def is_settled(split: Split, rule: MergeRule) -> bool:
    """Whether the rows of a split are known to be those of its files without the rows that vectors mark: without level 0, or
    because no level-0 file can have a key in common with another file."""
    return not split.level0 or (reads_level0_as_it_is(split, rule) and not _meeting(split))


def _meeting(split: Split) -> list[DataFile]:
    """The level-0 files whose keys must be read: those whose range of keys meets that of another file, and those that may hold
    deletes or several rows of a key."""
    met: set[str] = set()
    for section in sections((*split.files, *split.lookup_files, *split.level0)):
        if len(section.files) > 1:
            met.update(file.name for file in section.files)
    return [file for file in split.level0 if file.name in met or file.delete_rows or not file.sorted]


def dead_rows(files: BucketFiles, split: Split, rule: MergeRule) -> Dead:
    """The dead rows of a split that `reads_level0_as_it_is`."""
    older = tuple(file.name for file in (*split.files, *split.lookup_files))
    level0 = tuple(file.name for file in split.level0)
    key = files.meta.paths.root, "dead", files.schema.id, older, level0, tuple(split.vectors.items())
    return files.meta.files.cache.get(key, partial(_dead_rows, files, split, rule), _bytes)


def _bytes(dead: Dead) -> int:
    return sum(512 + _POSITION_BYTES * len(vector) for vector in dead.values())


def _dead_rows(files: BucketFiles, split: Split, rule: MergeRule) -> Dead:
    key, level0 = files.schema.key, _meeting(split)
    older = {file.name: file for file in sorted((*split.files, *split.lookup_files), key=lambda file: (file.level, file.min_key))}
    stored = files.meta.vectors.read(split.vectors, tuple(older.values()))
    dead = dict.fromkeys((file.name for file in split.level0), EMPTY) | {name: stored.get(name, EMPTY) for name in older}
    if not level0:
        return dead
    oldest_first = sorted(level0, key=lambda file: (recency(file), file.min_key), reverse=True)
    ordered = [file for _, run in groupby(oldest_first, key=recency) for file in sorted(run, key=lambda file: file.min_key)]
    tables = [_keys(files, file) for file in ordered]
    keys = [table.select(key) for table in tables]
    groups = group(np.concatenate(comparable(keys)))
    newest = np.zeros(sum(table.num_rows for table in tables), bool)
    newest[groups.last] = True
    start = 0
    for file, table in zip(ordered, tables, strict=True):
        live = newest[start : start + table.num_rows]
        if ROW_KIND in table.column_names:
            live = live & ~np.asarray(is_retract(table[ROW_KIND]))
        dead[file.name] = EMPTY if live.all() else DeletionVector.of(np.flatnonzero(~live))
        start += table.num_rows
    wanted = pa.concat_tables(keys).take(pa.array(groups.first))
    for name, hits in files.find(wanted, tuple(older.values()), repeats=rule.repeats_keys).items():
        dead[name] |= DeletionVector.of(hits.positions)
    return dead


def _keys(files: BucketFiles, file: DataFile) -> pa.Table:
    """The keys of a level-0 file, with `_row_kind` if it is stored."""
    with files.open(file) as reader:
        names = [*files.schema.key, *([ROW_KIND] if reader.has_row_kind else [])]
        return reader.read(range(reader.groups), names)
