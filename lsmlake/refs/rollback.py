"""Rolls a table back: publishes a snapshot with the rows, the columns and the options of an older one.

1. Resolve the target: a snapshot, a tag or a time. Pin it, so that no other process deletes its files (`refs.pinned`).
2. If the schema of the target differs from the one in effect, store a new schema with its columns and options.
3. Publish a snapshot that names the manifests and vectors of the target, directly after the newest snapshot. If another commit
   comes first, start again.
4. With `cut`: remove the snapshots between the target and the new one (`refs.cut`).

A rollback deletes and copies no data; only step 4 deletes. Numbers of snapshots are never used twice, with `cut` neither: a
writer that is based on a removed snapshot conflicts with the new one, as after any commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.commit.requirements import Follows
from lsmlake.errors import CommitConflict, CommitUnknown, InvalidQuery, LakeError, SnapshotNotFound, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.notebook import Shown
from lsmlake.read.travel import Moment, resolve
from lsmlake.refs.cut import Cut, check_consumers, cut_out, plan_cut
from lsmlake.refs.pinned import pinned
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import attempts
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version

PROPERTY = "rollback-to"
_ROUNDS = 5


@dataclass(frozen=True)
class RollbackReport(Shown):
    """What a rollback does.

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
    """Roll the table back to `moment`; see `Table.rollback`. Returns the newest snapshot, and what was done or would be done.

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
            found=" and ".join(given) or "none",
            cure="give one of them",
        )


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
    and options. Ids of fields that `now` has and `then` has not are never used again."""
    highest = max(then.highest_field_id, now.highest_field_id)
    then = replace(then, partitioning=then.partitioning.after(now.partitioning))
    like_now = replace(then, id=now.id, highest_field_id=now.highest_field_id, time_ms=now.time_ms)
    return now if like_now.encode() == now.encode() else replace(then, id=number, highest_field_id=highest, time_ms=time_ms)


def _publish(version: Version, target: Snapshot) -> Snapshot:
    """Steps 2 and 3. Raises CommitConflict if another commit or alteration came first."""
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
