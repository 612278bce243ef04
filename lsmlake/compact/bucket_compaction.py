"""Compacts one bucket: executes what `lsm.pick` picks and returns a `BucketEdit`. Commits nothing.

For each picked compaction, until none is picked:

1. Mark the level-0 rows that retained deletes ignore, and retain those of the level-0 inputs (`compact.retain`).
2. Look up the keys of the level-0 inputs in the live files at level >= 1 outside the inputs (`compact.supersede`).
3. Upgrade files that need no merge: change their level and mark their delete rows.
4. Merge the other files section by section, one window of the key space at a time. Deleted rows and delete rows are dropped;
   old rows that the lookup found are merged if the merge rule needs them.

Then write the changed vectors into one Puffin file, and the changelog if compaction produces it (`compact.changelog`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.compact.changelog import write_changelog
from lsmlake.compact.compaction_state import CompactionState, kinds
from lsmlake.compact.retain import drop_expired, retain
from lsmlake.compact.supersede import OldRows, supersede
from lsmlake.errors import InvalidData
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import Chunk, live_rows
from lsmlake.files.data_writer import Origin, float_columns, nan_columns_of
from lsmlake.files.retained import oldest_first
from lsmlake.format.data_files import COMPACT, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.lsm.levels import Levels, Section, recency
from lsmlake.lsm.merge.merge_errors import Unmergeable, bucket_text, located, table_text
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows, whole_keys
from lsmlake.lsm.merge.rule import MergeRule, OldRow, check_each, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick import Compaction, Rewrite, plan_task
from lsmlake.lsm.pick.picked import last_level_of
from lsmlake.lsm.row_expiry import RowExpiry
from lsmlake.schema.rowkind import INSERT, plain, retractions, with_kind, with_kinds, without_deletes
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.storage.concurrency import prefetched

_THREADS = 2
_MERGED_VECTOR_BYTES = 8 << 20
_SMALL_BYTES = 1 << 20

Picker = Callable[[Levels], "Compaction | None"]


def compact_bucket(
    files: BucketFiles,
    state: BucketState,
    pick: Picker,
    cached_rows: Mapping[str, pa.Table] = {},
    uncommitted_files: Iterable[DataFile] = (),
    becoming: Schema | None = None,
    *,
    reports: bool = True,
) -> CommitMessage | None:
    """Compacts a bucket until `pick` returns None. Returns None if there was nothing to do.

    Args:
        files: The data files of the bucket.
        state: The bucket to compact.
        pick: Picks the next compaction.
        cached_rows: By file name, the columns `lookup_columns`, and perhaps others, of uncommitted files, so they are not read
            again.
        uncommitted_files: Level-0 files that are written but not yet committed.
        becoming: See `compact.job.Goal`; `pick` must then lead to a single run.
        reports: Whether to write a changelog, if compaction produces it.

    Raises:
        Unmergeable: The rows of a key cannot be merged.
        InvalidData: The merge rule of `becoming` does not accept a row.
    """
    with Threads(_THREADS) as pool:
        uncommitted, schema, root = tuple(uncommitted_files), files.schema, files.meta.paths.root
        live = {file.name: file for file in (*state.files, *uncommitted)}
        work = CompactionState(
            files, rule_of(schema, root), state, uncommitted, cached_rows, pool, live, retained=oldest_first(state.retained)
        )
        try:
            with located(root, state.bucket):
                for _ in range(files.meta.env.limits.compactions):
                    picked = pick(work.levels())
                    if picked is None:
                        break
                    _execute(work, picked)
            drop_expired(work, becoming)
            if becoming is not None and changes_rows(schema, becoming):
                _apply_new_rule(work, rule_of(becoming, root))
            with located(root, state.bucket):
                changelog = write_changelog(work) if reports else ()  # with the levels of `schema`
            work.written.extend(changelog)
            if becoming is not None:
                level = last_level_of(becoming.parsed_options.compaction, work.levels())
                work.files.update({name: file.at_level(level) for name, file in work.files.items()})
            message = _message(work, changelog)
        except BaseException:
            files.delete(work.written)
            raise
        if message is None:  # no row is new: new rows were late, and their changelog says that nothing changes
            files.delete(work.written)
        return message


def _execute(work: CompactionState, picked: Compaction) -> None:
    options = work.schema.parsed_options
    ignoring = retain(work, picked)
    old_rows = supersede(work, picked) if options.layout.deletion_vectors else OldRows()
    expiry = RowExpiry.of(work.schema, work.meta.env.clock())
    steps = plan_task(
        picked,
        work.levels(),
        target_file_bytes=options.files.target_bytes,
        vectors=options.layout.deletion_vectors,
        rewrite_level0=options.layout.deletion_vectors and (bool(old_rows) or _has_uncombined_rows(work, picked)),
        forced={
            file.name
            for file in picked.inputs
            if (expiry and expiry.may_apply_to(file)) or (file.name in ignoring and not options.layout.deletion_vectors)
        },
    )
    for file in steps.dropped:
        work.remove(file.name)
    for upgrade in steps.upgrades:
        _upgrade(work, upgrade.file, upgrade.level)
    for rewrite in steps.rewrites:
        outputs = _rewrite(work, rewrite, picked.output_level, old_rows, expiry, complete=steps.drop_deletes)
        for file in rewrite.files:
            work.remove(file.name)
        work.files.update({file.name: file for file in outputs})
        work.written.extend(outputs)


def changes_rows(schema: Schema, becoming: Schema) -> bool:
    """Whether the merge rule of `becoming` may change the existing rows of the table."""
    rule = rule_of(becoming)
    return rule != rule_of(schema) and rule.old_row is OldRow.MERGED


def _apply_new_rule(work: CompactionState, rule: MergeRule) -> None:
    """Rewrites each row as the new rule merges it alone. Raises InvalidData for rows that the rule does not accept."""
    files = sorted(work.files.values(), key=lambda file: file.min_key)
    if not files:
        return
    columns = work.schema.columns.names
    chunks = (live_rows(chunk, work.vector(file.name)) for file in files for chunk in _stream(work, file, columns))
    made = (_merged_alone(work, rows, rule) for rows in chunks if rows.num_rows)
    tables = map(without_deletes, made)
    origin = _origin(files, files[0].level)
    written = work.bucket_files.write(tables, origin, float_columns(work.schema))
    for file in files:
        work.remove(file.name)
    work.files.update({file.name: file for file in written})
    work.written.extend(written)
    work.rows_changed = True


def _merged_alone(work: CompactionState, rows: pa.Table, rule: MergeRule) -> pa.Table:
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
            cure="erase these keys in Python with delete_keys(..., ignore_sequence=True), upsert other values and then alter the "
            "table, or keep the options",
        ) from error


def _stream(work: CompactionState, file: DataFile, columns: Sequence[str]) -> Iterator[Chunk]:
    with work.bucket_files.open(file) as reader:
        yield from reader.stream(columns)


def _has_uncombined_rows(work: CompactionState, picked: Compaction) -> bool:
    """Whether the inputs may hold uncombined rows. They must be merged even if the lookup finds no older row."""
    return work.rule.old_row is OldRow.MERGED and any(file.delete_rows for file in picked.inputs)


def _upgrade(work: CompactionState, file: DataFile, level: int) -> None:
    """Moves a file to `level` (step 3). With vectors, its delete rows are marked, since the rows they deleted are marked; a file
    that holds only delete rows is removed."""
    if file.delete_rows and work.schema.parsed_options.layout.deletion_vectors:
        deletes = retractions(plain(kinds(work, file)))
        if deletes.all():
            work.remove(file.name)
            return
        work.mark(file.name, np.flatnonzero(deletes))
    work.files[file.name] = file.at_level(level)


def _rewrite(
    work: CompactionState, rewrite: Rewrite, level: int, old_rows: OldRows, expiry: RowExpiry | None, *, complete: bool
) -> tuple[DataFile, ...]:
    """Merges files (step 4). If the rows are not `complete`, an older file may hold their keys; the output then keeps -U, -D and
    expired rows, because they hide older rows."""
    files = rewrite.files
    merged = chain.from_iterable(_merged(work, section, old_rows, complete) for section in rewrite.sections)
    if complete:
        merged = map(without_deletes, merged)
        merged = map(expiry.live_rows, merged) if expiry else merged
    elif any(file.delete_rows for file in files):
        merged = (table for part in merged for table in with_kinds([part], always=True))
    is_small = sum(file.bytes for file in files) <= _SMALL_BYTES  # of one window: there is nothing to merge ahead
    tables = prefetched(merged, work.pool) if work.meta.env.limits.merge_ahead and not is_small else merged
    new_values = work.rule.old_row is OldRow.MERGED  # merging may produce values, and so NaNs, that no input has
    nan_columns = float_columns(work.schema) if new_values else nan_columns_of(files, work.schema)
    return work.bucket_files.write(tables, _origin(files, level), nan_columns)


def _origin(files: Iterable[DataFile], level: int) -> Origin:
    """Outputs carry the highest sequence of their inputs; an uncommitted file (None) is the newest."""
    newest = [file.sequence for file in files]
    oldest = [file.min_sequence for file in files if file.min_sequence is not None]
    return Origin(level, COMPACT, None if None in newest else max(newest), min(oldest, default=None))


def _merged(work: CompactionState, section: Section, old_rows: OldRows, complete: bool) -> Iterator[pa.Table]:
    """Yields the merged rows of one section, in key order."""
    ordered = sorted(section.files, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = old_rows.runs(work, section)  # older than all inputs
    for _, group in groupby(ordered, key=recency):
        run = sorted(group, key=lambda file: file.min_key)
        chunks = work.in_key_order(run, (table for file in run for table in _live_chunks(work, file)))
        repeats = work.rule.repeats_keys and any(file.delete_rows for file in run)
        runs.append(RunReader(whole_keys(chunks, work.schema.key) if repeats else chunks, sum(file.rows for file in run)))
    merge = partial(merge_runs, key=work.schema.key, rule=work.rule, pool=work.pool, complete=complete)
    yield from merge_windows(runs, work.schema.key, merge, work.meta.env.limits.window_bytes)


def _live_chunks(work: CompactionState, file: DataFile) -> Iterator[pa.Table]:
    columns = [*work.schema.columns.names, *([ROW_KIND] if file.delete_rows else [])]
    for chunk in _stream(work, file, columns):
        yield live_rows(chunk, work.vector(file.name))


def _vectors_to_merge(work: CompactionState) -> dict[str, DeletionVector]:
    """Unchanged vectors of the bucket to write again together with the changed ones: the vectors of the smallest vector files, if
    the bucket's vectors would lie in `deletion-vectors.merge-min-count` files. The old vector file is deleted when the snapshots
    that name it expire."""
    kept: dict[str, list[str]] = {}
    for name, ref in work.base.vectors.items():
        if name in work.files and name not in work.changed:
            kept.setdefault(ref.puffin, []).append(name)
    if not work.changed or len(kept) + 1 < work.schema.parsed_options.layout.vector_files:
        return {}
    room, chosen = _MERGED_VECTOR_BYTES, []
    for names in sorted(kept.values(), key=lambda names: sum(work.base.vectors[name].length for name in names)):
        room -= sum(work.base.vectors[name].length for name in names)
        if room < 0:
            break
        chosen += names
    return work.meta.vectors.read_together(work.base.vectors, [work.files[name] for name in chosen])


def _message(work: CompactionState, changelog: tuple[DataFile, ...]) -> CommitMessage | None:
    base, now = {file.name: file for file in work.base.all_files}, work.files | {file.name: file for file in work.retained}
    removed = tuple(file for name, file in base.items() if now.get(name) != file)
    added = tuple(file for name, file in now.items() if base.get(name) != file)
    if not removed and not added and not work.changed:
        return None
    paths = work.meta.paths
    changed = {name: work.vectors[name] for name in work.changed}
    refs = work.meta.vectors.put(dict(sorted((_vectors_to_merge(work) | changed).items())))
    puffins = {paths.puffin(ref.puffin) for ref in refs.values()}
    written = (*(path for file in work.written for path in paths.with_index(file)), *puffins)
    edit = BucketEdit(work.bucket, work.base.total_buckets, added, removed, refs, work.base, changelog)
    return CommitMessage(work.bucket, compact=edit, written=written)
