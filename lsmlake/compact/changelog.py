"""Writes the changelog of a compaction: the row changes that it makes visible, one window of keys at a time.

The changelog records the changes of a view of the table: the levels >= 1 with `changelog-producer = lookup`, the last level with
`full-compaction`. A compaction changes the view only at the keys of files that enter it:

1. Read the keys of those files, ascending and distinct.
2. Look up the live rows with these keys in the view before and after the compaction.
3. Write their difference (`lsm.difference`) to changelog files.

So the changelog depends neither on the steps of the compaction nor on the merge rule. In a table whose keys move between
partitions the writers write it (`write.key_places`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from lsmlake.compact.compaction_state import CompactionState
from lsmlake.files.data_writer import CHANGELOG, Origin, float_columns
from lsmlake.format.data_files import COMPACT, DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.lsm.difference import difference
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import OldRow, distinct, merge_runs
from lsmlake.lsm.pick.picked import last_level_of
from lsmlake.options.changelog_options import FULL_COMPACTION, INPUT, NONE
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


def _changes(work: CompactionState, entered: Iterable[DataFile], before: Side, after: Side) -> Iterator[pa.Table]:
    compared = work.schema.columns.names if work.rows_changed else compared_columns(work.schema, work.rule.old_row)
    for keys in _keys(work, entered):
        old, new = (_live_rows_of(work, keys, *side) for side in (before, after))
        yield difference(old, new, work.schema.key, compared)


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
    yield from merge_windows(runs, key, distinct, work.meta.env.limits.changelog_window_bytes)


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
    work: CompactionState, keys: pa.Table, files: Collection[DataFile], vector: Callable[[str], DeletionVector]
) -> pa.Table:
    """Returns the live rows of `keys` in `files`, all columns."""
    columns, merging = work.schema.columns.names, not work.schema.parsed_options.layout.deletion_vectors
    runs = [work.schema.row_columns.empty_table()]
    for run in reversed(Levels.of(files).runs):
        live_rows: list[pa.Table] = []
        hits = work.bucket_files.find(keys, run.files, repeats=merging)
        for file in run.files:
            if file.name not in hits:
                continue
            positions = hits[file.name].positions
            live = positions[vector(file.name).live_mask(positions)]
            wanted = [*columns, ROW_KIND] if merging and file.delete_rows else columns
            live_rows += work.bucket_files.fetch(file, live, wanted)
        if live_rows:
            runs.append(pa.concat_tables(with_kinds(live_rows)))
    if merging:
        return without_deletes(merge_runs(runs, work.schema.key, work.rule))
    return pa.concat_tables(runs)
