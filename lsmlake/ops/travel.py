"""Time travel: a moment as users name it -> the snapshot that was the latest then."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.store.metadata import LIST_SNAPSHOTS, Metadata

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Moment:
    """At most one is set. `timestamp`: text 'YYYY-MM-DD HH:MM:SS[.f]' or a datetime, local time unless it has a zone."""

    snapshot: int | None = None
    timestamp: str | datetime.datetime | None = None


def resolve(meta: Metadata, moment: Moment) -> Snapshot | None:
    """The latest snapshot, or that of the moment; `None` for a table nothing was written to. Raises SnapshotNotFound."""
    if moment.snapshot is not None and moment.timestamp is not None:
        raise InvalidQuery("a snapshot and a timestamp are given", cure="give one of them")
    if moment.snapshot is not None:
        if isinstance(moment.snapshot, bool) or not isinstance(moment.snapshot, int):
            raise InvalidQuery("a snapshot is a number", found=repr(moment.snapshot), cure=LIST_SNAPSHOTS)
        snapshot = meta.snapshot(moment.snapshot)
        if not meta.is_numbered(snapshot.id + 1) and meta.latest_id() != snapshot.id:
            raise SnapshotNotFound(f"snapshot {snapshot.id} has expired", where=meta.paths.root, cure=LIST_SNAPSHOTS)
        return snapshot
    return meta.latest() if moment.timestamp is None else _at(meta, milliseconds(moment.timestamp))


def milliseconds(value: str | datetime.datetime) -> int:
    """Since the epoch, rounded down. Raises InvalidQuery."""
    try:
        when = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(str(value))
        when = when.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):  # no date, or in UTC none of the years 1 to 9999
        raise InvalidQuery(
            "not a timestamp",
            expected="'YYYY-MM-DD HH:MM:SS' or a datetime, of the years 1 to 9999 in UTC",
            found=repr(value),
            cure="correct it",
        ) from None
    return (when - _EPOCH) // datetime.timedelta(milliseconds=1)  # exact, unlike a float


def _at(meta: Metadata, time_ms: int) -> Snapshot:
    """The newest of that time or earlier. Not a binary search: a wrong clock may have dated a snapshot after the next one."""
    ids = meta.snapshot_ids()
    found = (snapshot for number in reversed(ids) if (snapshot := meta.snapshot(number)).time_ms <= time_ms)
    snapshot = next(found, None)
    if snapshot is None:
        raise SnapshotNotFound(
            "the table has no snapshot so old",
            where=meta.paths.root,
            expected=f"a time from {_text(meta, ids)} on",
            found=_iso(time_ms),
            cure=LIST_SNAPSHOTS,
        )
    return snapshot


def _text(meta: Metadata, ids: list[int]) -> str:
    return _iso(meta.snapshot(ids[0]).time_ms) if ids else "its first commit"


def _iso(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000).isoformat(sep=" ", timespec="milliseconds")
