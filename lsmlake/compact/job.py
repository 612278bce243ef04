"""The compaction job: compacts the buckets of a table and commits the result; repeats for buckets that conflicted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Committed, Identity, Request
from lsmlake.compact.appends import compact_appends, files_to_rewrite
from lsmlake.compact.bucket_compaction import Picker, compact_bucket
from lsmlake.compact.reshape import buckets_now, reshaped_as_needed
from lsmlake.compact.retain import has_expired
from lsmlake.errors import CommitConflict, SnapshotNotFound
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.divide import Divide
from lsmlake.files.divide import divide as divide_here
from lsmlake.format.data_files import DELETES, Bucket, BucketState, CommitMessage
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.strategy import as_needed, in_full, with_imports
from lsmlake.notebook import Shown
from lsmlake.options.option_types import AUTO
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import together
from lsmlake.storage.env import span
from lsmlake.tables.version import Metadata, Version

_log = logging.getLogger("lsmlake.compact")

_ROUNDS = 10


@dataclass(frozen=True)
class CompactionReport(Shown):
    """The result of a compaction.

    Attributes:
        snapshot_id: the last snapshot that the compaction published; None if there was nothing to do.
        buckets: the number of compacted buckets.
        files_in: the number of files that were replaced.
        files_out: the number of files that replace them.
        upgraded: the number of files that only changed their level; they count in `files_in` and `files_out`.
        rows: the number of rows written.
        bytes: the size of the written files, in bytes.
        marked: the number of rows newly marked as deleted.
    """

    snapshot_id: int | None = None
    buckets: int = 0
    files_in: int = 0
    files_out: int = 0
    upgraded: int = 0
    rows: int = 0
    bytes: int = 0
    marked: int = 0


@dataclass(frozen=True)
class Goal:
    """The goal of a compaction: the picks of the strategy, or one run per bucket (`full`). With `becoming`, the next schema of
    the table, the result fits that schema: files are at its last level and rows are as its merge rule makes them."""

    full: bool = False
    becoming: Schema | None = None


_SMALL_BYTES = 1 << 18  # of the files of a bucket
CompactBuckets = Callable[[Sequence[BucketState], Goal], "list[CommitMessage]"]


def compact_here(
    meta: Metadata, schema: Schema, watch: Callable[[Sequence[BucketState]], Iterable[BucketState]] = iter
) -> CompactBuckets:
    """Returns a function that compacts buckets in this process. `watch` passes the buckets on and may report progress."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        one = partial(compact_one, meta, schema, goal)
        return together(one, watch(states), _at_once(meta, states), meta.files.discard)

    return run


def _at_once(meta: Metadata, states: Sequence[BucketState]) -> int:
    """How many buckets to compact at once: where reads wait for no network, many small ones one by one, because most of their
    work is Python."""
    size, many = sum(file.bytes for state in states for file in state.files), len(states) > meta.env.workers
    return 1 if many and meta.env.storage.at_once == 1 and size <= _SMALL_BYTES * len(states) else meta.env.workers


def compact_one(meta: Metadata, schema: Schema, goal: Goal, state: BucketState) -> CommitMessage | None:
    """Compacts one bucket, of either kind of table. Returns None if there was nothing to do."""
    files = BucketFiles(meta, schema, state.bucket)
    if schema.append_only:
        return compact_appends(files, state, full=goal.full)
    return compact_bucket(files, state, picker_of(meta, schema, goal.full), becoming=goal.becoming)


def needs_compaction(meta: Metadata, schema: Schema, goal: Goal, state: BucketState) -> bool:
    """Whether `compact_one` would change the bucket. Reads nothing."""
    if schema.append_only:
        return bool(files_to_rewrite(BucketFiles(meta, schema, state.bucket), state, full=goal.full))
    dead = state.dead
    if goal.becoming is not None or any(has_expired(file, schema, meta.env.clock()) for file in state.retained):
        return True
    return picker_of(meta, schema, goal.full)(Levels.of(state.files, dead)) is not None


def picker_of(meta: Metadata, schema: Schema, full: bool) -> Picker:
    """Returns the picker of a compaction job. Only compaction jobs sort the files of another system; writers do not."""
    now_ms, options = meta.env.clock(), schema.parsed_options.compaction
    return in_full(schema, now_ms) if full else with_imports(as_needed(options, now_ms), options)


def compact_table(
    version: Version,
    run: CompactBuckets,
    wanted: Callable[[Bucket], bool],
    *,
    full: bool = False,
    divide: Divide = divide_here,
) -> CompactionReport:
    """Compacts the buckets for which `wanted` is true, the largest first. `run` compacts by the schema of `version`. Before
    that, splits and merges buckets as `bucket = auto` asks for; `divide` writes their files.

    Raises:
        CommitConflict: Other commits changed some of the buckets in each attempt, or the snapshot expired in each.
    """
    report, meta = CompactionReport(), version.meta
    begin_ms = meta.env.clock() if _log.isEnabledFor(logging.INFO) else None
    with span("compact", meta.paths.root) as note:
        while True:
            shaped = reshaped_as_needed(version, wanted, divide)
            if report.snapshot_id is not None and not shaped:
                break
            for committed in shaped:
                report = added(report, committed)
            if shaped:
                version = Version.latest(meta)
            before = report.snapshot_id
            report = _compacted(version, run, wanted, Goal(full), report)
            if report.snapshot_id == before or version.options.layout.buckets != AUTO:
                break
            version = Version.latest(meta)  # with fewer dead rows, buckets may be small enough to merge
        if report.snapshot_id is not None:
            note(**asdict(report))
    if begin_ms is not None and report.snapshot_id is not None:
        numbers = ", ".join(f"{name} {number}" for name, number in asdict(report).items())
        _log.info("%s: compacted in %d ms: %s", meta.paths.root, meta.env.clock() - begin_ms, numbers)
    return report


def compact_buckets(run: CompactBuckets, version: Version, buckets: Collection[Bucket], full: bool) -> None:
    """Compacts some buckets before they merge."""
    _compacted(version, run, buckets.__contains__, Goal(full), CompactionReport())


def _compacted(
    version: Version, run: CompactBuckets, wanted: Callable[[Bucket], bool], goal: Goal, report: CompactionReport
) -> CompactionReport:
    """Compacts the buckets, without splitting or merging them. Returns the report with what was done."""
    remaining, meta = None, version.meta
    for _ in range(_ROUNDS):
        try:
            with version.unless_expired():
                states = version.states(remaining)
                picked = [state for bucket, state in states.items() if wanted(bucket)]
                messages = run(sorted(picked, key=_bytes, reverse=True), goal)
        except SnapshotNotFound:  # the snapshot has expired meanwhile: start again from the latest
            version = replace(version, snapshot=meta.snapshots.latest())
            continue
        if not messages:
            return report
        committed = commit(version, Request(Identity(meta.env.ids()), messages))
        report = added(report, committed)
        if not committed.overtaken:
            return report
        totals = {bucket: states[bucket].total_buckets for bucket in committed.overtaken}
        version = replace(version, snapshot=meta.snapshots.latest())
        remaining = buckets_now(version, totals)
    if remaining is None:
        raise CommitConflict(
            "the snapshot expired in each attempt, before its files were read",
            where=meta.paths.root,
            found=f"nothing compacted after {_ROUNDS} attempts",
            cure="keep snapshots longer (snapshot.time-retained), or expire them less often",
        )
    raise CommitConflict(
        "other commits changed the buckets in each attempt",
        where=meta.paths.root,
        found=f"{len(remaining)} buckets not compacted after {_ROUNDS} attempts",
        cure="run one compaction at a time",
    )


def _bytes(state: BucketState) -> int:
    return sum(file.bytes for file in state.files)


def added(report: CompactionReport, committed: Committed) -> CompactionReport:
    """The report with the numbers of another commit added."""
    removed = {file.name for edit in committed.edits for file in edit.removed}
    brought = {file.name for edit in committed.edits for file in edit.added}
    new = [file for edit in committed.edits for file in edit.added if file.name not in removed and file.source != DELETES]
    return CompactionReport(
        committed.snapshot.id if committed.snapshot else report.snapshot_id,
        report.buckets + len(committed.edits),
        report.files_in + len(removed),
        report.files_out + len(brought),
        report.upgraded + len(removed & brought),
        report.rows + sum(f.rows for f in new),
        report.bytes + sum(f.bytes for f in new),
        report.marked + sum(_marked(edit.base, edit.vectors) for edit in committed.edits),
    )


def _marked(base: BucketState, vectors: Collection) -> int:
    return sum(ref.cardinality - (base.vectors[name].cardinality if name in base.vectors else 0) for name, ref in vectors.items())
