"""Snapshot expiry: removes old snapshots and the files that no newer snapshot references.

1. `retention.retention` selects the snapshots.
2. In batches, oldest first: replace each snapshot file by a mark, then delete the files that a snapshot references and its
   successor does not, except those that a tag or a rollback needs (`refs.file_references`). A crash in between leaves
   unreferenced files, never a snapshot with missing files.
3. A mark keeps the number taken, so a slow commit cannot reuse it. The newest `Limits.marks` marks stay, by number, independent
   of clocks. A commit that takes longer fails in step 6 of `commit.commit`.
4. If changelogs are kept longer than snapshots, a copy of the snapshot stays for its changelog and has its own retention. The
   changes of an overwrite are in no changelog file: until its changelog would expire, it stays, and so does the snapshot before.

Several processes can expire at once: each step can be repeated, and completed work is skipped. Before all this, pins that dead
processes have left are removed (`refs.pinned`).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import pyarrow.compute as pc

from lsmlake import undo
from lsmlake.errors import LakeError, SnapshotNotFound
from lsmlake.format.manifest import ADD
from lsmlake.format.snapshot import OVERWRITE, Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.table_options import Options
from lsmlake.refs.file_references import Held, delete, manifests_of, paths_of
from lsmlake.refs.pinned import old_pins, remove_old_pins
from lsmlake.refs.reachability import changelog_of
from lsmlake.retention.retention import Retention, changelog_retention, first_kept, held, plausible_times
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.consumers import consumers, remove_consumer
from lsmlake.tables.version import Metadata

_log = logging.getLogger("lsmlake.retention")

_BATCH = 50  # snapshots


@dataclass(frozen=True)
class ExpireReport(Shown):
    """The result of an expiry of snapshots or, in a dry run, the expected result.

    Attributes:
        snapshots: the number of removed snapshots.
        changelogs: the number of removed changelogs that had outlived their snapshot.
        files: the number of deleted files of any kind. Of two expiries at the same time, both count a file.
        held: reason -> the number of snapshots that it keeps although they are due to expire.
    """

    snapshots: int = 0
    changelogs: int = 0
    files: int = 0
    held: Mapping[str, int] = field(default_factory=dict)


def expire(
    meta: Metadata,
    retention: Retention,
    *,
    explain: bool = True,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda what: None,
) -> ExpireReport:
    """Removes pins of dead processes, expired snapshots, then expired changelogs, and consumers without recent progress.

    All metadata of a batch is read before the first of its files is deleted. `explain` fills `held`, which reads more snapshots.
    `dry_run` reads the same and changes nothing. Calls `progress` with a snapshot of each batch.
    Raises Corrupt if metadata cannot be read, TableNotFound.
    """
    choice = _choice(meta, retention, dry_run=dry_run)
    if choice is None:
        return ExpireReport()
    files = 0 if dry_run else remove_old_pins(meta)
    numbers, marks, known, first = choice.numbers, choice.marks, choice.known, choice.first
    reasons = held(numbers, choice.time_of, retention, choice.protected) if explain else {}
    due = choice.due
    if due and meta.branches.is_forwarding():  # a branch and the table share snapshots now
        return ExpireReport(files=files, held={"the table is being forwarded to a branch": len(due)})
    expired = 0
    for start in range(0, len(due), _BATCH):
        batch, following = due[start : start + _BATCH], [*due, first][start + _BATCH :][:1] or [first]
        progress(meta.paths.snapshot(batch[0]))
        mark, record = marks[-1] if marks else None, choice.kept_longer is not None
        counts = _expire(meta, [*batch, *following], known, mark, record=record, dry_run=dry_run)
        expired, files = expired + counts[0], files + counts[1]
    for number in [*marks, *due][: -meta.env.limits.marks]:  # the oldest first, or a slow commit could take a number between two
        files += _delete(meta, [meta.paths.snapshot(number)], dry_run=dry_run)
    changelogs, more = _expire_changelogs(meta, choice, dry_run=dry_run)
    if not dry_run and (expired or changelogs):
        told = meta.paths.root, expired, changelogs, files + more
        _log.info("%s: %d snapshots and %d changelogs expired, %d files deleted", *told)
    return ExpireReport(expired, changelogs, files + more, reasons)


class DueExpiry(NamedTuple):
    """What an expiry would remove. `held`: reason -> how many due snapshots it keeps. `retained`: how many snapshots there
    are."""

    snapshots: int = 0
    changelogs: int = 0
    consumers: int = 0
    pins: int = 0
    held: Mapping[str, int] = {}
    retained: int = 0


def due_expiry(meta: Metadata, retention: Retention) -> DueExpiry:
    """Counts what `expire` would remove. Reads the due snapshots and two more, and no manifests."""
    choice = _choice(meta, retention, dry_run=True)
    if choice is None:
        return DueExpiry(pins=len(old_pins(meta)))
    reasons = held(choice.numbers, choice.time_of, retention, choice.protected)
    changelogs = len(_due_changelogs(choice, meta.snapshots.recorded_ids()))
    return DueExpiry(len(choice.due), changelogs, choice.idle, len(old_pins(meta)), reasons, len(choice.numbers))


@dataclass(frozen=True)
class _Choice:
    """The snapshots of a table, and which of them to keep: those from `first` on. `protected`: reason -> the oldest snapshot that
    it keeps; `protecting`: the oldest that a consumer keeps. `idle`: the number of consumers without recent progress."""

    numbers: Sequence[int]
    marks: Sequence[int]
    known: dict[int, Snapshot]
    time_of: Callable[[int], int]
    kept_longer: Retention | None
    protected: Mapping[str, int]
    protecting: int | None
    first: int
    idle: int

    @property
    def due(self) -> list[int]:
        return [number for number in self.numbers if number < self.first]


def _choice(meta: Metadata, retention: Retention, *, dry_run: bool) -> _Choice | None:
    """Chooses the snapshots to keep; None if there is no snapshot."""
    numbers, marks = meta.snapshots.numbers()
    if not numbers:
        return None
    now_ms = meta.env.clock()
    known = {numbers[-1]: meta.snapshots.get(numbers[-1])}
    options = meta.schemas.of(known[numbers[-1]]).parsed_options
    kept_longer = changelog_retention(options, now_ms)
    protected, idle = _protected(meta, options, now_ms, dry_run=dry_run)
    time_of = plausible_times(numbers, cache(lambda number: _time(meta, number, numbers, known)), now_ms)
    protecting = min(protected.values(), default=None)
    first = first_kept(numbers, time_of, retention, protecting)
    if kept_longer is not None and (compared := _compared(meta, kept_longer, numbers, first, time_of, known)):
        protected, first = protected | compared, min(first, *compared.values())
    return _Choice(numbers, marks, known, time_of, kept_longer, protected, protecting, first, idle)


def _time(meta: Metadata, number: int, numbers: Sequence[int], known: dict[int, Snapshot]) -> int:
    """The time of a snapshot, or of the copy kept for its changelog; 0 if it has expired since it was listed. Adds the snapshot
    to `known` and, where requests wait for a network, those of `numbers` around it."""
    if number not in known:
        place, at_once = bisect_left(numbers, number), meta.env.storage.at_once
        around = {number, *(numbers[max(0, place - 1) : place + at_once - 2] if at_once > 1 else ())}
        side_by_side([partial(_know, meta, one, known) for one in sorted(around - known.keys())], meta.env.storage.at_once)
    if number in known:
        return known[number].time_ms
    try:
        return meta.snapshots.recorded(number).time_ms
    except SnapshotNotFound:
        return 0


def _know(meta: Metadata, number: int, known: dict[int, Snapshot]) -> None:
    """Adds a snapshot to `known` unless it has expired."""
    with suppress(SnapshotNotFound):
        known[number] = meta.snapshots.get(number)


def _read_ahead(meta: Metadata, number: int, known: dict[int, Snapshot]) -> None:
    """Reads a snapshot, and its metadata into the cache. Ignores errors: the later reader of the snapshot raises them."""
    with suppress(LakeError):
        if number not in known:
            known[number] = meta.snapshots.get(number)
        snapshot = known[number]
        meta.manifests.load(snapshot)
        meta.manifests.delta(snapshot, meta.schemas.of(snapshot))


def _delete(meta: Metadata, paths: Iterable[str], *, dry_run: bool) -> int:
    """Deletes files; returns how many."""
    return len(set(paths)) if dry_run else delete(meta, paths)


def _expire(
    meta: Metadata, numbers: Sequence[int], known: dict[int, Snapshot], mark: int | None, *, record: bool, dry_run: bool
) -> tuple[int, int]:
    """Expires all of `numbers` except the last; returns how many (snapshots, files) were removed. `known`: snapshots that were
    read. `mark`: the number of an existing mark."""
    if meta.env.storage.at_once > 1:
        side_by_side([partial(_read_ahead, meta, number, known) for number in numbers], meta.env.storage.at_once)
    expiring: list[tuple[Snapshot, list[str]]] = []
    last: tuple[Snapshot, set[str]] | None = None
    for number, next_number in pairwise(numbers):
        try:
            snapshot, metadata = last or _read(meta, number, known)
            last = None
            last = following, needed = _read(meta, next_number, known)
            with meta.snapshots.unless_expired(following):
                unused = [*_removed_by(meta, snapshot, following), *sorted(metadata - needed)]
                unused += _replaced_vectors(meta, snapshot, following)
            with meta.snapshots.unless_expired(snapshot):
                unused += [] if record else changelog_of(meta, snapshot)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        expiring.append((snapshot, unused))
    if not expiring:
        return 0, 0
    tagged = Held(meta)
    free = tagged.free(expiring, numbers[-1])  # a tag that cannot be read stops the expiry here
    if dry_run:
        return len(expiring), len(expiring) + _delete(meta, free, dry_run=True)

    if record:  # once: a second time it would record the marks
        meta.snapshots.record([snapshot for snapshot, _ in expiring])

    def finish() -> int:
        meta.snapshots.retire([snapshot.id for snapshot, _ in expiring], mark)
        free = tagged.free(
            expiring, numbers[-1]
        )  # again: a tag or a rollback made meanwhile is found, or its maker sees the mark
        return delete(meta, free)

    undo.on_failure(finish)  # if it is interrupted, nobody else knows the files
    deleted = finish()
    undo.done(finish)
    return len(expiring), len(expiring) + deleted


def _read(meta: Metadata, number: int, known: dict[int, Snapshot]) -> tuple[Snapshot, set[str]]:
    """A snapshot and the paths of its manifests and lists. Raises SnapshotNotFound."""
    snapshot = known[number] if number in known else meta.snapshots.get(number)
    with meta.snapshots.unless_expired(snapshot):
        return snapshot, manifests_of(meta, snapshot)


def _protected(meta: Metadata, options: Options, now_ms: int, *, dry_run: bool) -> tuple[dict[str, int], int]:
    """Reason -> the oldest snapshot that a consumer needs; and how many consumers made no progress for too long."""
    needed, idle = {}, 0
    for consumer in consumers(meta):
        if options.retention.consumers_ms is not None and consumer.modified_ms < now_ms - options.retention.consumers_ms:
            idle += 1
            if not dry_run:
                remove_consumer(meta, consumer.name)
        else:
            following = consumer.progress.next_snapshot
            needed[f"consumer {consumer.name!r} reads snapshot {following} next"] = max(1, following - 1)
    return needed, idle


def _compared(
    meta: Metadata,
    changelogs: Retention,
    numbers: Sequence[int],
    first: int,
    time_of: Callable[[int], int],
    known: dict[int, Snapshot],
) -> dict[str, int]:
    """Reason -> the oldest snapshot that the changes of an overwrite need. Readers compare it with the snapshot before, as long
    as changelogs of its age are retained. Looks at the snapshots up to `first`, and adds them to `known`."""
    compared = []
    for before, number in pairwise(number for number in numbers if number <= first):
        with suppress(SnapshotNotFound):  # another process is expiring, too
            snapshot = known[number] = known[number] if number in known else meta.snapshots.get(number)
            if number == before + 1 and snapshot.kind == OVERWRITE and snapshot.changelog_manifest_list is None:
                compared.append(number)
    if not compared:
        return {}
    every = sorted({*meta.snapshots.recorded_ids(), *numbers})
    oldest = first_kept(every, time_of, changelogs._replace(limit=None))
    return {f"the changes of snapshot {n}, an overwrite, need snapshot {n - 1}": n - 1 for n in compared if n >= oldest}


def _removed_by(meta: Metadata, snapshot: Snapshot, following: Snapshot) -> Iterable[str]:
    """The data files of `snapshot` that the next retained snapshot, `following`, does not have; an upgraded file is in both."""
    schema = meta.schemas.of(following)
    if following.restores is not None or following.id != snapshot.id + 1:  # its delta does not say
        before, after = (meta.manifests.live(one, meta.schemas.of(one)) for one in (snapshot, following))
        return paths_of(meta, before.filter(pc.invert(pc.is_in(before["name"], value_set=after["name"].combine_chunks()))))
    entries = meta.manifests.delta(following, schema)
    added = entries.filter(pc.equal(entries["kind"], ADD))["name"]
    stays = pc.or_(pc.equal(entries["kind"], ADD), pc.is_in(entries["name"], value_set=added.combine_chunks()))
    return paths_of(meta, entries.filter(pc.invert(stays)))


def _replaced_vectors(meta: Metadata, snapshot: Snapshot, following: Snapshot) -> list[str]:
    """The paths of the Puffin files that `following`, the next snapshot, does not need any more."""
    before, after = snapshot.index_manifest, following.index_manifest
    if before is None or before == after:
        return []
    known, now = meta.manifests.vector_refs(snapshot), meta.manifests.vector_refs(following)
    own = None if after is None else meta.manifests.index(after)
    tells = own is not None and own.follows == before.name and own.parts  # without parts it does not name files that left
    changed = own.changes if tells else known
    replaced = {known[name].puffin for name in changed if name in known and now.get(name) != known[name]}
    return sorted(meta.paths.puffin(puffin) for puffin in replaced - now.puffins_in_use(replaced))


def _due_changelogs(choice: _Choice, recorded: Sequence[int]) -> list[int]:
    """The recorded changelogs that expire. Without a retention of its own, a changelog expires with its snapshot."""
    kept = [number for number in choice.numbers if number >= choice.first]
    if not recorded:
        return []
    if choice.kept_longer is None:
        first = kept[0] if choice.protecting is None else min(kept[0], choice.protecting)
    else:
        first = first_kept(sorted({*recorded, *kept}), choice.time_of, choice.kept_longer, choice.protecting)
    return [number for number in recorded if number < min(first, kept[0])]


def _expire_changelogs(meta: Metadata, choice: _Choice, *, dry_run: bool) -> tuple[int, int]:
    """Expires recorded changelogs; returns how many (changelogs, files) were removed."""
    due = _due_changelogs(choice, meta.snapshots.recorded_ids())
    files = 0
    for number in due:
        try:
            snapshot = meta.snapshots.recorded(number)
        except SnapshotNotFound:  # another process is expiring, too
            continue
        paths = changelog_of(meta, snapshot) if meta.branches.owned([snapshot]) else []
        files += _delete(meta, [meta.paths.changelog(number), *paths], dry_run=dry_run)
    return len(due), files
