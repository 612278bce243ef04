"""Keeps the files of a snapshot while something that names them is published: a rollback, a branch.

1. Write a pin, which holds a copy of the snapshot.
2. Check that the snapshot can be found: it is retained, or tagged. If not, its files may be deleted at this moment.
3. Publish. 4. Delete the pin.

A program that deletes files first makes the snapshot impossible to find, then reads all pins and whatever is published, then
deletes what none of them names (`commit.holding`). So it sees the pin or the publication, or step 2 fails. Tags are made in the
same way (`commit.tags`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lsmlake.commit.tags import check_named, release
from lsmlake.errors import CommitUnknown, LakeError, SnapshotNotFound, StorageFailed
from lsmlake.format.snapshot import Snapshot
from lsmlake.store.metadata import Metadata


@contextmanager
def pinned(meta: Metadata, snapshot: Snapshot, uncertain: tuple[type[LakeError], ...] = (CommitUnknown,)) -> Iterator[None]:
    """Steps 1, 2 and 4 around the body, which is step 3.

    After an error of a class in `uncertain`, and when the process is interrupted, the publication may have happened or may still
    happen. The pin then stays, until it is old enough to be taken for one that a crash has left.

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
        _check_pin(meta, pin, snapshot)
    _unpin(meta, pin, snapshot)


def _unpin(meta: Metadata, pin: str, snapshot: Snapshot) -> None:
    """If the snapshot has expired meanwhile, its files were left to the pin. Perhaps nothing needs them any more: a cut may
    have removed what was published, too."""
    meta.tags.unpin(pin)
    with suppress(LakeError):  # they stay as files that nothing names
        release(meta, snapshot)


def _check_pin(meta: Metadata, pin: str, snapshot: Snapshot) -> None:
    if not meta.tags.is_pinned(pin):
        raise SnapshotNotFound(
            f"the program was suspended for so long that files of snapshot {snapshot.id} may have been deleted",
            where=meta.paths.root,
            expected=f"the pin {pin}",
            cure="verify the table; if files are missing, roll back to a snapshot that is retained",
        )
