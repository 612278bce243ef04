"""Time travel: resolves a snapshot id, a tag or a timestamp to a snapshot.

A time without a zone is in the time zone of the runtime (`Runtime.zone`), as in the text of a predicate.
"""

from __future__ import annotations

import datetime
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.errors import InvalidQuery, SnapshotNotFound, Wording, with_arguments
from lsmlake.format.snapshot import Snapshot
from lsmlake.tables.snapshots import LIST_SNAPSHOTS
from lsmlake.tables.version import Metadata
from lsmlake.types.literal import cast, zone_named

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_YEARS = "in the years 1 to 9999 in UTC"
_TIME = Wording(
    f"'YYYY-MM-DD HH:MM:SS' or a datetime, {_YEARS}",
    command=f"'YYYY-MM-DD HH:MM:SS', {_YEARS}",
    sql=f"'YYYY-MM-DD HH:MM:SS', {_YEARS}",
)
_INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Moment:
    """A snapshot id, a time or the name of a tag, at most one of them. None of them means the latest snapshot."""

    snapshot: int | None = None
    timestamp: str | datetime.datetime | None = None
    tag: str | None = None


def resolve(meta: Metadata, moment: Moment, zone: str) -> Snapshot | None:
    """Returns the snapshot of the moment, by default the latest; None for a table without snapshots.

    An expired snapshot is found as long as it has a tag.

    Args:
        meta: The table.
        moment: A snapshot id, a time or a tag.
        zone: The time zone of a timestamp without a zone.

    Raises:
        SnapshotNotFound: The snapshot does not exist or has expired, there is no such tag, or all snapshots are newer than the
            time.
        InvalidQuery: `moment` has more than one part, or one of them is invalid.
    """
    given = [name for name in ("snapshot", "tag", "timestamp") if getattr(moment, name) is not None]
    if len(given) > 1:
        raise InvalidQuery(
            with_arguments(" and ".join(["{}"] * len(given)) + " exclude each other", *given), cure="pass one of them"
        )
    if moment.tag is not None:
        return meta.tags.get(moment.tag).snapshot
    if moment.snapshot is not None:
        return _numbered(meta, moment.snapshot)
    return meta.snapshots.latest() if moment.timestamp is None else _at(meta, milliseconds(moment.timestamp, zone), zone)


def _numbered(meta: Metadata, number: int) -> Snapshot:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidQuery("a snapshot is a number", found=repr(number), cure=LIST_SNAPSHOTS)
    try:
        return meta.snapshots.get_kept(number)
    except SnapshotNotFound:
        tagged = meta.tags.of_snapshot(number)
        if not tagged:
            raise
        return tagged[0].snapshot


def milliseconds(value: str | datetime.datetime, zone: str) -> int:
    """Milliseconds since the epoch, rounded down.

    Args:
        value: Text in the format of a TIMESTAMP in a predicate, such as '2026-01-31 12:00:00' or '2026-01-31T12:00:00Z', or a
            datetime.
        zone: The time zone of a value without a zone.

    Raises:
        InvalidQuery: `value` is not a time, or not in the years 1 to 9999 in UTC.
    """
    clock = _zone(zone)
    try:
        when = cast(value, _INSTANT, clock)
    except (ValueError, OverflowError):  # not a time, or outside the years 1 to 9999
        raise InvalidQuery(
            "not a timestamp",
            expected=_TIME,
            found=repr(value),
            cure="correct the timestamp",
        ) from None
    return (when - _EPOCH) // datetime.timedelta(milliseconds=1)  # exact, unlike a float


def time_text(time_ms: int, zone: str) -> str:
    """Formats a time in the time zone `zone`, with its offset from UTC. `milliseconds` parses the result."""
    moment = (_EPOCH + datetime.timedelta(milliseconds=time_ms)).astimezone(_zone(zone))
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zone_named(name)
    except ValueError as error:
        raise InvalidQuery("unknown time zone", expected="a name such as Europe/Berlin or +01:00", found=name) from error


def newest_until(meta: Metadata, time_ms: int) -> Snapshot | None:
    """The newest snapshot committed at or before `time_ms`. Not a binary search: with a wrong clock, times may not ascend."""
    with closing(meta.snapshots.each(reversed(meta.snapshots.ids()))) as newest_first:
        return next((one for one in newest_first if one.time_ms <= time_ms), None)


def _at(meta: Metadata, time_ms: int, zone: str) -> Snapshot:
    snapshot = newest_until(meta, time_ms)
    if snapshot is None:
        ids = meta.snapshots.ids()
        earliest = time_text(meta.snapshots.get(ids[0]).time_ms, zone) if ids else "its first commit"
        raise SnapshotNotFound(
            "all snapshots of the table are newer than the timestamp",
            where=meta.paths.root,
            expected=f"a time from {earliest} on",
            found=time_text(time_ms, zone),
            cure=_cure_before(meta, time_ms),
        )
    return snapshot


def _cure_before(meta: Metadata, time_ms: int) -> str:
    """The cure for the error that all snapshots are newer than a time: a tag may hold an older snapshot."""
    older = [tag for tag in meta.tags.readable() if tag.snapshot.time_ms <= time_ms]
    if not older:
        return LIST_SNAPSHOTS
    nearest = max(older, key=lambda tag: tag.snapshot.time_ms).name
    return f"read the tag {nearest!r}, which is the last one before that time"
