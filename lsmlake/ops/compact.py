"""Compaction of one bucket: carry out what `lsm.pick` chose and describe the outcome as a `Change`. Nothing is published here.

For every chosen compaction, until none is chosen:

1. look the keys of the level-0 inputs up in the live files at level >= 1 that are no inputs; what is found is dead from now on;
2. upgrade files that need no merge: their level changes, their own delete rows are marked;
3. merge the others section by section, a window of the key space at a time, without the dead rows and the deletes;
4. write the vectors that changed into one Puffin file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import COMPACT, Bucket, BucketState, Change, CommitMessage, DataFile, VectorRef
from lsmlake.format.rowkind import is_retract
from lsmlake.format.schema import ROW_KIND, Schema
from lsmlake.lsm.keys import comparable
from lsmlake.lsm.levels import Levels, recency
from lsmlake.lsm.merge.deduplicate import merge_runs, newest, without_deletes
from lsmlake.lsm.merge.windows import Run, merge_windows
from lsmlake.lsm.pick import Compaction, Rewrite, plan_task
from lsmlake.ops.lookup import find_positions
from lsmlake.store.data_file import DataReader, Origin, living, nan_columns_of, write_run
from lsmlake.store.metadata import Metadata

_LOOKUP_ROWS = 1 << 22  # level-0 keys looked up at once
_PICKS_MAX = 64  # compactions of one bucket in one commit; each makes the tree smaller, so this is never reached
_THREADS = 2

Choose = Callable[[Levels], "Compaction | None"]


@dataclass
class _Bucket:
    """The bucket while it is being compacted: `files` and `vectors` change, `base` does not."""

    base: BucketState
    files: dict[str, DataFile]
    refs: Mapping[str, VectorRef]
    vectors: dict[str, DeletionVector] = field(default_factory=dict)  # changed or read so far
    changed: set[str] = field(default_factory=set)
    written: list[DataFile] = field(default_factory=list)

    def dead(self) -> dict[str, int]:
        known = {name: ref.cardinality for name, ref in self.refs.items()}
        return known | {name: len(vector) for name, vector in self.vectors.items()}

    def mark(self, name: str, positions: np.ndarray, current: DeletionVector) -> None:
        vector = current | DeletionVector.of(positions)
        if len(vector) > len(current):
            self.vectors[name] = vector
            self.changed.add(name)

    def remove(self, name: str) -> None:
        del self.files[name]
        self.vectors.pop(name, None)
        self.changed.discard(name)


def compact_bucket(
    meta: Metadata,
    schema: Schema,
    state: BucketState,
    choose: Choose,
    own: Mapping[str, pa.Table] = {},
    own_files: Iterable[DataFile] = (),
) -> CommitMessage | None:
    """Compact until `choose` is content. `own_files`: level-0 files written but not yet committed, whose rows are in `own` by
    name (key columns and maybe `_row_kind`), so they need not be read again. Returns `None` if there was nothing to do."""
    work = _Bucket(state, {f.name: f for f in (*state.files, *own_files)}, state.vectors)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in range(_PICKS_MAX):
                levels = Levels.of(work.files.values(), work.dead())
                chosen = choose(levels)
                if chosen is None:
                    break
                _carry_out(_Task(meta, schema, work, own, pool), chosen, levels)
        return _message(meta, work)
    except BaseException:
        meta.delete_quietly(meta.paths.data(state.bucket, file.name) for file in work.written)
        raise


@dataclass(frozen=True)
class _Task:
    meta: Metadata
    schema: Schema
    work: _Bucket
    own: Mapping[str, pa.Table]
    pool: ThreadPoolExecutor

    @property
    def bucket(self) -> Bucket:
        return self.work.base.bucket

    def vector(self, name: str) -> DeletionVector:
        """As it stands now, this compaction's marks included."""
        work = self.work
        if name not in work.vectors:
            work.vectors[name] = self.meta.vector(work.refs[name]) if name in work.refs else EMPTY
        return work.vectors[name]

    def reader(self, file: DataFile) -> DataReader:
        return DataReader(self.meta.env, self.meta.paths.data(self.bucket, file.name), file, self.schema)


def _carry_out(task: _Task, chosen: Compaction, levels: Levels) -> None:
    work, options = task.work, task.schema.parsed_options
    steps = plan_task(chosen, levels, target_file_bytes=options.target_file_bytes, vectors=True)
    _mark_superseded(task, chosen)
    for file in steps.dropped:
        work.remove(file.name)
    for upgrade in steps.upgrades:
        _upgrade(task, upgrade.file, upgrade.level)
    for rewrite in steps.rewrites:
        outputs = _rewrite(task, rewrite, chosen.output_level)
        for file in rewrite.files:
            work.remove(file.name)
        work.files.update({file.name: file for file in outputs})
        work.written.extend(outputs)


def _mark_superseded(task: _Task, chosen: Compaction) -> None:
    """Step 1: what the level-0 inputs supersede in files that are not merged with them."""
    inputs = {file.name for file in chosen.inputs}
    targets = [file for file in task.work.files.values() if file.level > 0 and file.name not in inputs]
    waiting = [file for file in chosen.inputs if file.level == 0]
    if not targets or not waiting:
        return
    for keys in _key_batches(task, waiting):
        for name, positions in find_positions(task.meta, task.schema, task.bucket, keys, targets).items():
            task.work.mark(name, positions, task.vector(name))


def _key_batches(task: _Task, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """The keys of level-0 files, ascending and unique in each batch."""
    batch: list[pa.Table] = []
    for file in files:
        batch.append(_keys(task, file))
        if sum(keys.num_rows for keys in batch) >= _LOOKUP_ROWS:
            yield _distinct(batch)
            batch = []
    if batch:
        yield _distinct(batch)


def _distinct(batch: list[pa.Table]) -> pa.Table:
    if len(batch) == 1:
        return batch[0]
    return pa.concat_tables(batch).take(newest(comparable(batch)))


def _keys(task: _Task, file: DataFile) -> pa.Table:
    if file.name in task.own:
        return task.own[file.name].select(task.schema.key)
    with task.reader(file) as reader:
        return reader.read(range(reader.groups), task.schema.key)


def _upgrade(task: _Task, file: DataFile, level: int) -> None:
    """Step 2. A file whose rows are all deletes has done its work and goes."""
    if file.delete_rows:
        if file.delete_rows == file.rows:
            task.work.remove(file.name)
            return
        task.work.mark(file.name, _delete_positions(task, file), task.vector(file.name))
    task.work.files[file.name] = file.at_level(level)


def _delete_positions(task: _Task, file: DataFile) -> np.ndarray:
    if file.name in task.own:
        kinds = task.own[file.name][ROW_KIND]
    else:
        with task.reader(file) as reader:
            kinds = reader.read(range(reader.groups), [ROW_KIND])[ROW_KIND]
    return np.flatnonzero(np.asarray(is_retract(kinds)))


def _rewrite(task: _Task, rewrite: Rewrite, level: int) -> tuple[DataFile, ...]:
    """Step 3."""
    files = rewrite.files
    tables = _ahead(chain.from_iterable(_merged(task, section.files) for section in rewrite.sections), task.pool)
    return write_run(
        task.meta.env,
        task.meta.paths,
        task.schema,
        task.bucket,
        tables,
        _origin(files, level),
        nan_columns_of(files, task.schema),
    )


def _ahead(tables: Iterator[pa.Table], pool: ThreadPoolExecutor) -> Iterator[pa.Table]:
    """The same tables, the next one being merged while this one is written."""
    coming = pool.submit(next, tables, None)
    while (table := coming.result()) is not None:
        coming = pool.submit(next, tables, None)
        yield table


def _origin(files: Iterable[DataFile], level: int) -> Origin:
    """Outputs are as new as their newest input; a file not yet committed is the newest of all."""
    newest_of = [file.sequence for file in files]
    oldest_of = [file.min_sequence for file in files if file.min_sequence is not None]
    return Origin(level, COMPACT, None if None in newest_of else max(newest_of), min(oldest_of, default=None))


def _merged(task: _Task, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """The rows of one section that stand, in key order."""
    ordered = sorted(files, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = []
    for _, group in groupby(ordered, key=recency):
        run = sorted(group, key=lambda file: file.min_key)
        runs.append(Run(chain.from_iterable(_live_chunks(task, file) for file in run), sum(file.rows for file in run)))
    merge = partial(merge_runs, key=task.schema.key, pool=task.pool)
    for table in merge_windows(runs, task.schema.key, merge):
        yield without_deletes(table)


def _live_chunks(task: _Task, file: DataFile) -> Iterator[pa.Table]:
    names = task.schema.columns.names
    with task.reader(file) as reader:
        columns = [*names, ROW_KIND] if reader.has_row_kind and file.level == 0 else names
        for chunk in reader.stream(columns):
            yield living(chunk, task.vector(file.name))


def _message(meta: Metadata, work: _Bucket) -> CommitMessage | None:
    base = {file.name: file for file in work.base.files}
    removed = tuple(file for name, file in base.items() if work.files.get(name) != file)
    added = tuple(file for name, file in work.files.items() if base.get(name) != file)
    if not removed and not added and not work.changed:
        return None
    refs = meta.put_vectors({name: work.vectors[name] for name in sorted(work.changed)})
    puffins = {meta.paths.puffin(ref.puffin) for ref in refs.values()}
    written = (*(meta.paths.data(work.base.bucket, file.name) for file in work.written), *puffins)
    change = Change(work.base.bucket, work.base.total_buckets, added, removed, refs, work.base)
    return CommitMessage(work.base.bucket, compact=change, written=written)
