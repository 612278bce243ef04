"""Snapshot expiry: removes old snapshots and the files that no newer snapshot references.

1. `commit.retention` selects the snapshots.
2. In batches, oldest first: replace each snapshot file by a mark, then delete the files that a snapshot references and its
   successor does not. A file that has left the table never returns. A crash in between leaves unreferenced files, never a
   snapshot with missing files.
3. A mark keeps the number taken, so a slow commit cannot reuse it. The newest `Limits.marks` marks stay, by number, independent
   of clocks. A commit slower than that fails step 6 of `commit.commit`.
4. If changelogs are kept longer than snapshots, a copy of the snapshot stays for its changelog and has its own retention.

Several processes can expire at once: each step can be repeated, and completed work is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.retention import Retention, changelog_retention, first_kept, held, plausible_times, snapshot_retention
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
    """The numbers of removed snapshots, of removed changelogs that outlived their snapshot, and of deleted files of any kind.

    `held`: reason -> how many snapshots it keeps that are otherwise due to expire.
    """

    snapshots: int = 0
    changelogs: int = 0
    files: int = 0
    held: Mapping[str, int] = field(default_factory=dict)


def housekeep(meta: Metadata, snapshot: Snapshot, options: Options) -> None:
    """Expire a bounded number of snapshots by the table's options, after every tenth commit. `snapshot`: the one just published;
    its number decides, so only one of many concurrent writers expires.

    Never raises, because the commit is already published; an error is logged.
    """
    if snapshot.id % _EVERY or not options.retention.expire_on_commit or (options.write.write_only and snapshot.kind != COMPACT):
        return
    try:
        retention = snapshot_retention(options, meta.env.clock(), None, None, None, None)
        expire(replace(meta, cache=None), retention, explain=False)  # without the cache, so old metadata displaces nothing in it
    except Exception as failed:
        _log.warning("%s: snapshots were not expired after commit %d: %s", meta.paths.root, snapshot.id, failed)


def expire(meta: Metadata, retention: Retention, *, explain: bool = True) -> ExpireReport:
    """Remove expired snapshots, then expired changelogs, and consumers without recent progress.

    All metadata of a batch is read before the first of its files is deleted. `explain` fills `held`, which reads more snapshots.
    Raises Corrupt if metadata cannot be read, TableNotFound.
    """
    numbers, marks = meta.numbers()
    if not numbers:
        return ExpireReport()
    now_ms = meta.env.clock()
    options = meta.schema_of(meta.snapshot(numbers[-1])).parsed_options
    kept_longer = changelog_retention(options, now_ms)
    protected = _protected(meta, options, now_ms)
    protecting = min(protected.values(), default=None)
    time_of = plausible_times(numbers, cache(lambda number: _time(meta, number)), now_ms)
    first = first_kept(numbers, time_of, retention, protecting)
    reasons = held(numbers, time_of, retention, protected) if explain else {}
    due = [number for number in numbers if number < first]
    expired = files = 0
    for start in range(0, len(due), _BATCH):
        batch, following = due[start : start + _BATCH], [*due, first][start + _BATCH :][:1] or [first]
        counts = _expire(meta, [*batch, *following], marks[-1] if marks else None, record=kept_longer is not None)
        expired, files = expired + counts[0], files + counts[1]
    files += _delete(meta, [meta.paths.snapshot(number) for number in [*marks, *due][: -meta.env.limits.marks]])
    kept = [number for number in numbers if number >= first]
    changelogs, more = _expire_changelogs(meta, kept_longer, kept, time_of, protecting)
    return ExpireReport(expired, changelogs, files + more, reasons)


def _time(meta: Metadata, number: int) -> int:
    """The time of a snapshot, or of the copy kept for its changelog; 0 if it has expired since it was listed."""
    try:
        return meta.recorded(number).time_ms
    except SnapshotNotFound:
        return 0


def _expire(meta: Metadata, numbers: Sequence[int], mark: int | None, *, record: bool) -> tuple[int, int]:
    """Expire all of `numbers` except the last; returns how many (snapshots, files) were removed. `mark`: the number of an
    existing mark."""
    expiring: list[tuple[Snapshot, list[str]]] = []
    known: tuple[Snapshot, set[str]] | None = None
    for number, next_number in pairwise(numbers):
        try:
            snapshot, metadata = known or _read(meta, number)
            known = None
            known = following, needed = _read(meta, next_number)
            with meta.unless_expired(following):
                unused = [*_removed_by(meta, following, meta.schema_of(following)), *sorted(metadata - needed)]
            with meta.unless_expired(snapshot):
                unused += [] if record else _changelog(meta, snapshot)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        expiring.append((snapshot, unused))
    if not expiring:
        return 0, 0
    if record:
        meta.record([snapshot for snapshot, _ in expiring])
    meta.retire([snapshot.id for snapshot, _ in expiring], mark)
    return len(expiring), len(expiring) + sum(_delete(meta, unused) for _, unused in expiring)


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


def _removed_by(meta: Metadata, snapshot: Snapshot, schema: Schema) -> Iterable[str]:
    """The data files that the commit of `snapshot` removed from the table; an upgraded file is not removed."""
    entries = meta.delta(snapshot, schema)
    added = entries.filter(pc.equal(entries["kind"], ADD))["name"]
    stays = pc.or_(pc.equal(entries["kind"], ADD), pc.is_in(entries["name"], value_set=added.combine_chunks()))
    return _paths(meta, entries.filter(pc.invert(stays)), schema)


def _paths(meta: Metadata, entries: pa.Table, schema: Schema) -> list[str]:
    return [meta.paths.data(file) for _, _, file in manifest.files_of(entries, schema, statistics=False)]


def _metadata(meta: Metadata, snapshot: Snapshot) -> set[str]:
    """The paths of the manifests, manifest lists and vector files of a snapshot."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    names = {named.name for named in lists if named} | {m.name for m in meta.manifest_metas(snapshot)}
    return {meta.paths.manifest(name) for name in names} | {
        meta.paths.puffin(ref.puffin) for ref in meta.vector_refs(snapshot).values()
    }


def _changelog(meta: Metadata, snapshot: Snapshot) -> list[str]:
    """The paths of all files that only the changelog of a snapshot uses."""
    named = snapshot.changelog_manifest_list
    if named is None:
        return []
    schema = meta.schema_of(snapshot)
    manifests = [meta.paths.manifest(m.name) for m in meta.manifest_list(named)]
    return [*_paths(meta, meta.changelog(snapshot, schema), schema), *manifests, meta.paths.manifest(named.name)]


def _expire_changelogs(
    meta: Metadata, retention: Retention | None, kept: Sequence[int], time_of: Callable[[int], int], protected: int | None
) -> tuple[int, int]:
    """Expire recorded changelogs; returns how many (changelogs, files) were removed. `kept`: the retained snapshots. Without a
    retention of its own, a changelog expires with its snapshot."""
    recorded = meta.recorded_ids()
    if not recorded:
        return 0, 0
    if retention is None:
        first = kept[0] if protected is None else min(kept[0], protected)
    else:
        first = first_kept(sorted({*recorded, *kept}), time_of, retention, protected)
    due = [number for number in recorded if number < min(first, kept[0])]
    files = 0
    for number in due:
        try:
            snapshot = meta.recorded(number)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        files += _delete(meta, [meta.paths.changelog(number), *_changelog(meta, snapshot)])
    return len(due), files


def _delete(meta: Metadata, paths: Iterable[str]) -> int:
    """Delete files in order; returns how many of them existed."""
    existing = [path for path in paths if meta.env.storage.size(path) is not None]
    for path in existing:
        meta.env.storage.delete(path)
    return len(existing)
