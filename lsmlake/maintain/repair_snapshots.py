"""Repairs a table whose newest snapshots are damaged: rolls back to the newest sound one, and drops unreadable ones.

1. Examine the snapshots, the newest first, until one is sound: all files that it references exist and are undamaged. A snapshot
   is *unreadable* if its own file is damaged, *damaged* if a file that it references is.
2. All further steps need consent: the caller names the snapshot to roll back to, which must be the newest sound one, and the
   unreadable ones to drop. Any other snapshot is never touched.
3. Roll back: as `refs.rollback`, if the newest snapshot is readable. Else publish the target again under the next number.
   The commits of unreadable snapshots are lost; their writers may repeat them.
4. Drop: replace the files by the marks of a rollback, which keep the numbers taken. Files that only dropped snapshots named are
   orphans from then on.
5. Publish Iceberg metadata, if commits do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.commit.commit import after_names
from lsmlake.errors import CommitConflict, Corrupt, InvalidQuery, LakeError, SnapshotNotFound, Wording, with_arguments
from lsmlake.format.snapshot import OVERWRITE, Snapshot
from lsmlake.maintain.verify import verify_snapshot
from lsmlake.notebook import Shown
from lsmlake.read.travel import Moment
from lsmlake.refs.pinned import pinned
from lsmlake.refs.rollback import PROPERTY, rollback
from lsmlake.tables.version import Metadata

SOUND, DAMAGED, UNREADABLE = "sound", "damaged", "unreadable"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class SnapshotRepairReport(Shown):
    """The examined snapshots, and the repairs made.

    Attributes:
        snapshots: one row per examined snapshot, the newest first: its number, 'sound', 'damaged' or 'unreadable', and the first
            finding. Snapshots older than the newest sound one are not examined.
        newest_sound: the number of the newest sound snapshot; None if there is none.
        snapshot_id: the snapshot that restored the newest sound one; None if nothing was restored.
        dropped: the numbers of the dropped snapshots.
    """

    snapshots: pa.Table
    newest_sound: int | None = None
    snapshot_id: int | None = None
    dropped: tuple[int, ...] = ()


def repair_snapshots(
    meta: Metadata, roll_back_to: int | None, drop: Sequence[int], name: str, progress: Progress = lambda what: None
) -> SnapshotRepairReport:
    """See `Table.repair_snapshots`. Calls `progress` with each file or bucket that is checked."""
    report = examine(meta, progress)
    if roll_back_to is None and not drop:
        return report
    states = dict(zip(*(report.snapshots[column].to_pylist() for column in ("snapshot_id", "state")), strict=True))
    _check_consent(report, states, roll_back_to, drop, name)
    restored = None
    if roll_back_to is not None and roll_back_to != max(states):
        if states[max(states)] == UNREADABLE:
            restored = _publish_again(meta, roll_back_to, max(states), states).id
        else:
            restored = rollback(meta, Moment(roll_back_to), "UTC", name)[0].id
    if drop:
        meta.snapshots.cut(sorted(drop, reverse=True))
    after_names(meta)
    return replace(report, snapshot_id=restored, dropped=tuple(sorted(drop)))


def examine(meta: Metadata, progress: Progress) -> SnapshotRepairReport:
    """Does step 1. Raises UnsupportedFormat for a snapshot of a newer version: it is not damaged."""
    fresh, rows, sound = meta.with_empty_cache(), [], None
    for number in reversed(fresh.snapshots.ids()):
        try:
            fresh.snapshots.get(number)
        except SnapshotNotFound:  # it has expired meanwhile
            continue
        except Corrupt as broken:
            rows.append((number, UNREADABLE, str(broken)))
            continue
        findings = verify_snapshot(fresh, number, progress)
        rows.append((number, DAMAGED if findings else SOUND, f"{findings[0].where}: {findings[0].what}" if findings else None))
        if not findings:
            sound = number
            break
    types = (("snapshot_id", pa.int64()), ("state", pa.string()), ("finding", pa.string()))
    columns = {column: pa.array([row[place] for row in rows], type_) for place, (column, type_) in enumerate(types)}
    return SnapshotRepairReport(pa.table(columns), sound)


def _check_consent(
    report: SnapshotRepairReport, states: dict[int, str], roll_back_to: int | None, drop: Sequence[int], name: str
) -> None:
    """Raises InvalidQuery unless the arguments name the snapshots found in step 1."""
    unreadable = sorted(number for number, state in states.items() if state == UNREADABLE)
    if roll_back_to is not None and roll_back_to != report.newest_sound:
        raise InvalidQuery(
            f"snapshot {roll_back_to} is not the newest sound one",
            where=name,
            expected=f"snapshot {report.newest_sound}" if report.newest_sound else "a sound snapshot, and there is none",
            found=roll_back_to,
            cure=Wording(
                "repair_snapshots() without arguments shows the state of the snapshots; rollback() goes to older ones",
                command="`lsmlake repair TABLE --snapshots` shows their state; `lsmlake rollback` goes to older ones",
            ),
        )
    if wrong := sorted(set(drop).difference(unreadable)):
        raise InvalidQuery(
            "only unreadable snapshots can be dropped",
            where=name,
            expected=f"some of {unreadable}",
            found=wrong,
            cure=Wording(
                "leave the others out; rollback() with cut and expire_snapshots() remove readable ones",
                command="leave the others out; `lsmlake rollback --cut` and `lsmlake expire` remove readable ones",
            ),
        )
    if drop and states[max(states)] == UNREADABLE and roll_back_to is None:
        raise InvalidQuery(
            "the newest snapshot is unreadable, so the table needs a snapshot to continue from",
            where=name,
            expected=with_arguments(f"{{}} {report.newest_sound}", "roll_back_to")
            if report.newest_sound
            else "a sound snapshot, and there is none",
            found="no snapshot to roll back to",
            cure=Wording("pass roll_back_to, too", command="add --roll-back-to"),
        )


def _publish_again(meta: Metadata, number: int, newest: int, states: dict[int, str]) -> Snapshot:
    """Publishes snapshot `number` again, after the unreadable snapshot `newest`."""
    target = meta.snapshots.get(number)
    readable = [meta.snapshots.get(one) for one, state in states.items() if state != UNREADABLE]
    last = max((one.newest_rollback for one in readable if one.newest_rollback is not None), default=None)
    named = []
    try:
        with pinned(meta, target):
            named.append(meta.manifests.put_list(meta.manifests.metas(target)))
            named.append(meta.manifests.put_list(()))
            snapshot = replace(
                target,
                id=newest + 1,
                base_manifest_list=named[0],
                delta_manifest_list=named[1],
                writer_id=meta.env.ids(),
                commit_id=None,
                kind=OVERWRITE,
                time_ms=max(meta.env.clock(), *(one.time_ms for one in readable)),
                delta_rows=0,
                changelog_manifest_list=None,
                changelog_rows=0,
                properties={PROPERTY: str(target.id)},
                restores=target.id,
                last_rollback=last,
                writers=dict(readable[0].writers),
                queries=dict(readable[0].queries),
            )
            if not meta.snapshots.put(snapshot):
                raise CommitConflict("another commit came first", where=meta.paths.root, cure="examine the snapshots again")
    except LakeError as failed:
        if isinstance(failed, CommitConflict):
            meta.files.delete_quietly(meta.paths.manifest(one.name) for one in named)
        raise
    return snapshot
