"""Keeps the files of a snapshot while a tag, a branch or a rollback that references them is published.

1. Write a pin, which holds a copy of the snapshot.
2. Check that the snapshot can be found: it is retained, or tagged. If not, its files may be deleted at this moment.
3. Publish. 4. Check that the pin is still there. 5. Delete the pin.

A program that deletes files first makes the snapshot impossible to find, then reads all pins and all published references, then
deletes the files that none of them references (`refs.file_references`). So it sees the pin or the publication, or step 2 fails.

A process that dies leaves its pin. `remove_old_pins` treats a pin older than a day as that of a dead process. Every expiry of
snapshots (`retention.snapshot_expiry`) and every removal of orphan files (`retention.orphans`) calls it. If the process was only
suspended, its step 4 finds the pin missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lsmlake.errors import CommitUnknown, Corrupt, LakeError, SnapshotNotFound, StorageFailed
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.file_references import delete, files_of, unused
from lsmlake.storage.storage import Entry
from lsmlake.tables.snapshots import LIST_SNAPSHOTS
from lsmlake.tables.version import Metadata

_log = logging.getLogger("lsmlake.refs")

PIN_MS = 86_400_000  # far longer than a publication takes


@contextmanager
def pinned(
    meta: Metadata,
    snapshot: Snapshot,
    uncertain: tuple[type[LakeError], ...] = (CommitUnknown,),
    undo: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Does steps 1, 2, 4 and 5 around the body, which does step 3.

    After an error of a class in `uncertain`, and when the process is interrupted, the publication may have happened or may still
    happen. The pin then stays until `remove_old_pins` removes it.

    Args:
        meta: the table or branch.
        snapshot: the snapshot.
        uncertain: the errors after which it is unknown whether the publication has happened.
        undo: undoes the publication if the pin was deleted meanwhile; None: it cannot be undone.

    Raises:
        SnapshotNotFound: the snapshot has expired; or the body took so long that another process has deleted the pin.
    """
    pin = meta.tags.pin(snapshot)
    try:
        check_named(meta, snapshot)
        yield
    except LakeError as failed:
        if not isinstance(failed, uncertain):
            _unpin(meta, pin, snapshot)
        raise
    with suppress(StorageFailed):  # it is published
        if not meta.tags.is_pinned(pin):
            raise _lost(meta, pin, snapshot, undo)
    _unpin(meta, pin, snapshot)


def check_named(meta: Metadata, snapshot: Snapshot) -> None:
    """Raises SnapshotNotFound unless the snapshot is retained or tagged."""
    try:
        if meta.snapshots.get_kept(snapshot.id) == snapshot:
            return
    except SnapshotNotFound:
        meta.files.first_schema()
    if all(tag.snapshot != snapshot for tag in meta.tags.of_snapshot(snapshot.id)):
        raise _expired(meta, snapshot)


def release(meta: Metadata, snapshot: Snapshot) -> int:
    """Deletes the files of a snapshot that nothing needs any more; returns how many."""
    if meta.snapshots.is_kept(snapshot.id):
        return 0
    try:
        return delete(meta, unused(meta, snapshot, files_of(meta, snapshot)))
    except Corrupt as damaged:
        _log.warning("%s: files of snapshot %d were not deleted: %s", meta.paths.root, snapshot.id, damaged)
        return 0


def old_pins(meta: Metadata) -> list[Entry]:
    """The pins of dead processes."""
    before_ms = meta.env.clock() - PIN_MS
    return [entry for entry in meta.tags.pins() if entry.modified_ms < before_ms]


def remove_old_pins(meta: Metadata) -> int:
    """Deletes the pins of dead processes, and the files that only they need; returns how many files were deleted."""
    files = 0
    for entry in old_pins(meta):
        try:
            held = meta.tags.read_pin(entry.path)
        except Corrupt:
            held = None
        meta.tags.unpin(entry.path)
        files += release(meta, held) if held is not None else 0
    return files


def _unpin(meta: Metadata, pin: str, snapshot: Snapshot) -> None:
    """Deletes a pin. If the snapshot has expired meanwhile, the expiry left its files because of the pin; deletes those that
    nothing needs any more, since the published tag or branch may be gone, too."""
    meta.tags.unpin(pin)
    with suppress(LakeError):  # they stay as files that nothing names
        release(meta, snapshot)


def _lost(meta: Metadata, pin: str, snapshot: Snapshot, undo: Callable[[], object] | None) -> SnapshotNotFound:
    if undo is not None:
        undo()
        meta.files.first_schema()  # or the table was dropped or renamed
        return _expired(meta, snapshot)
    return SnapshotNotFound(
        f"the program was suspended for so long that files of snapshot {snapshot.id} may have been deleted",
        where=meta.paths.root,
        expected=f"the pin {pin}",
        cure="verify the table; if files are missing, roll back to a snapshot that is retained",
    )


def _expired(meta: Metadata, snapshot: Snapshot) -> SnapshotNotFound:
    return SnapshotNotFound(f"snapshot {snapshot.id} has expired", where=meta.paths.root, cure=LIST_SNAPSHOTS)
