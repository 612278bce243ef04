"""Expiring snapshots: old states of a table go, and with them the files that no younger state has.

1. `first_kept` chooses from numbers and times alone. A snapshot goes once the one after it is old, so a moment that is retained
   can be travelled to. What a consumer has not read stays, and the snapshot before it, from which its changes start.
2. Snapshot after snapshot, the oldest first: a mark takes the place of its own file, then the files that it has and the next
   one has not are deleted - a file that has once left the table never comes back. A crash in between leaves files that nothing
   names, never a snapshot without its files. The mark keeps the number taken: a commit that was computed long ago and tries to
   be that snapshot must fail. It goes a day later.
3. Where a changelog is kept longer than snapshots, a copy of the snapshot stays for it, and goes by a retention of its own.

Source of the rules: Apache Paimon, `ExpireSnapshotsImpl` and `ExpireChangelogImpl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery, SnapshotNotFound, Wording
from lsmlake.format import manifest
from lsmlake.format.manifest import ADD
from lsmlake.format.schema import Schema
from lsmlake.format.snapshot import Snapshot
from lsmlake.options import NONE, Options
from lsmlake.show import Shown
from lsmlake.store.consumers import consumers, remove_consumer
from lsmlake.store.metadata import Metadata

_MARKS_MS = 86_400_000  # no commit takes a day


class Retention(NamedTuple):
    """At least `least` and, if set, at most `most` are kept; between these, one goes once what follows it is from before
    `older_than_ms`. `limit`: so many go at a time."""

    least: int
    most: int | None
    older_than_ms: int
    limit: int | None = None


_LEAST = Wording("correct retain_min", command="correct --retain-min")
_MOST = Wording("correct retain_max", command="correct --retain-max")
_LIMIT = Wording("correct limit", command="correct --limit")
_TURNED = Wording("retain_max is below retain_min", command="--retain-max is below --retain-min")


@dataclass(frozen=True)
class ExpireReport(Shown):
    """What went: snapshots, changelogs that outlived theirs, and files of any kind."""

    snapshots: int = 0
    changelogs: int = 0
    files: int = 0


def snapshot_retention(
    options: Options, now_ms: int, least: int | None, most: int | None, older_than_ms: int | None, limit: int | None
) -> Retention:
    """What is given, else what the options say. Raises InvalidQuery."""
    for name, number in ((_LEAST, least), (_MOST, most), (_LIMIT, limit)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise InvalidQuery("not a number of snapshots", expected="1 or more", found=repr(number), cure=name)
    most = options.retain_max if most is None else most
    if least is None:
        least = options.retain_min if most is None else min(options.retain_min, most)
    if most is not None and most < least:
        raise InvalidQuery(_TURNED, found=f"{most} < {least}", cure="correct one of them")
    time_ms = now_ms - options.retain_ms if older_than_ms is None else older_than_ms
    return Retention(least, most, time_ms, options.expire_limit if limit is None else limit)


def changelog_retention(options: Options, now_ms: int) -> Retention | None:
    """None: a changelog goes with its snapshot."""
    least, most, time_ms = options.changelog_retain_min, options.changelog_retain_max, options.changelog_retain_ms
    if options.changelog_producer == NONE or (least, most, time_ms) == (None, None, None):
        return None
    return Retention(
        options.retain_min if least is None else least,
        options.retain_max if most is None else most,
        now_ms - (options.retain_ms if time_ms is None else time_ms),
        options.expire_limit,
    )


def first_kept(times: Mapping[int, int], retention: Retention, protected: int | None = None) -> int:
    """The number of the oldest that is kept. `times`: number -> time, ascending, not empty. Neither `protected` nor what comes
    after it goes. Pure."""
    earliest, latest = min(times), max(times)
    stop = latest - retention.least + 1
    if protected is not None:
        stop = min(stop, protected)
    if retention.limit is not None:
        stop = min(stop, earliest + retention.limit)
    surplus = earliest if retention.most is None else max(earliest, latest - retention.most + 1)
    for number, following in pairwise(times):
        if surplus <= number < stop and times[following] >= retention.older_than_ms:
            return number
    return max(earliest, stop)


def expire(meta: Metadata, retention: Retention) -> ExpireReport:
    """Remove what is to go of snapshots, then of changelogs, and consumers that have given up. All that a snapshot names is read
    before the first of it goes. Raises Corrupt if some of it cannot be."""
    snapshots = _snapshots(meta)
    if not snapshots:
        return ExpireReport()
    now_ms = meta.env.clock()
    options = meta.schema_of(snapshots[-1]).parsed_options
    kept_longer = changelog_retention(options, now_ms)
    protected = _protected(meta, options, now_ms)
    times = {snapshot.id: snapshot.time_ms for snapshot in snapshots}
    first = first_kept(times, retention, protected)
    files = 0
    gone = [snapshot for snapshot in snapshots if snapshot.id < first]
    for snapshot, following in zip(gone, snapshots[1:], strict=False):
        try:
            with meta.unless_expired(snapshot), meta.unless_expired(following):
                files += _expire_one(meta, snapshot, following, record=kept_longer is not None)
        except SnapshotNotFound:  # somebody else is expiring, too
            continue
    files += _delete(meta, meta.retired(now_ms - _MARKS_MS))
    changelogs, more = _expire_changelogs(meta, kept_longer, first, times, protected)
    return ExpireReport(len(gone), changelogs, files + more)


def _snapshots(meta: Metadata) -> list[Snapshot]:
    found = []
    for number in meta.snapshot_ids():
        with suppress(SnapshotNotFound):  # gone since it was listed
            found.append(meta.snapshot(number))
    return found


def _protected(meta: Metadata, options: Options, now_ms: int) -> int | None:
    """The oldest snapshot a consumer needs."""
    needed = []
    for consumer in consumers(meta):
        if options.consumer_expire_ms is not None and consumer.modified_ms < now_ms - options.consumer_expire_ms:
            remove_consumer(meta, consumer.name)
        else:
            needed.append(max(1, consumer.progress.next_snapshot - 1))
    return min(needed, default=None)


def _expire_one(meta: Metadata, snapshot: Snapshot, following: Snapshot, *, record: bool) -> int:
    schema = meta.schema_of(following)
    gone = [*_left(meta, following, schema), *sorted(_metadata(meta, snapshot) - _metadata(meta, following))]
    if record:
        meta.record(snapshot)
    else:
        gone += _changelog(meta, snapshot)
    meta.retire(snapshot.id)
    return 1 + _delete(meta, gone)


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
    meta: Metadata, retention: Retention | None, first_snapshot: int, times: Mapping[int, int], protected: int | None
) -> tuple[int, int]:
    """(changelogs, files) that went. Without a retention of their own changelogs do not outlive a snapshot."""
    recorded = {number: meta.recorded(number) for number in meta.recorded_ids()}
    if not recorded:
        return 0, 0
    all_times = {number: s.time_ms for number, s in recorded.items()} | {n: t for n, t in times.items() if n >= first_snapshot}
    if retention is None:
        first = first_snapshot if protected is None else min(first_snapshot, protected)
    else:
        first = first_kept(all_times, retention, protected)
    gone = [snapshot for number, snapshot in recorded.items() if number < min(first, first_snapshot)]
    return len(gone), sum(_delete(meta, [meta.paths.changelog(s.id), *_changelog(meta, s)]) for s in gone)


def _delete(meta: Metadata, paths: Iterable[str]) -> int:
    """Delete in order; returns how many there were."""
    there = [path for path in paths if meta.env.storage.size(path) is not None]
    for path in there:
        meta.env.storage.delete(path)
    return len(there)
