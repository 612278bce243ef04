"""Creates a tag by the arguments of a user: finds the snapshot and completes the retention by the options of the table."""

from __future__ import annotations

import datetime

from lsmlake.errors import InvalidOption, InvalidQuery, Wording
from lsmlake.format.tag import Tag
from lsmlake.options.types import duration
from lsmlake.read.travel import Moment, resolve
from lsmlake.refs import tags
from lsmlake.tables.metadata import Metadata

_RETAIN = Wording("correct retain", command="correct --retain")
_RETAIN_MAX_MS = 1 << 50


def create_tag(
    meta: Metadata, name: str, moment: Moment, zone: str, retain: str | datetime.timedelta | None, *, replacing: bool
) -> Tag:
    """Give the snapshot of a moment a name.

    Args:
        meta: the table.
        name: the name of the tag.
        moment: which snapshot; by default the latest.
        zone: the time zone of a timestamp without a zone.
        retain: how long the tag is kept; None: as the options of the table say.
        replacing: whether to replace a tag of that name.

    Raises:
        InvalidQuery: an argument is not valid, the name is taken, or the table has no snapshot.
        SnapshotNotFound: the snapshot has expired.
    """
    retain_ms = None if retain is None else _milliseconds(retain)
    snapshot = resolve(meta, moment, zone)
    if snapshot is None:
        raise InvalidQuery("the table has no snapshot that could be tagged", where=meta.paths.root, cure="write to it first")
    if retain_ms is None:
        latest = meta.snapshots.latest()
        retain_ms = meta.schemas.of(latest).parsed_options.tags.retained_ms
    return tags.create_tag(meta, name, snapshot, retain_ms, replacing=replacing)


def _milliseconds(retain: str | datetime.timedelta) -> int:
    try:
        if isinstance(retain, datetime.timedelta):
            found = retain // datetime.timedelta(milliseconds=1)
        else:
            found = duration.parse("retain", retain, "retain")
    except (InvalidOption, OverflowError):
        found = 0
    if not 0 < found <= _RETAIN_MAX_MS:
        raise InvalidQuery(
            "not a duration for which a tag can be kept", expected="such as '7 d' or '12 h'", found=repr(retain), cure=_RETAIN
        )
    return found
