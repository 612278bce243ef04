"""Creates automatic tags, and deletes expired tags. `refs.tagging` deletes each tag with the files that only it needs."""

from __future__ import annotations

from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.options.retention_options import TagOptions
from lsmlake.refs.tagging import TagCalendar, TagReport, delete_tags, tag_snapshot
from lsmlake.tables.version import Metadata

_AT_ONCE = 50  # tags that one commit deletes


def expire_tags(
    meta: Metadata, older_than_ms: int | None = None, *, limit: int | None = None, dry_run: bool = False
) -> TagReport:
    """Deletes the tags whose retention time is over.

    Args:
        meta: the table.
        older_than_ms: also delete tags created before this time.
        limit: delete at most this many tags; None: no limit.
        dry_run: delete nothing.

    Raises:
        Corrupt: a tag is damaged.
        TableNotFound: the table was dropped or renamed.
    """
    now_ms = meta.env.clock()

    def is_due(tag: Tag) -> bool:
        over = tag.expire_time_ms is not None and tag.expire_time_ms < now_ms
        return over or (older_than_ms is not None and tag.create_time_ms < older_than_ms)

    due = [tag.name for tag in meta.tags.all() if is_due(tag)]
    return delete_tags(meta, due[:limit], dry_run=dry_run)


def create_due_tag(meta: Metadata, snapshot: Snapshot, options: TagOptions) -> Tag | None:
    """Creates the automatic tag that is due at the commit of `snapshot`, and deletes the oldest ones if there are too many.

    One listing for each handle and period, and otherwise no call of the storage.

    Returns:
        The tag; None if none is due, or if another writer has created it.
    """
    calendar, cache = TagCalendar.of(options), meta.files.cache
    key = (meta.paths.tags, calendar, "next automatic tag")
    if snapshot.time_ms < cache.get(key, lambda: calendar.next_due_ms(meta.tags.names()), _bytes_of):
        return None
    names = meta.tags.names()
    name = calendar.due(names, snapshot.time_ms)
    created = None if name is None else _created(meta, name, snapshot, options.retained_ms)
    names = names if created is None else [*names, created.name]
    cache.put(key, calendar.next_due_ms(names if created is not None or name is None else [*names, name]), _bytes_of)
    if created is not None:
        _delete_surplus(meta, calendar.automatic(names), options.retained_max)
    return created


def _created(meta: Metadata, name: str, snapshot: Snapshot, retain_ms: int | None) -> Tag | None:
    try:
        return tag_snapshot(meta, name, snapshot, retain_ms)
    except InvalidQuery:  # another writer has created it
        return None


def _delete_surplus(meta: Metadata, automatic: list[str], most: int | None) -> None:
    """Deletes the oldest automatic tags, a bounded number, so that at most `most` are left in the end."""
    if most is not None:
        delete_tags(meta, automatic[:-most][:_AT_ONCE])


def _bytes_of(value: object) -> int:
    return 64
