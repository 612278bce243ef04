"""Expiring snapshots: old states of a table go, and with them the files that no younger state has.

1. `commit.retention` says which snapshots go.
2. A batch at a time, the oldest first: marks take the places of the snapshots' own files, then the files that a snapshot has and
   the next one has not are deleted - a file that has once left the table never comes back. A crash in between leaves files that
   nothing names, never a snapshot without its files.
3. The mark keeps the number taken, so that a commit computed long ago cannot become that snapshot. The newest `Limits.marks`
   marks
   stay, by number, whatever a clock says. A commit that is even slower finds out by itself: see step 6 of `commit.publish`.
4. Where a changelog is kept longer than snapshots, a copy of the snapshot stays for it, and goes by a retention of its own.

Several processes may do this at once: each step can be repeated, and what another one has done already is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.retention import Retention, believed, changelog_retention, first_kept, held, snapshot_retention
from lsmlake.errors import SnapshotNotFound
from lsmlake.format import manifest
from lsmlake.format.manifest import ADD
from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.table_options import Options
from lsmlake.schema.schema import Schema
from lsmlake.store.consumers import consumers, remove_consumer
from lsmlake.store.metadata import Metadata

_log = logging.getLogger("lsmlake")

_EVERY = 10  # commits
_BATCH = 50  # snapshots


@dataclass(frozen=True)
class ExpireReport(Shown):
    """What went: snapshots, changelogs that outlived theirs, and files of any kind. `held`: reason -> how many snapshots stay for
    it that are too many, or old enough to go."""

    snapshots: int = 0
    changelogs: int = 0
    files: int = 0
    held: Mapping[str, int] = field(default_factory=dict)


def housekeep(meta: Metadata, snapshot: Snapshot, options: Options) -> None:
    """Expire a bounded number of snapshots by the table's options, right after every tenth commit; `snapshot`: what it published.
    The number decides, so of many writers one does it.

    Never fails: the commit has taken place. What goes wrong is logged.
    """
    if snapshot.id % _EVERY or not options.retention.expire_on_commit or (options.write.write_only and snapshot.kind != COMPACT):
        return
    try:
        retention = snapshot_retention(options, meta.env.clock(), None, None, None, None)
        expire(replace(meta, cache=None), retention, explain=False)  # files of the past do not displace others in the cache
    except Exception as failed:
        _log.warning("%s: snapshots were not expired after commit %d: %s", meta.paths.root, snapshot.id, failed)


def expire(meta: Metadata, retention: Retention, *, explain: bool = True) -> ExpireReport:
    """Remove what is to go of snapshots, then of changelogs, and consumers that have given up. All that a snapshot names is read
    before the first of it goes. `explain` fills `held`, which takes reading more snapshots. Raises Corrupt if some of it cannot
    be read, TableNotFound."""
    numbers, marks = meta.numbers()
    if not numbers:
        return ExpireReport()
    now_ms = meta.env.clock()
    options = meta.schema_of(meta.snapshot(numbers[-1])).parsed_options
    kept_longer = changelog_retention(options, now_ms)
    protected = _protected(meta, options, now_ms)
    protecting = min(protected.values(), default=None)
    time_of = believed(numbers, cache(lambda number: _time(meta, number)), now_ms)
    first = first_kept(numbers, time_of, retention, protecting)
    reasons = held(numbers, time_of, retention, protected) if explain else {}
    gone = [number for number in numbers if number < first]
    expired = files = 0
    for start in range(0, len(gone), _BATCH):
        batch, following = gone[start : start + _BATCH], [*gone, first][start + _BATCH :][:1] or [first]
        counts = _expire(meta, [*batch, *following], marks[-1] if marks else None, record=kept_longer is not None)
        expired, files = expired + counts[0], files + counts[1]
    files += _delete(meta, [meta.paths.snapshot(number) for number in [*marks, *gone][: -meta.env.limits.marks]])
    kept = [number for number in numbers if number >= first]
    changelogs, more = _expire_changelogs(meta, kept_longer, kept, time_of, protecting)
    return ExpireReport(expired, changelogs, files + more, reasons)


def _time(meta: Metadata, number: int) -> int:
    """The time of a snapshot, or of one of which the changelog is kept; 0 if it has gone meanwhile."""
    try:
        return meta.recorded(number).time_ms
    except SnapshotNotFound:
        return 0


def _expire(meta: Metadata, numbers: Sequence[int], mark: int | None, *, record: bool) -> tuple[int, int]:
    """(snapshots, files) that went: all of `numbers` but the last. `mark`: the number of one that is there."""
    going: list[tuple[Snapshot, list[str]]] = []
    known: tuple[Snapshot, set[str]] | None = None
    for number, next_number in pairwise(numbers):
        try:
            snapshot, metadata = known or _read(meta, number)
            known = None
            known = following, needed = _read(meta, next_number)
            with meta.unless_expired(following):
                gone = [*_left(meta, following, meta.schema_of(following)), *sorted(metadata - needed)]
            with meta.unless_expired(snapshot):
                gone += [] if record else _changelog(meta, snapshot)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        going.append((snapshot, gone))
    if not going:
        return 0, 0
    if record:
        meta.record([snapshot for snapshot, _ in going])
    meta.retire([snapshot.id for snapshot, _ in going], mark)
    return len(going), len(going) + sum(_delete(meta, gone) for _, gone in going)


def _read(meta: Metadata, number: int) -> tuple[Snapshot, set[str]]:
    """A snapshot and the paths of its metadata. Raises SnapshotNotFound."""
    snapshot = meta.snapshot(number)
    with meta.unless_expired(snapshot):
        return snapshot, _metadata(meta, snapshot)


def _protected(meta: Metadata, options: Options, now_ms: int) -> dict[str, int]:
    """Reason -> the oldest snapshot that a consumer needs."""
    needed = {}
    for consumer in consumers(meta):
        if options.retention.consumers_ms is not None and consumer.modified_ms < now_ms - options.retention.consumers_ms:
            remove_consumer(meta, consumer.name)
        else:
            following = consumer.progress.next_snapshot
            needed[f"consumer {consumer.name!r} reads snapshot {following} next"] = max(1, following - 1)
    return needed


def _left(meta: Metadata, following: Snapshot, schema: Schema) -> Iterable[str]:
    """The data files that a commit took out of the table; one that only moved is still there."""
    entries = meta.delta(following, schema)
    added = entries.filter(pc.equal(entries["kind"], ADD))["name"]
    stays = pc.or_(pc.equal(entries["kind"], ADD), pc.is_in(entries["name"], value_set=added.combine_chunks()))
    return _paths(meta, entries.filter(pc.invert(stays)), schema)


def _paths(meta: Metadata, entries: pa.Table, schema: Schema) -> list[str]:
    return [meta.paths.data(file) for _, _, file in manifest.files_of(entries, schema, statistics=False)]


def _metadata(meta: Metadata, snapshot: Snapshot) -> set[str]:
    """Manifests, their lists and the vectors of a snapshot."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    names = {named.name for named in lists if named} | {m.name for m in meta.manifest_metas(snapshot)}
    return {meta.paths.manifest(name) for name in names} | {
        meta.paths.puffin(ref.puffin) for ref in meta.vector_refs(snapshot).values()
    }


def _changelog(meta: Metadata, snapshot: Snapshot) -> list[str]:
    """Everything that belongs to the changelog of a snapshot alone."""
    named = snapshot.changelog_manifest_list
    if named is None:
        return []
    schema = meta.schema_of(snapshot)
    manifests = [meta.paths.manifest(m.name) for m in meta.manifest_list(named)]
    return [*_paths(meta, meta.changelog(snapshot, schema), schema), *manifests, meta.paths.manifest(named.name)]


def _expire_changelogs(
    meta: Metadata, retention: Retention | None, kept: Sequence[int], time_of: Callable[[int], int], protected: int | None
) -> tuple[int, int]:
    """(changelogs, files) that went. `kept`: the snapshots that stay. Without a retention of their own changelogs do not outlive
    a snapshot."""
    recorded = meta.recorded_ids()
    if not recorded:
        return 0, 0
    if retention is None:
        first = kept[0] if protected is None else min(kept[0], protected)
    else:
        first = first_kept(sorted({*recorded, *kept}), time_of, retention, protected)
    gone = [number for number in recorded if number < min(first, kept[0])]
    files = 0
    for number in gone:
        try:
            snapshot = meta.recorded(number)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        files += _delete(meta, [meta.paths.changelog(number), *_changelog(meta, snapshot)])
    return len(gone), files


def _delete(meta: Metadata, paths: Iterable[str]) -> int:
    """Delete in order; returns how many there were."""
    there = [path for path in paths if meta.env.storage.size(path) is not None]
    for path in there:
        meta.env.storage.delete(path)
    return len(there)
