"""Compaction of one bucket: carry out what `lsm.pick` picked and return the outcome as a `BucketEdit`. Publishes nothing.

For every picked compaction, until none is picked:

1. look the keys of the level-0 inputs up in the live files at level >= 1 that are no inputs (`compact.supersede`);
2. upgrade files that need no merge: their level changes, their own delete rows are marked;
3. merge the others section by section, a window of the key space at a time, without the dead rows and the deletes, with the rows
   from above that join them;
4. write the vectors that changed into one Puffin file, and the changelog if compaction makes it (`compact.changelog`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lsmlake.compact.changelog import write_changelog
from lsmlake.compact.supersede import Joining, supersede
from lsmlake.compact.work import Work, kinds
from lsmlake.errors import InvalidData
from lsmlake.format.files import COMPACT, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.lsm.levels import Levels, recency
from lsmlake.lsm.merge.blame import Unmergeable, bucket_text, located, table_text
from lsmlake.lsm.merge.rule import MergeRule, Old
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.merge.runs import check_each, merge_runs
from lsmlake.lsm.merge.windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.pick import Compaction, Rewrite, plan_task
from lsmlake.lsm.pick.compaction import last_level_of
from lsmlake.lsm.row_expiry import RowExpiry
from lsmlake.lsm.row_kinds import with_kind, with_kinds, without_deletes
from lsmlake.lsm.sections import Section
from lsmlake.schema.rowkind import DELETE, INSERT, plain
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.store.data_reader import Chunk, living
from lsmlake.store.data_writer import Origin, float_columns, nan_columns_of, write_run
from lsmlake.store.metadata import Metadata

_PICKS_MAX = 64  # compactions of one bucket in one commit; each makes the tree smaller, so this is never reached
_THREADS = 2

Picker = Callable[[Levels], "Compaction | None"]


def compact_bucket(
    meta: Metadata,
    schema: Schema,
    state: BucketState,
    pick: Picker,
    own: Mapping[str, pa.Table] = {},
    own_files: Iterable[DataFile] = (),
    becoming: Schema | None = None,
) -> CommitMessage | None:
    """Compact until `pick` is content. `own_files`: level-0 files written but not yet committed; of their rows `own` has by
    name what `compact.work` asks for, so they need not be read again. `becoming`: see `compact.job.Goal`; `pick` must lead to
    one run. Returns `None` if there was nothing to do. Raises Unmergeable, and InvalidData for a row that `becoming` refuses."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting = tuple(own_files)
        files = {f.name: f for f in (*state.files, *waiting)}
        work = Work(meta, schema, rule_of(schema, meta.paths.root), state, waiting, own, pool, files)
        try:
            with located(meta.paths.root, state.bucket):
                for _ in range(_PICKS_MAX):
                    picked = pick(work.levels())
                    if picked is None:
                        break
                    _carry_out(work, picked)
            if becoming is not None and remakes_rows(schema, becoming):
                _remake(work, rule_of(becoming, meta.paths.root))
            with located(meta.paths.root, state.bucket):
                changelog = write_changelog(work)  # by the levels of `schema`
            work.written.extend(changelog)
            if becoming is not None:
                level = last_level_of(becoming.parsed_options.compaction, work.levels())
                work.files.update({name: file.at_level(level) for name, file in work.files.items()})
            return _message(work, changelog)
        except BaseException:
            meta.delete_quietly(meta.paths.data(file) for file in work.written)
            raise


def _carry_out(work: Work, picked: Compaction) -> None:
    options = work.schema.parsed_options
    joining = supersede(work, picked) if options.layout.deletion_vectors else Joining()
    expiry = RowExpiry.of(work.schema, work.meta.env.clock())
    steps = plan_task(
        picked,
        work.levels(),
        target_file_bytes=options.files.target_bytes,
        vectors=options.layout.deletion_vectors,
        rewrite_level0=options.layout.deletion_vectors and (bool(joining) or _rows_wait(work, picked)),
        forced={file.name for file in picked.inputs if expiry and expiry.concerns(file)},
    )
    for file in steps.dropped:
        work.remove(file.name)
    for upgrade in steps.upgrades:
        _upgrade(work, upgrade.file, upgrade.level)
    for rewrite in steps.rewrites:
        outputs = _rewrite(work, rewrite, picked.output_level, joining, expiry, complete=steps.drop_deletes)
        for file in rewrite.files:
            work.remove(file.name)
        work.files.update({file.name: file for file in outputs})
        work.written.extend(outputs)


def remakes_rows(schema: Schema, becoming: Schema) -> bool:
    """Whether the merge rule of `becoming` may make other rows of those it finds."""
    rule = rule_of(becoming)
    return rule != rule_of(schema) and rule.old is Old.JOINS


def _remake(work: Work, rule: MergeRule) -> None:
    """Make every row what another rule makes of it alone. Raises InvalidData for rows that this rule could never merge."""
    files = sorted(work.files.values(), key=lambda file: file.min_key)
    if not files:
        return
    chunks = (living(chunk, work.vector(file.name)) for file in files for chunk in _stream(work, file, work.schema.columns.names))
    made = (_made_alone(work, rows, rule) for rows in chunks if rows.num_rows)
    tables = map(without_deletes, made)
    origin = _origin(files, files[0].level)
    written = write_run(work.meta.env, work.meta.paths, work.schema, work.bucket, tables, origin, float_columns(work.schema))
    for file in files:
        work.remove(file.name)
    work.files.update({file.name: file for file in written})
    work.written.extend(written)
    work.remade = True


def _made_alone(work: Work, rows: pa.Table, rule: MergeRule) -> pa.Table:
    key = work.schema.key
    try:
        check_each(rule, rows, key)
        return merge_runs([with_kind(rows, INSERT)], key, rule)
    except Unmergeable as error:
        table = table_text(work.meta.paths.root)
        raise InvalidData(
            f"the new options do not accept rows of the table: {error.what}",
            where=f"{bucket_text(table, work.bucket)}, {error.where}",
            expected=error.expected,
            found=error.found,
            cure="erase these keys with delete_keys(..., ignore_sequence=True), upsert other values and then alter the table, or "
            "leave the options as they are",
        ) from error


def _stream(work: Work, file: DataFile, columns: Sequence[str]) -> Iterator[Chunk]:
    with work.reader(file) as reader:
        yield from reader.stream(columns)


def _rows_wait(work: Work, picked: Compaction) -> bool:
    """Whether the inputs hold rows that wait uncombined, so that they must be merged even if no older row is found."""
    return work.rule.old is Old.JOINS and any(file.delete_rows for file in picked.inputs)


def _upgrade(work: Work, file: DataFile, level: int) -> None:
    """Step 2. A file whose rows are all deletes has done its work and goes. (Without vectors deletes go on deleting.)"""
    if file.delete_rows and work.schema.parsed_options.layout.deletion_vectors:
        gone = plain(kinds(work, file)) == DELETE
        if gone.all():
            work.remove(file.name)
            return
        work.mark(file.name, np.flatnonzero(gone))
    work.files[file.name] = file.at_level(level)


def _rewrite(
    work: Work, rewrite: Rewrite, level: int, joining: Joining, expiry: RowExpiry | None, *, complete: bool
) -> tuple[DataFile, ...]:
    """Step 3. Unless the rows are `complete`, that is, no older file holds their keys, the output keeps -U, -D and expired rows:
    they hide older rows."""
    files = rewrite.files
    merged = chain.from_iterable(_merged(work, section, joining, complete) for section in rewrite.sections)
    if complete:
        merged = map(without_deletes, merged)
        merged = map(expiry.kept, merged) if expiry else merged
    elif any(file.delete_rows for file in files):
        merged = (table for part in merged for table in with_kinds([part], always=True))
    tables = _ahead(merged, work.pool)
    made = work.rule.old is Old.JOINS  # values that were in no file
    nan_columns = float_columns(work.schema) if made else nan_columns_of(files, work.schema)
    return write_run(work.meta.env, work.meta.paths, work.schema, work.bucket, tables, _origin(files, level), nan_columns)


def _ahead(tables: Iterator[pa.Table], pool: Executor) -> Iterator[pa.Table]:
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


def _merged(work: Work, section: Section, joining: Joining, complete: bool) -> Iterator[pa.Table]:
    """The rows of one section merged, in key order."""
    ordered = sorted(section.files, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = joining.runs(work, section)  # older than all
    for _, group in groupby(ordered, key=recency):
        run = sorted(group, key=lambda file: file.min_key)
        chunks = chain.from_iterable(_live_chunks(work, file) for file in run)
        repeats = work.rule.repeats_keys and any(file.delete_rows for file in run)
        runs.append(RunReader(whole_keys(chunks, work.schema.key) if repeats else chunks, sum(file.rows for file in run)))
    merge = partial(merge_runs, key=work.schema.key, rule=work.rule, pool=work.pool, complete=complete)
    yield from merge_windows(runs, work.schema.key, merge)


def _live_chunks(work: Work, file: DataFile) -> Iterator[pa.Table]:
    columns = [*work.schema.columns.names, *([ROW_KIND] if file.delete_rows else [])]
    for chunk in _stream(work, file, columns):
        yield living(chunk, work.vector(file.name))


def _message(work: Work, changelog: tuple[DataFile, ...]) -> CommitMessage | None:
    base = {file.name: file for file in work.base.files}
    removed = tuple(file for name, file in base.items() if work.files.get(name) != file)
    added = tuple(file for name, file in work.files.items() if base.get(name) != file)
    if not removed and not added and not work.changed:
        return None
    paths = work.meta.paths
    refs = work.meta.put_vectors({name: work.vectors[name] for name in sorted(work.changed)})
    puffins = {paths.puffin(ref.puffin) for ref in refs.values()}
    written = (*(paths.data(file) for file in work.written), *puffins)
    change = BucketEdit(work.bucket, work.base.total_buckets, added, removed, refs, work.base, changelog)
    return CommitMessage(work.bucket, compact=change, written=written)
