"""Rolls a table back: publishes a snapshot with the rows, the columns and the options of an older one.

1. Resolve the target: a snapshot, a tag or a time. Pin it, so that no other process deletes its files (`refs.pinned`).
2. If the schema of the target differs from the one in effect, store a new schema with its columns and options.
3. Publish a snapshot that names the manifests and vectors of the target, directly after the newest snapshot. If another commit
   comes first, start again.
4. With `cut`: remove the snapshots between the target and the new one.

A rollback deletes and copies no data; only step 4 deletes. Numbers of snapshots are never used twice, not even with `cut`: a
writer that is based on a removed snapshot conflicts with the new one, as after any commit. The steps of the cut:

1. Delete the tags of the snapshots to be removed, and the copies that keep changelogs of expired ones; the newest first.
2. Replace the snapshots by marks, the newest first.
3. Delete their files, except those that a retained snapshot, tag, pin or branch names.

All metadata is read before the first of these steps. The references of other holders are read again after the second step, when
no program can find the removed snapshots any more. A crash leaves a part of the snapshots, each complete, or files that nothing
names; the next cut removes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import Follows
from lsmlake.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    SnapshotNotFound,
    TableNotFound,
    Wording,
    with_arguments,
)
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.notebook import Shown
from lsmlake.read.fallback import check_altered
from lsmlake.read.travel import Moment, resolve
from lsmlake.refs.file_references import NamedFiles, delete, holders_of
from lsmlake.refs.pinned import check_named, pinned
from lsmlake.refs.reachability import changelog_of
from lsmlake.refs.rollback_reachability import settled
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.consumers import consumers
from lsmlake.tables.version import Metadata, Version

PROPERTY = "rollback-to"
_ROUNDS = 5


@dataclass(frozen=True)
class RollbackReport(Shown):
    """The effects of a rollback.

    Attributes:
        target: the snapshot whose rows and schema the table gets.
        undone: the retained snapshots after the target, oldest first. With `cut` they are removed.
        rows_now: rows of the table, as `total_rows` of the newest snapshot.
        rows_then: rows of the target.
        schema_changes: whether columns or options change.
        tags: with `cut`, the tags that are removed.
        changelogs: with `cut`, how many changelogs of expired snapshots are removed.
        files: with `cut`, how many files are deleted.
    """

    target: int
    undone: tuple[int, ...]
    rows_now: int
    rows_then: int
    schema_changes: bool
    tags: tuple[str, ...] = ()
    changelogs: int = 0
    files: int = 0


def rollback(
    meta: Metadata,
    moment: Moment,
    zone: str,
    name: str,
    *,
    cut: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda what: None,
) -> tuple[Snapshot, RollbackReport]:
    """Rolls the table back to `moment`; see `Table.rollback`. Returns the newest snapshot, and the report of the rollback.

    Args:
        meta: the table.
        moment: exactly one of a snapshot, a tag and a time.
        zone: the time zone of a time without a zone.
        name: the name of the table.
        cut: whether to remove the snapshots after the target.
        dry_run: whether to change nothing.
        progress: called with the path of each file before it is deleted.
    """
    _check(moment, name)
    failed, cure = "other commits came first on every attempt", "pause the writers of the table and roll back again"
    for _ in attempts(_ROUNDS, failed, name, cure):
        version = Version.latest(meta)
        if version.snapshot is None:
            raise SnapshotNotFound("the table has no snapshot to roll back to", where=name, cure="write rows first")
        target = resolve(meta, moment, zone)
        if cut:
            check_consumers(meta, target)
        _check_branch(version, target, name)
        report = _report(version, target, cut)
        if dry_run or target == version.snapshot:
            return version.snapshot, report
        try:
            with pinned(meta, target):
                published = _publish(version, target)
        except CommitConflict:
            continue
        if not cut:
            return published, report
        removed = cut_out(meta, target, published, progress)
        return published, replace(report, tags=removed.tags, changelogs=len(removed.changelogs), files=len(removed.paths))


def _check(moment: Moment, name: str) -> None:
    given = [name for name, value in vars(moment).items() if value is not None]
    if len(given) != 1:
        raise InvalidQuery(
            "a rollback needs one target",
            where=name,
            expected=Wording("snapshot=, tag= or timestamp=", command="--snapshot, --tag or --timestamp"),
            found=with_arguments(" and ".join(["{}"] * len(given)) or "none", *given),
            cure="give one of them",
        )


def _check_branch(version: Version, target: Snapshot, name: str) -> None:
    """Raises InvalidQuery if options of the target name a branch that is gone, or that does not fit: no row could be read."""
    now = version.schema
    try:
        check_altered(version, restored_schema(version.meta.schemas.of(target), now, now.id, 0), name)
    except (InvalidOption, InvalidSchema, InvalidQuery, TableNotFound) as unfit:
        raise InvalidQuery(
            f"options of snapshot {target.id} name a branch with which the table could not be read",
            where=name,
            found=f"{unfit.what}, {unfit.where}" if unfit.where else unfit.what,
            cure="create such a branch, or roll back to another snapshot",
        ) from unfit


def _report(version: Version, target: Snapshot, cut: bool) -> RollbackReport:
    meta, latest = version.meta, version.snapshot
    if target.id > latest.id:  # a commit came between the two reads
        latest = target
    undone = tuple(number for number in meta.snapshots.ids() if target.id < number <= latest.id)
    changes = restored_schema(meta.schemas.of(target), version.schema, version.schema.id, 0) != version.schema
    going = plan_cut(meta, target) if cut and undone else Cut()
    return RollbackReport(
        target.id,
        undone,
        latest.total_rows,
        target.total_rows,
        changes,
        going.tags,
        len(going.changelogs),
        len(going.paths),
    )


def restored_schema(then: Schema, now: Schema, number: int, time_ms: int) -> Schema:
    """The schema of an older snapshot as a new one with this number; `now` itself, the one in effect, if it has the same columns
    and options. The field ids that only `now` has are never used again."""
    highest = max(then.highest_field_id, now.highest_field_id)
    then = replace(then, partitioning=then.partitioning.after(now.partitioning))
    like_now = replace(then, id=now.id, highest_field_id=now.highest_field_id, time_ms=now.time_ms)
    return now if like_now.encode() == now.encode() else replace(then, id=number, highest_field_id=highest, time_ms=time_ms)


def _publish(version: Version, target: Snapshot) -> Snapshot:
    """Does steps 2 and 3. Raises CommitConflict if another commit or alteration was published first."""
    meta, now = version.meta, version.schema
    schema = restored_schema(meta.schemas.of(target), now, meta.schemas.ids()[-1] + 1, meta.env.clock())
    rule_of(schema, meta.paths.root)
    if schema.id != now.id and not meta.schemas.put(schema):
        raise CommitConflict("another alteration came first", where=meta.paths.root, cure="roll back again")
    request = Request(
        Identity(meta.env.ids()),
        requires=(Follows(version.number),),
        remade=True,
        properties={PROPERTY: str(target.id)},
        schema=schema,
        restores=target,
    )
    try:
        return commit(version, request).snapshot
    except CommitUnknown:
        raise
    except LakeError:
        if schema.id != now.id:
            meta.files.delete_quietly([meta.paths.schema(schema.id)])
        raise


_CONSUMER = Wording(
    "reset_consumer() removes it or sets it back; or roll back without cut: streams see the reverse changes",
    command="`lsmlake consumers TABLE --remove NAME` removes it; without --cut, streams see the reverse changes",
    sql="CALL reset_consumer removes it or sets it back; or roll back without cut: streams see the reverse changes",
)


class _CutFiles(NamedTuple):
    """`snapshots` are removed, `named` are their files and those of tags; `changelogs`: files that only one changelog names."""

    snapshots: list[Snapshot]
    named: NamedFiles
    changelogs: list[str]


# -- the cut ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The things that a cut removes, the newest first: numbers of snapshots, names of tags, numbers of changelogs that outlived
    their snapshot, and paths of files."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()


def plan_cut(meta: Metadata, target: Snapshot) -> Cut:
    """The `Cut` after `target`, if the table was rolled back to it now.

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
    """Removes the snapshots after `target` and before its rollback `fence`, which is published. Returns the `Cut` that was
    carried out."""
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
