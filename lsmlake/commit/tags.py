"""Creates, replaces, renames and deletes tags. `store.tags` holds the order of steps that protects their files from deletion.

1. Pin the snapshot. Check that the snapshot is retained or tagged.
2. Write the tag. Unpin the snapshot.
3. If a tag was replaced or deleted: delete the files that only it needed (`commit.holding`).

A crash leaves a pin or files that nothing needs, never a tag whose files are missing. `remove_old_pins` deletes pins of the dead.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from lsmlake.commit.holding import delete, files_of, unused
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, TableNotFound, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.notebook import Shown
from lsmlake.store.metadata import Metadata
from lsmlake.store.snapshots import LIST_SNAPSHOTS

_log = logging.getLogger("lsmlake")

_PIN_MS = 86_400_000  # far longer than writing a tag takes
_TAKEN = Wording(
    "create_tag(..., replace=True) replaces it, or choose another name",
    command="`lsmlake tag TABLE --create NAME --replace` replaces it, or choose another name",
)


@dataclass(frozen=True)
class TagReport(Shown):
    """The tags that were deleted, and the number of files deleted with them.

    Attributes:
        tags: the names of the tags.
        files: how many files were deleted, of any kind; with `dry_run`, how many would be.
        left: tag -> why its files were not deleted.
    """

    tags: tuple[str, ...] = ()
    files: int = 0
    left: Mapping[str, str] = field(default_factory=dict)


def create_tag(meta: Metadata, name: str, snapshot: Snapshot, retain_ms: int | None, *, replacing: bool = False) -> Tag:
    """Give a snapshot a name.

    Args:
        meta: the table.
        name: the name of the tag.
        snapshot: a retained or tagged snapshot.
        retain_ms: how long the tag is kept; None: until it is deleted.
        replacing: whether to replace a tag of that name, if there is one.

    Raises:
        InvalidQuery: the name is not valid, or it is taken.
        SnapshotNotFound: the snapshot has expired.
    """
    meta.paths.tag(name)
    tag = Tag(name, snapshot, meta.env.clock(), retain_ms)
    before = _readable(meta, name) if replacing else None
    _put(meta, tag, replacing=replacing)
    if before is not None and before.snapshot != snapshot:
        release(meta, before.snapshot)
    return tag


def rename_tag(meta: Metadata, name: str, to: str) -> Tag:
    """Give a tag another name.

    Raises:
        InvalidQuery: the new name is not valid, or it is taken.
        SnapshotNotFound: there is no tag of that name.
    """
    meta.paths.tag(to)
    renamed = replace(meta.tags.get(name), name=to)
    if name != to:
        _put(meta, renamed)
        meta.tags.remove(name)
    return renamed


def delete_tag(meta: Metadata, name: str, *, dry_run: bool = False) -> TagReport:
    """Delete a tag, and the files that only it needs. Raises SnapshotNotFound if there is no tag of that name."""
    if not meta.tags.exists(name):
        meta.files.first_schema()
        raise meta.tags.missing(name)
    return delete_tags(meta, [name], dry_run=dry_run)


def delete_tags(meta: Metadata, names: Collection[str], *, dry_run: bool = False) -> TagReport:
    """Delete tags one after the other, and the files that only they need. A tag that does not exist is skipped."""
    deleted, files, left = [], 0, {}
    for name in names:
        try:
            tag = meta.tags.read(name)
            needed = None if tag is None else files_of(meta, tag.snapshot)
        except Corrupt as damaged:
            if not meta.tags.exists(name):  # another program has deleted it
                continue
            tag, needed, left[name] = None, None, str(damaged)
        if tag is None and name not in left:
            continue
        deleted.append(name)
        if not dry_run:
            meta.tags.remove(name)
        if tag is not None:
            try:
                paths = unused(meta, tag.snapshot, needed, deleted)
                files += len(paths) if dry_run else delete(meta, paths)
            except Corrupt as damaged:
                left[name] = str(damaged)
    return TagReport(tuple(deleted), files, left)


def remove_old_pins(meta: Metadata) -> int:
    """Delete pins that a crash has left, and the files that only they need; returns how many files were deleted."""
    limit, files = meta.env.clock() - _PIN_MS, 0
    for entry in meta.tags.pins():
        if entry.modified_ms >= limit:
            continue
        try:
            pinned = meta.tags.read_pin(entry.path)
        except Corrupt:
            pinned = None
        meta.tags.unpin(entry.path)
        files += release(meta, pinned) if pinned is not None else 0
    return files


def _put(meta: Metadata, tag: Tag, *, replacing: bool = False) -> None:
    """Steps 1 and 2."""
    pin = meta.tags.pin(tag.snapshot)
    try:
        check_named(meta, tag.snapshot)
        if replacing:
            meta.tags.replace(tag)
        elif not meta.tags.put(tag):
            raise InvalidQuery("the name of the tag is taken", where=meta.paths.root, found=repr(tag.name), cure=_TAKEN)
        if not meta.tags.is_pinned(pin):  # suspended for so long that the pin was taken for one of the dead
            meta.tags.remove(tag.name)
            meta.files.first_schema()  # or the table was dropped or renamed
            raise _gone(meta, tag.snapshot)
    except TableNotFound:
        meta.tags.unpin(pin)
        raise
    except (InvalidQuery, SnapshotNotFound):
        meta.tags.unpin(pin)
        release(meta, tag.snapshot)  # it may have expired meanwhile, and the pin has kept its files
        raise
    meta.tags.unpin(pin)  # after another error, the tag may be there or not, so the pin stays


def check_named(meta: Metadata, snapshot: Snapshot) -> None:
    """Raises SnapshotNotFound unless the snapshot is retained or tagged."""
    try:
        if meta.snapshots.get_kept(snapshot.id) == snapshot:
            return
    except SnapshotNotFound:
        meta.files.first_schema()
    if all(tag.snapshot != snapshot for tag in meta.tags.of_snapshot(snapshot.id)):
        raise _gone(meta, snapshot)


def _gone(meta: Metadata, snapshot: Snapshot) -> SnapshotNotFound:
    return SnapshotNotFound(f"snapshot {snapshot.id} has expired", where=meta.paths.root, cure=LIST_SNAPSHOTS)


def _readable(meta: Metadata, name: str) -> Tag | None:
    """A tag; None if there is none, or if its file is damaged."""
    try:
        return meta.tags.read(name)
    except Corrupt:
        return None


def release(meta: Metadata, snapshot: Snapshot) -> int:
    """Delete the files of a snapshot that nothing needs any more; returns how many."""
    if meta.snapshots.is_kept(snapshot.id):
        return 0
    try:
        return delete(meta, unused(meta, snapshot, files_of(meta, snapshot)))
    except Corrupt as damaged:
        _log.warning("%s: files of snapshot %d were not deleted: %s", meta.paths.root, snapshot.id, damaged)
        return 0
