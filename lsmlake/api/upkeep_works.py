"""Does the works that a maintainer finds due, by the verbs of the table, and says what each did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from lsmlake.api.history_runs import HistoryRun
from lsmlake.api.history_terms import HistoryTerms
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.beside import Signal
from lsmlake.border import public
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.compact.job import compact_buckets, compact_table
from lsmlake.compact.reshape import as_needed, reshape
from lsmlake.iceberg import mirror
from lsmlake.maintain import due as kinds
from lsmlake.maintain.analyze import analyze
from lsmlake.maintain.callbacks import mark_done
from lsmlake.maintain.due import Due
from lsmlake.maintain.maintainer import Do, Stopped
from lsmlake.maintain.table_facts import TableFacts
from lsmlake.maintain.work_history import WorkHistory, WorkRecord, of_commit
from lsmlake.retention.orphans import remove_orphan_files
from lsmlake.retention.partition_expiry import expire_partitions
from lsmlake.retention.retention import snapshot_retention
from lsmlake.retention.snapshot_expiry import expire
from lsmlake.retention.tag_expiry import expire_tags
from lsmlake.tables.databases import metadata_of
from lsmlake.tables.version import Version

_EXPIRIES = 200
"""Expiries of snapshots in a row, each of `snapshot.expire.limit` snapshots."""


def workman(runtime: Runtime, stop: Signal, who: str) -> Do:
    """A function that does a work where `runtime` runs. It ends soon after `stop`. `who`: what the history says of it."""

    @public
    def do(facts: TableFacts, work: Due) -> WorkRecord:
        start_ms = facts.version.meta.env.clock()
        record = _DO[work.kind](facts, work, runtime, stop)
        now_ms = facts.version.meta.env.clock()
        return replace(record, kind=work.kind, reason=work.reason, start_ms=start_ms, end_ms=now_ms, who=who)

    return do


def _done(facts: TableFacts, snapshot_id: int | None = None, **numbers: int | None) -> WorkRecord:
    """A record that `workman` completes."""
    return WorkRecord(facts.name, "", None, None, 0, snapshot_id, **numbers)


def _committed(facts: TableFacts, snapshot_id: int | None) -> WorkRecord:
    """The work of a commit, with the numbers of its manifests."""
    if snapshot_id is None:
        return _done(facts)
    meta = facts.version.meta
    return of_commit(meta, facts.name, meta.snapshots.get(snapshot_id)) or _done(facts, snapshot_id)


def _compact(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    version = Version.latest(facts.version.meta)
    run = runtime.compactions(version.meta, version.schema)
    report = compact_table(version, run, work.buckets.__contains__, divide=runtime.divide)
    return _committed(facts, report.snapshot_id)


def _split(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    version = Version.latest(facts.version.meta)
    settle = partial(compact_buckets, runtime.compactions(version.meta, version.schema))
    wanted, partitions = work.buckets.__contains__, {bucket.partition_key for bucket in work.buckets}
    commits = reshape(version, as_needed(version), wanted, runtime.divide, sorted(partitions, key=repr), settle)
    return _committed(facts, commits[-1].snapshot.id if commits else None)


def _expire_partitions(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    return _committed(facts, expire_partitions(Version.latest(facts.version.meta)).snapshot_id)


def _expire_tags(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    report = expire_tags(facts.version.meta.with_cache_aside())
    return _done(facts, files_in=report.files + len(report.tags))


def _expire_snapshots(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    meta, options, files = facts.version.meta, facts.version.options, 0
    for _ in range(_EXPIRIES):
        retention = snapshot_retention(options, meta.env.clock(), None, None, None, None)
        report = expire(meta.with_cache_aside(), retention, explain=False)
        files += report.files
        if report.snapshots < options.retention.expire_limit or stop.given:
            break
    return _done(facts, files_in=files + facts.expiry.consumers)


def _refresh(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    if facts.version.schema.view is None:
        return _follow(facts, runtime)
    report = runtime.keeps_views.refresh(facts.version.meta.env, facts.name)
    if report.snapshot is None:
        return _done(facts)
    return replace(_committed(facts, report.snapshot.id), rows=report.written)


def _follow(facts: TableFacts, runtime: Runtime) -> WorkRecord:
    """Brings a history up to date."""
    meta, name = facts.version.meta, facts.version.options.history.source
    history = Table(facts.name, meta, runtime)
    before = history.version.number
    rows = HistoryRun.of(Table(name, metadata_of(meta.env, name), runtime), facts.name, HistoryTerms(), history).run(history)
    after = history.version.number
    return replace(_committed(facts, after), rows=rows) if after != before else _done(facts)


def _publish(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    published = mirror.publish(facts.version.meta)
    return _done(facts, files_out=published.snapshots)


def _mark_done(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    meta, marks = facts.version.meta, {}
    try:
        for partition in kinds.done_partitions(facts):
            mark_done(facts.version, partition)
            marks[partition.name] = partition.snapshot
    finally:
        if marks:
            WorkHistory(meta.env).add(meta.paths.line, (), marks)
    return _done(facts, files_out=len(marks))


def _merge_manifests(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    version = Version.latest(facts.version.meta)
    request = Request(Identity(version.meta.env.ids()), requires=(), merges_manifests=True)
    snapshot = commit(version, request).snapshot
    after = len(version.meta.manifests.metas(snapshot))
    return _done(facts, snapshot.id, files_in=len(facts.manifests), files_out=after)


def _analyze(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    columns = {column.field_id for column in facts.statistics.columns}
    names = [name for name, number in facts.version.schema.field_ids().items() if number in columns]
    snapshot = analyze(Version.latest(facts.version.meta), names, runtime.measure)
    return _done(facts, snapshot.id, rows=snapshot.total_rows, bytes_in=work.cost)


def _remove_orphans(facts: TableFacts, work: Due, runtime: Runtime, stop: Signal) -> WorkRecord:
    def progress(path: str) -> None:
        if stop.given:
            raise Stopped

    report = remove_orphan_files(facts.version.meta, None, dry_run=False, limit=None, progress=progress)
    return _done(facts, files_in=report.files, bytes_in=report.bytes)


_DO: Mapping[str, Callable[[TableFacts, Due, Runtime, Signal], WorkRecord]] = {
    kinds.REFRESH: _refresh,
    kinds.COMPACT: _compact,
    kinds.SPLIT: _split,
    kinds.EXPIRE_PARTITIONS: _expire_partitions,
    kinds.EXPIRE_TAGS: _expire_tags,
    kinds.EXPIRE_SNAPSHOTS: _expire_snapshots,
    kinds.PUBLISH: _publish,
    kinds.MARK_DONE: _mark_done,
    kinds.MERGE_MANIFESTS: _merge_manifests,
    kinds.ANALYZE: _analyze,
    kinds.REMOVE_ORPHANS: _remove_orphans,
}
