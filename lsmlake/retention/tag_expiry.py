"""Creates automatic tags, and deletes expired tags. `refs.tagging` deletes each tag with the files that only it needs."""

from __future__ import annotations

import datetime

from lsmlake.errors import Corrupt, InvalidQuery, UnsupportedFormat
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.options.retention_options import WATERMARK
from lsmlake.options.table_options import Options
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


def create_due_tag(meta: Metadata, snapshot: Snapshot, options: Options) -> Tag | None:
    """Creates the automatic tag that is due at the commit of `snapshot`, and deletes the oldest ones if there are too many.

    One listing and one read for each handle and period, and otherwise no call of the storage.

    Returns:
        The tag; None if none is due, or if there is a tag of its name, of another writer or of a user.
    """
    time_ms = snapshot.watermark if options.tags.creation == WATERMARK else snapshot.time_ms
    if time_ms is None:
        return None
    calendar, cache = TagCalendar.of(options.tags), meta.files.cache
    key = (meta.paths.tags, calendar, "next automatic tag")
    if time_ms < cache.get(key, lambda: calendar.next_due_ms(_newest(meta, calendar, meta.tags.names())), _bytes_of):
        return None
    names = meta.tags.names()
    last = _newest(meta, calendar, names)
    name = calendar.due(last, names, time_ms)
    created = None if name is None or name in names else _created(meta, name, snapshot, options)
    cache.put(key, calendar.next_due_ms(name or last), _bytes_of)
    if created is not None:
        _delete_surplus(meta, calendar.of_form([*names, created.name]), options.tags.retained_max)
    return created


def _newest(meta: Metadata, calendar: TagCalendar, names: list[str]) -> str | None:
    """The newest automatic tag. Tags of users may have such names, too."""
    return next((name for name in reversed(calendar.of_form(names)) if _is_automatic(meta, name)), None)


def _is_automatic(meta: Metadata, name: str) -> bool:
    try:
        tag = meta.tags.read(name)
    except (Corrupt, UnsupportedFormat):  # nothing may delete it, but its period is tagged
        return True
    return tag is not None and tag.automatic


_BATCH = "batch-write-"


def create_batch_tag(meta: Metadata, snapshot: Snapshot, options: Options) -> None:
    """Gives the snapshot of a batch its tag, which the batch before may have had, and deletes the oldest ones of other days if
    there are too many. Source of the rules: Apache Paimon, `TagBatchCreation`."""
    day = datetime.datetime.fromtimestamp(snapshot.time_ms / 1000, datetime.timezone.utc).date()
    name = options.tags.batch_name or f"{_BATCH}{day}"
    tag_snapshot(meta, name, snapshot, options.tags.retained_ms, options, replacing=True, automatic=True)
    if options.tags.retained_max is not None:
        _delete_surplus(meta, [each for each in meta.tags.names() if each.startswith(_BATCH)], options.tags.retained_max)


def _created(meta: Metadata, name: str, snapshot: Snapshot, options: Options) -> Tag | None:
    try:
        return tag_snapshot(meta, name, snapshot, options.tags.retained_ms, options, automatic=True)
    except InvalidQuery:  # another writer has created it
        return None


def _delete_surplus(meta: Metadata, names: list[str], most: int | None) -> None:
    """Deletes the oldest automatic tags among `names`, a bounded number, so that at most `most` are left in the end."""
    if most is not None and len(names) > most:
        automatic = {tag.name for tag in meta.tags.readable() if tag.automatic}
        delete_tags(meta, [name for name in names if name in automatic][:-most][:_AT_ONCE])


def _bytes_of(value: object) -> int:
    return 64
