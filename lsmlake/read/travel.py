"""Time travel: a moment as users name it -> the snapshot that was the latest then.

A time that names no zone is in the time zone of the runtime (`Runtime.zone`), as in the text of a predicate.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.predicate.spark_sql.literal import cast, zone_named
from lsmlake.store.metadata import LIST_SNAPSHOTS, Metadata

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Moment:
    """A snapshot number or a time; at most one is set. Neither means the latest snapshot."""

    snapshot: int | None = None
    timestamp: str | datetime.datetime | None = None


def resolve(meta: Metadata, moment: Moment, zone: str) -> Snapshot | None:
    """The latest snapshot, or that of the moment; `None` for a table nothing was written to. `zone`: the time zone of a timestamp
    that names none. Raises SnapshotNotFound, InvalidQuery."""
    if moment.snapshot is not None and moment.timestamp is not None:
        raise InvalidQuery("a snapshot and a timestamp are given", cure="give one of them")
    if moment.snapshot is not None:
        if isinstance(moment.snapshot, bool) or not isinstance(moment.snapshot, int):
            raise InvalidQuery("a snapshot is a number", found=repr(moment.snapshot), cure=LIST_SNAPSHOTS)
        snapshot = meta.snapshot(moment.snapshot)
        if not meta.is_numbered(snapshot.id + 1) and meta.latest_id() != snapshot.id:
            raise SnapshotNotFound(f"snapshot {snapshot.id} has expired", where=meta.paths.root, cure=LIST_SNAPSHOTS)
        return snapshot
    return meta.latest() if moment.timestamp is None else _at(meta, milliseconds(moment.timestamp, zone), zone)


def milliseconds(value: str | datetime.datetime, zone: str) -> int:
    """Milliseconds since the epoch, rounded down.

    Args:
        value: text in the format of a TIMESTAMP in a predicate, such as '2026-01-31 12:00:00' or '2026-01-31T12:00:00Z', or a
            datetime.
        zone: the name of the time zone of a value that names none.

    Raises:
        InvalidQuery: if `value` is no time, or none of the years 1 to 9999 in UTC.
    """
    clock = _zone(zone)
    try:
        when = cast(value, _INSTANT, clock)
    except (ValueError, OverflowError):  # no time, or in UTC none of the years 1 to 9999
        raise InvalidQuery(
            "not a timestamp",
            expected="'YYYY-MM-DD HH:MM:SS' or a datetime, of the years 1 to 9999 in UTC",
            found=repr(value),
            cure="correct it",
        ) from None
    return (when - _EPOCH) // datetime.timedelta(milliseconds=1)  # exact, unlike a float


def time_text(time_ms: int, zone: str) -> str:
    """A time on the clock of `zone`, with its offset from UTC; `milliseconds` reads it back."""
    moment = (_EPOCH + datetime.timedelta(milliseconds=time_ms)).astimezone(_zone(zone))
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zone_named(name)
    except ValueError as error:
        raise InvalidQuery("no such time zone", expected="a name such as Europe/Berlin or +01:00", found=name) from error


def _at(meta: Metadata, time_ms: int, zone: str) -> Snapshot:
    """The newest of that time or earlier. Not a binary search: a wrong clock may have dated a snapshot after the next one."""
    ids = meta.snapshot_ids()
    found = (snapshot for number in reversed(ids) if (snapshot := meta.snapshot(number)).time_ms <= time_ms)
    snapshot = next(found, None)
    if snapshot is None:
        earliest = time_text(meta.snapshot(ids[0]).time_ms, zone) if ids else "its first commit"
        raise SnapshotNotFound(
            "the table has no snapshot so old",
            where=meta.paths.root,
            expected=f"a time from {earliest} on",
            found=time_text(time_ms, zone),
            cure=LIST_SNAPSHOTS,
        )
    return snapshot
