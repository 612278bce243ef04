"""The cut of a rollback: removes the snapshots between the target and the snapshot that restored it.

That snapshot comes first. It takes the number after the newest one, so a writer that is based on a snapshot to be removed
conflicts with it; numbers are never used twice. Then:

1. Delete the tags of the snapshots to be removed, and the copies that keep changelogs of expired ones; the newest first.
2. Replace the snapshots by marks, the newest first.
3. Delete their files, except those that a retained snapshot, tag, pin or branch names.

All metadata is read before step 1. What others need is read again after step 2, when nobody can find the removed snapshots any
more. A crash leaves a part of the snapshots, each complete, or files that nothing names; the next cut removes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from lsmlake.errors import Corrupt, InvalidQuery, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.file_references import NamedFiles, delete, holders_of
from lsmlake.refs.pinned import check_named
from lsmlake.refs.reachability import changelog_of
from lsmlake.refs.rollback_reachability import settled
from lsmlake.tables.consumers import consumers
from lsmlake.tables.metadata import Metadata

_CONSUMER = Wording(
    "reset_consumer() removes it or sets it back; or roll back without cut: streams see the reverse changes",
    command="`lsmlake consumers TABLE --remove NAME` removes it; without --cut, streams see the reverse changes",
)


class _CutFiles(NamedTuple):
    """`snapshots` are removed, `named` are their files and those of tags; `changelogs`: files that only one changelog names."""

    snapshots: list[Snapshot]
    named: NamedFiles
    changelogs: list[str]


@dataclass(frozen=True)
class Cut:
    """What a cut removes, the newest first: numbers of snapshots, names of tags, numbers of changelogs that outlived their
    snapshot, and paths of files."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()


def plan_cut(meta: Metadata, target: Snapshot) -> Cut:
    """What a cut would remove after `target`, if the table was rolled back to it now.

    Raises:
        Corrupt: metadata cannot be read.
        SnapshotNotFound: the target has expired meanwhile.
        StorageFailed: other snapshots expired during every attempt.
    """
    try:
        return settled(meta, lambda: _planned(meta, target, None))[0]
    except Corrupt:
        check_named(meta, target)
        raise


def cut_out(meta: Metadata, target: Snapshot, fence: Snapshot, progress: Callable[[str], None]) -> Cut:
    """Remove the snapshots after `target` and before its rollback `fence`, which is published. Returns what was removed."""
    going, files = settled(meta, lambda: _planned(meta, fence, (target.id, fence.id)))
    if not (going.snapshots or going.tags or going.changelogs):
        return going
    for name in going.tags:
        meta.tags.remove(name)
    for number in going.changelogs:
        meta.env.storage.delete(meta.paths.changelog(number))
    meta.snapshots.cut(going.snapshots)
    if meta.branches.owned(files.snapshots) != files.snapshots:  # the table is being forwarded to a branch, or was
        return going
    paths = settled(meta, lambda: _paths(meta, files, going, fence))
    for path in paths:
        progress(path)
    delete(meta, paths)
    return replace(going, paths=paths)


def _planned(meta: Metadata, stays: Snapshot, between: tuple[int, int] | None) -> tuple[Cut, _CutFiles]:
    """Lists what the cut removes: between two snapshots, or everything after `stays`, which holds the rows of the target."""
    after, before = between or (stays.id, None)

    def goes(number: int) -> bool:
        return after < number and (before is None or number < before)

    numbers = [number for number in reversed(meta.snapshots.ids()) if goes(number)]
    tags = [tag for tag in reversed(meta.tags.all()) if goes(tag.snapshot.id)]
    changelogs = [number for number in reversed(meta.snapshots.recorded_ids()) if goes(number)]
    snapshots = [meta.snapshots.get(number) for number in reversed(numbers)]
    files = _CutFiles(snapshots, NamedFiles(), [])
    with meta.snapshots.unless_expired(*numbers):
        files.named.add(meta, snapshots)
        for tag in tags:
            files.named.add(meta, [tag.snapshot])
        for snapshot in (*snapshots, *map(meta.snapshots.recorded, changelogs)):
            files.changelogs.extend(changelog_of(meta, snapshot))
    going = Cut(tuple(numbers), tuple(tag.name for tag in tags), tuple(changelogs))
    return replace(going, paths=_paths(meta, files, going, stays)), files


def _paths(meta: Metadata, files: _CutFiles, going: Cut, stays: Snapshot) -> tuple[str, ...]:
    """Returns the files that nothing else names. `stays`: a snapshot that is not removed and that shares most of the files."""
    left = files.named.copied()
    held = [holder.snapshot for holder in holders_of(meta, going.tags)]
    kept = [meta.snapshots.get(number) for number in meta.snapshots.ids() if number not in going.snapshots]
    with meta.snapshots.unless_expired(*kept):
        left.remove(meta, [stays, *held, *kept])
    return tuple([*left.paths(meta), *files.changelogs])


def check_consumers(meta: Metadata, target: Snapshot) -> None:
    """Raises InvalidQuery if a consumer has read snapshots after `target`: it could not see that they were removed."""
    for consumer in consumers(meta):
        following = consumer.progress.next_snapshot
        if following > target.id + 1:
            raise InvalidQuery(
                f"consumer {consumer.name!r} has read changes that the cut removes",
                where=meta.paths.root,
                expected=f"a consumer that reads snapshot {target.id + 1} next, or an older one",
                found=f"it reads snapshot {following} next",
                cure=_CONSUMER,
            )
