"""Following a table: from a place in its history to a later one, piece by piece. An `Offset` is all there is to remember.

History is the rows of one snapshot in full, if it begins so, then the changes of every snapshot after it. Each is a row of pieces
(`cdc.changes`) that is the same whenever it is asked for, and so are the pieces between two offsets: what a restart reads again
is what it has read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.cdc.changes import Piece, everything, of_snapshot
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.read.plan import Plan
from lsmlake.store.consumers import Progress, progress_of, put_consumer
from lsmlake.store.metadata import Cache, Metadata

LATEST_FULL, LATEST, SNAPSHOT, SNAPSHOT_FULL, TIMESTAMP = STARTS = (
    "latest-full",
    "latest",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
)


class Offset(NamedTuple):
    """What is read next: piece number `pieces` of `snapshot` - of its rows in `full`, or of its changes."""

    snapshot: int
    pieces: int = 0
    full: bool = False


class Limit(NamedTuple):
    """How much is read at a time, going by metadata; `None` = any. The first piece is read in any case."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def exceeded(self, rows: int, bytes_: int, files: int) -> bool:
        wanted = zip(self, (rows, bytes_, files), strict=True)
        return any(most is not None and found > most for most, found in wanted)


UNLIMITED = Limit()


class Start(NamedTuple):
    """Where to begin; names as Paimon's `scan.mode`. A snapshot's changes are read with it (inclusive)."""

    kind: str = LATEST_FULL
    snapshot: int | None = None
    time_ms: int | None = None


FULL_THEN_CHANGES = Start()


@dataclass(frozen=True)
class Follower:
    """`like`: columns and predicate; `mode`: of `cdc.changes`. `consumer`: goes on where one of that name has stopped."""

    meta: Metadata
    like: Plan
    mode: str
    start: Start = FULL_THEN_CHANGES
    consumer: str | None = None
    known: Cache = field(default_factory=Cache, compare=False)

    def begin(self) -> Offset:
        """Raises SnapshotNotFound."""
        known = progress_of(self.meta, self.consumer) if self.consumer else None
        if known is not None:
            return self._from(known.next_snapshot)._replace(full=known.full)
        latest = self.meta.latest_id() or 0
        if self.start.kind == LATEST:
            return Offset(latest + 1)
        if self.start.kind == LATEST_FULL:
            return Offset(latest, 0, True) if latest else Offset(1)
        if self.start.kind == TIMESTAMP:
            return self._from(self._first_after(self.start.time_ms))
        if self.start.kind == SNAPSHOT_FULL:
            return Offset(self.meta.snapshot(self.start.snapshot).id, 0, True)
        return self._from(self.start.snapshot)

    def end(self) -> Offset:
        """After all that there is now."""
        return Offset((self.meta.latest_id() or 0) + 1)

    def advance(self, offset: Offset, limit: Limit = UNLIMITED, until: int | None = None) -> Offset:
        """The offset that follows `offset` by as much as may be read at a time, not beyond snapshot `until` or the latest;
        `offset` itself if there is nothing to read."""
        latest = self.meta.latest_id() or 0
        last = latest if until is None else min(until, latest)
        if limit == UNLIMITED:
            return max(offset, Offset(last + 1), key=lambda place: place.snapshot)
        rows = bytes_ = files = 0
        while offset.snapshot <= last:
            pieces = self._of(offset)
            for number in range(offset.pieces, len(pieces)):
                piece = pieces[number]
                if files and limit.exceeded(rows + piece.rows, bytes_ + piece.bytes, files + piece.files):
                    return offset._replace(pieces=number)
                rows, bytes_, files = rows + piece.rows, bytes_ + piece.bytes, files + max(1, piece.files)
            offset = Offset(offset.snapshot + 1)
        return offset

    def pieces(self, offset: Offset, end: Offset) -> Iterator[tuple[int, Piece]]:
        """(snapshot, piece) from `offset` up to, not including, `end`. Raises SnapshotNotFound for what has expired meanwhile."""
        while offset.snapshot <= end.snapshot:
            stop = end.pieces if offset.snapshot == end.snapshot else None
            if stop is None or stop > offset.pieces:
                yield from ((offset.snapshot, piece) for piece in self._of(offset)[offset.pieces : stop])
            offset = Offset(offset.snapshot + 1)

    def note(self, offset: Offset) -> None:
        """Have the consumer, if there is one, know that everything before `offset` is read."""
        if self.consumer is not None:
            put_consumer(self.meta, self.consumer, Progress(offset.snapshot, offset.full))

    def _of(self, offset: Offset) -> list[Piece]:
        return self.known.get(f"{offset.snapshot} {offset.full}", lambda: self._made(offset))

    def _made(self, offset: Offset) -> list[Piece]:
        with self.meta.unless_expired(*(number for number in (offset.snapshot - 1, offset.snapshot) if number)):
            return self._read(offset)

    def _read(self, offset: Offset) -> list[Piece]:
        if offset.full:
            return everything(self.meta, self.like, self.meta.snapshot(offset.snapshot), self.mode)
        return of_snapshot(self.meta, self.like, self.meta.recorded(offset.snapshot), self.mode)

    def _from(self, snapshot: int) -> Offset:
        latest = self.meta.latest_id() or 0
        if not 1 <= snapshot <= latest + 1:
            raise SnapshotNotFound(
                f"there is no snapshot {snapshot} to start from",
                where=self.meta.paths.root,
                expected=f"1 to {latest + 1}",
                cure="start from one of them, or from latest-full",
            )
        if snapshot <= latest:
            self.meta.recorded(snapshot)
        return Offset(snapshot)

    def _first_after(self, time_ms: int) -> int:
        """The first snapshot of that time or later."""
        numbers = sorted({*self.meta.recorded_ids(), *self.meta.snapshot_ids()})
        later = (number for number in numbers if self.meta.recorded(number).time_ms >= time_ms)
        return next(later, (numbers[-1] if numbers else 0) + 1)


def check_start(start: Start, where: str) -> Start:
    """`start` itself. Raises InvalidQuery if its parts do not go together."""

    def refuse(what: str, expected: str, found: object, cure: str) -> None:
        raise InvalidQuery(what, where=where, expected=expected, found=repr(found), cure=cure)

    if start.kind not in STARTS:
        refuse("unknown place to start from", " or ".join(STARTS), start.kind, "correct it")
    snapshot, needs = start.snapshot, start.kind in (SNAPSHOT, SNAPSHOT_FULL)
    if needs != (snapshot is not None):
        refuse(f"start {start.kind!r} and a snapshot", "both or none of them", snapshot, "give snapshot=..., or another start")
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int) or snapshot < 1):
        refuse("a snapshot is a number", "1 or more", snapshot, "snapshots() lists them")
    if start.kind == TIMESTAMP and start.time_ms is None:
        refuse(f"start {start.kind!r} needs a timestamp", "a time", None, "give timestamp=...")
    if start.kind != TIMESTAMP and start.time_ms is not None:
        refuse(f"start {start.kind!r} takes no timestamp", TIMESTAMP, start.kind, "leave timestamp or start out")
    return start
