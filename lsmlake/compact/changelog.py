"""The changelog of a compaction: what it makes visible, a window of keys at a time.

A changelog tells how a view of the table changes. Under `changelog-producer = lookup` that is what stands above level 0; under
`full-compaction` what stands at the last level. A compaction changes a view only at the keys of the files it brings into it:

1. the keys of those files, ascending, each once;
2. the rows that stood at these keys in the view before, and those that stand there now - found by lookup, dead rows left out;
3. their difference (`lsm.difference`), written as a file of its own.

So it does not matter how a compaction came to its result, nor in how many steps, nor what the merge rule is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain

import pyarrow as pa

from lsmlake.compact.work import Work
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import COMPACT, DataFile
from lsmlake.lsm.difference import difference
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rule import Old
from lsmlake.lsm.merge.runs import distinct, merge_runs
from lsmlake.lsm.merge.windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.pick.compaction import last_level_of
from lsmlake.lsm.row_kinds import without_deletes
from lsmlake.options.changelog import FULL_COMPACTION, INPUT, NONE
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.store.data_writer import CHANGELOG, Origin, float_columns, write_run
from lsmlake.store.lookup import fetch, find

_WINDOW_BYTES = 4 << 20  # of keys; their rows are in memory twice
_OWN_ROWS = 1 << 18

View = Callable[[DataFile], bool]


def write_changelog(work: Work) -> tuple[DataFile, ...]:
    """The changelog files of what `work` has come to; none if compaction is not the table's producer or brought nothing into
    view."""
    producer = work.schema.parsed_options.changelog.producer
    if producer in (NONE, INPUT):
        return ()
    first = Levels.of((*work.base.files, *work.waiting))
    last = last_level_of(work.schema.parsed_options.compaction, first)
    visible: View = (lambda file: file.level == last) if producer == FULL_COMPACTION else (lambda file: file.level > 0)
    came = [f for f in first.files if work.remade or (not visible(f) and _in_view(work.files.get(f.name), visible))]
    before = [file for file in work.base.files if visible(file)]
    after = [file for file in work.files.values() if visible(file)]
    if not came or (producer == FULL_COMPACTION and before == after):
        return ()
    vectors = {file.name: work.base_vector(file.name) for file in before}
    tables = _changes(work, came, (before, vectors.__getitem__), (after, work.vector))
    origin = Origin(0, COMPACT)
    return write_run(
        work.meta.env, work.meta.paths, work.schema, work.bucket, tables, origin, float_columns(work.schema), CHANGELOG
    )


def _in_view(now: DataFile | None, visible: View) -> bool:
    """Whether the rows of a file that was not are: it has moved, or is gone into others."""
    return now is None or visible(now)


Side = tuple[Collection[DataFile], Callable[[str], DeletionVector]]


def _changes(work: Work, came: Iterable[DataFile], before: Side, after: Side) -> Iterator[pa.Table]:
    compared = work.schema.columns.names if work.remade else compared_columns(work.schema, work.rule.old)
    for keys in _keys(work, came):
        old, new = (_standing(work, keys, *side) for side in (before, after))
        yield difference(old, new, work.schema.key, compared)


def compared_columns(schema: Schema, old: Old) -> Collection[str] | None:
    """The columns in which rows must differ to be a change; `None` if a row written again is one. Where the first row stays,
    later ones change nothing."""
    options = schema.parsed_options
    if old is Old.STAYS:
        return ()
    if not options.changelog.deduplicate:
        return None
    return [name for name in schema.columns.names if name not in options.changelog.ignored_columns]


def _keys(work: Work, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """The keys of the files in ascending windows, each key once."""
    key = work.schema.key
    runs = [
        RunReader(whole_keys(chain.from_iterable(_key_chunks(work, file) for file in run.files), key), run.rows)
        for run in Levels.of(files).runs
    ]
    yield from merge_windows(runs, key, distinct, _WINDOW_BYTES)


def _key_chunks(work: Work, file: DataFile) -> Iterator[pa.Table]:
    key = work.schema.key
    if file.name in work.own:
        own = work.rows(file, key)
        yield from (own.slice(start, _OWN_ROWS) for start in range(0, own.num_rows, _OWN_ROWS))
        return
    with work.reader(file) as reader:
        for chunk in reader.stream(key):
            yield chunk.table


def _standing(work: Work, keys: pa.Table, files: Collection[DataFile], vector: Callable[[str], DeletionVector]) -> pa.Table:
    """The rows that stand in `files` at `keys`, all columns."""
    columns, merging = work.schema.columns.names, not work.schema.parsed_options.layout.deletion_vectors
    runs = [work.schema.row_columns.empty_table()]
    for run in reversed(Levels.of(files).runs):
        found: list[pa.Table] = []
        hits = find(work.meta, work.schema, keys, run.files, repeats=merging)
        for file in run.files:
            if file.name not in hits:
                continue
            positions = hits[file.name].positions
            standing = positions[vector(file.name).alive(positions)]
            wanted = [*columns, ROW_KIND] if merging and file.delete_rows else columns
            found += fetch(work.meta, work.schema, file, standing, wanted)
        if found:
            runs.append(pa.concat_tables(found, promote_options="default"))
    if merging:
        return without_deletes(merge_runs(runs, work.schema.key, work.rule))
    return pa.concat_tables(runs)
