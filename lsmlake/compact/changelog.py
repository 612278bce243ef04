"""Writes the changelog of a compaction: the row changes that it makes visible, one window of keys at a time.

The changelog records the changes of a view of the table: the levels >= 1 with `changelog-producer = lookup`, the last level with
`full-compaction`. A compaction changes the view only at the keys of files that enter it:

1. Read the keys of those files, ascending and distinct.
2. Look up the live rows with these keys in the view before and after the compaction.
3. Write their difference (`lsm.difference`) to changelog files.

With `lookup`, if the merge rule always replaces the old row, the compaction itself has found most of these rows: the old ones are
those that it has marked as deleted. So only files that it has rewritten are searched, unless there are several windows.

So the changelog depends neither on the steps of the compaction nor on the merge rule. In a table whose keys move between
partitions the writers write it (`write.key_places`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from lsmlake.compact.compaction_state import CompactionState
from lsmlake.files.data_writer import CHANGELOG, Origin, float_columns
from lsmlake.format.data_files import COMPACT, DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.lsm.difference import difference
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.lookup import in_batches
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import OldRow, distinct, merge_runs
from lsmlake.lsm.pick.picked import last_level_of
from lsmlake.options.changelog_options import FULL_COMPACTION, INPUT, LOOKUP, NONE
from lsmlake.schema.rowkind import with_kinds, without_deletes
from lsmlake.schema.schema import ROW_KIND, Schema

_CACHED_ROWS = 1 << 18  # keys per chunk of cached rows

View = Callable[[DataFile], bool]


def write_changelog(work: CompactionState) -> tuple[DataFile, ...]:
    """Writes the changelog files of `work`. Returns none if compaction does not produce the changelog, or if no file entered the
    view."""
    producer = work.schema.parsed_options.changelog.producer
    if producer in (NONE, INPUT) or work.schema.moves_keys:
        return ()
    initial = Levels.of((*work.base.files, *work.uncommitted))
    last = last_level_of(work.schema.parsed_options.compaction, initial)
    visible: View = (lambda file: file.level == last) if producer == FULL_COMPACTION else (lambda file: file.level > 0)
    entered = [
        f for f in initial.files if work.rows_changed or (not visible(f) and _visible_now(work.files.get(f.name), visible))
    ]
    before = [file for file in work.base.files if visible(file)]
    after = [file for file in work.files.values() if visible(file)]
    if not entered or (producer == FULL_COMPACTION and before == after):
        return ()
    vectors = {file.name: work.base_vector(file.name) for file in before}
    tables = _changes(work, entered, (before, vectors.__getitem__), (after, work.vector))
    origin = Origin(0, COMPACT)
    return work.bucket_files.write(tables, origin, float_columns(work.schema), CHANGELOG)


def _visible_now(file: DataFile | None, visible: View) -> bool:
    """Whether the rows of an input are visible after the compaction: it was rewritten (None), or it moved to a visible level."""
    return file is None or visible(file)


Side = tuple[Collection[DataFile], Callable[[str], DeletionVector]]


def _changes(work: CompactionState, entered: Collection[DataFile], before: Side, after: Side) -> Iterator[pa.Table]:
    compared = work.schema.columns.names if work.rows_changed else compared_columns(work.schema, work.rule.old_row)
    windows = _keys(work, entered)
    first = list(islice(windows, 2))
    known = _known(work, entered, before, after) if len(first) == 1 and _marks_old_rows(work) else ({}, {})
    for keys in chain(first, windows):
        old, new = (_live_rows_of(work, keys, *side, places) for side, places in zip((before, after), known, strict=True))
        yield difference(old, new, work.schema.key, compared)


Positions = Mapping[str, np.ndarray]
"""File name -> the positions of all rows with one of the keys that are live in a view, ascending; and perhaps of dead rows."""


def _marks_old_rows(work: CompactionState) -> bool:
    """Whether all rows that the compaction marks in a file, beyond level 0, are the old rows of keys that enter the view, and no
    other row of these keys stays live in the file."""
    options = work.schema.parsed_options
    replaced = work.rule.old_row in (OldRow.REPLACED, OldRow.MERGED)
    return options.changelog.producer == LOOKUP and options.layout.deletion_vectors and replaced and not work.rows_changed


def _known(work: CompactionState, entered: Collection[DataFile], before: Side, after: Side) -> tuple[Positions, Positions]:
    """The positions before and after the compaction that need no search: in files that stay, if no delete row can be among the
    marked ones; and after it in files that entered as they were."""
    (old_files, old_vector), (new_files, new_vector) = before, after
    new_names = {file.name for file in new_files}
    stay = [file.name for file in old_files if file.name in new_names and not file.delete_rows]
    marked = {name: (new_vector(name) - old_vector(name)).positions() for name in stay}
    upgraded = {file.name: np.arange(file.rows) for file in entered if file.name in new_names}
    return marked, dict.fromkeys(stay, np.zeros(0, np.int64)) | upgraded


def compared_columns(schema: Schema, old_row: OldRow) -> Collection[str] | None:
    """Returns the argument `compared` of `difference`: an update is reported if one of these columns differs, None: always."""
    options = schema.parsed_options
    if old_row is OldRow.KEPT:  # a later row changes nothing
        return ()
    if not options.changelog.deduplicate:
        return None
    return [name for name in schema.columns.names if name not in options.changelog.ignored_columns]


def _keys(work: CompactionState, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """Yields the distinct keys of the files in ascending windows."""
    key = work.schema.key
    runs = []
    for run in Levels.of(files).runs:
        keys = work.in_key_order(run.files, (table for file in run.files for table in _key_chunks(work, file)))
        runs.append(RunReader(whole_keys(keys, key), run.rows))
    window_bytes = work.meta.env.limits.changelog_window_bytes
    windows = merge_windows(runs, key, distinct, window_bytes)  # the last key of a run is one of its own
    yield from map(pa.concat_tables, in_batches(windows, lambda keys: keys.nbytes, window_bytes))


def _key_chunks(work: CompactionState, file: DataFile) -> Iterator[pa.Table]:
    key = work.schema.key
    if file.name in work.cached_rows:
        keys = work.rows(file, key)
        yield from (keys.slice(start, _CACHED_ROWS) for start in range(0, keys.num_rows, _CACHED_ROWS))
        return
    with work.bucket_files.open(file) as reader:
        for chunk in reader.stream(key):
            yield chunk.table


def _live_rows_of(
    work: CompactionState,
    keys: pa.Table,
    files: Collection[DataFile],
    vector: Callable[[str], DeletionVector],
    known: Positions,
) -> pa.Table:
    """Returns the live rows of `keys` in `files`, all columns. Searches files that are not in `known`."""
    columns, merging = work.schema.columns.names, not work.schema.parsed_options.layout.deletion_vectors
    runs = [work.schema.row_columns.empty_table()]
    for run in reversed(Levels.of(files).runs):
        live_rows: list[pa.Table] = []
        hits = work.bucket_files.find(keys, [file for file in run.files if file.name not in known], repeats=merging)
        for file in run.files:
            if file.name not in hits and file.name not in known:
                continue
            positions = known[file.name] if file.name in known else hits[file.name].positions
            live = positions[vector(file.name).live_mask(positions)]
            wanted = [*columns, ROW_KIND] if merging and file.delete_rows else columns
            live_rows += work.fetch(file, live, wanted)
        if live_rows:
            runs.append(pa.concat_tables(with_kinds(live_rows)))
    if merging:
        return without_deletes(merge_runs(runs, work.schema.key, work.rule))
    return pa.concat_tables(runs)
