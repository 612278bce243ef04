"""Follows the changes of a table from one `Offset` to a later one. The offset is the only state of a follower.

A stream may begin with all rows of a snapshot; then come the changes of each later snapshot. Each snapshot gives a list of pieces
(`cdc.change_reader`) that is always the same. So the pieces between two offsets are always the same, and a restart reads what it
read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from lsmlake.cdc.change_reader import Piece, insert_pieces, snapshot_pieces
from lsmlake.cdc.commits import Feed
from lsmlake.errors import InvalidQuery, SnapshotNotFound, naming, with_arguments
from lsmlake.tables.consumers import Progress, progress_of, put_consumer
from lsmlake.tables.live import Cache
from lsmlake.tables.snapshots import LIST_SNAPSHOTS
from lsmlake.tables.version import Metadata

LATEST_FULL, LATEST, SNAPSHOT, SNAPSHOT_FULL, TIMESTAMP = STARTS = (
    "latest-full",
    "latest",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
)


_KNOWN_BYTES = 16 << 20
_FILE_BYTES = 1 << 10  # of the description of a file, with its keys


class Offset(NamedTuple):
    """The next piece to read: number `pieces` of the changes of `snapshot`, or with `full` of all its rows."""

    snapshot: int
    pieces: int = 0
    full: bool = False


class Limit(NamedTuple):
    """The size limit of a batch, estimated from metadata; None = unlimited. A batch has at least one piece."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def exceeded(self, rows: int, bytes_: int, files: int) -> bool:
        wanted = zip(self, (rows, bytes_, files), strict=True)
        return any(most is not None and size > most for most, size in wanted)


UNLIMITED = Limit()


class Start(NamedTuple):
    """Where to start; names as in Paimon's `scan.mode`. `snapshot` is inclusive: its changes are read."""

    kind: str = LATEST_FULL
    snapshot: int | None = None
    time_ms: int | None = None


FULL_THEN_CHANGES = Start()


@dataclass(frozen=True)
class Follower:
    """Follows a table. `like`: columns and predicate; `mode`: see `cdc.change_reader`. `consumer`: continue from the recorded
    progress of this consumer."""

    meta: Metadata
    like: Feed
    mode: str
    start: Start = FULL_THEN_CHANGES
    consumer: str | None = None
    known: Cache = field(default_factory=partial(Cache, _KNOWN_BYTES), compare=False)

    def begin(self) -> Offset:
        """Returns the first offset: the consumer's progress, else that of `start`. Raises SnapshotNotFound."""
        known = progress_of(self.meta, self.consumer) if self.consumer else None
        if known is not None:
            with naming("consumer"):
                return self._from(known.next_snapshot)._replace(full=known.full)
        if self.start.kind == TIMESTAMP:
            return Offset(self._first_after(self.start.time_ms))
        with naming("snapshot"):
            if self.start.kind == SNAPSHOT_FULL:
                return Offset(self.meta.snapshots.get(self.start.snapshot).id, 0, True)
            if self.start.kind == SNAPSHOT:
                return self._from(self.start.snapshot)
        latest = self.meta.snapshots.latest_id() or 0
        return Offset(latest, 0, True) if latest and self.start.kind == LATEST_FULL else Offset(latest + 1)

    def end(self) -> Offset:
        """Returns the offset after the latest snapshot."""
        return Offset((self.meta.snapshots.latest_id() or 0) + 1)

    def advance(self, offset: Offset, limit: Limit = UNLIMITED, until: int | None = None) -> Offset:
        """Returns the end of the batch that starts at `offset`: within `limit`, not after snapshot `until` or the latest. Returns
        `offset` if there is nothing to read."""
        latest = self.meta.snapshots.latest_id() or 0
        last = latest if until is None else min(until, latest)
        if limit == UNLIMITED:
            return max(offset, Offset(last + 1), key=lambda place: place.snapshot)
        rows = bytes_ = files = 0
        while offset.snapshot <= last:
            pieces = self._pieces_at(offset)
            for number in range(offset.pieces, len(pieces)):
                piece = pieces[number]
                if files and limit.exceeded(rows + piece.rows, bytes_ + piece.bytes, files + piece.files):
                    return offset._replace(pieces=number)
                rows, bytes_, files = rows + piece.rows, bytes_ + piece.bytes, files + max(1, piece.files)
            offset = Offset(offset.snapshot + 1)
        return offset

    def pieces(self, offset: Offset, end: Offset) -> Iterator[tuple[int, Piece]]:
        """Yields (snapshot, piece) for the half-open range [offset, end). Raises SnapshotNotFound if a snapshot has expired."""
        while offset.snapshot <= end.snapshot:
            stop = end.pieces if offset.snapshot == end.snapshot else None
            if stop is None or stop > offset.pieces:
                yield from ((offset.snapshot, piece) for piece in self._pieces_at(offset)[offset.pieces : stop])
            offset = Offset(offset.snapshot + 1)

    def note(self, offset: Offset) -> None:
        """Records the progress of the consumer, if there is one: all pieces before `offset` are read."""
        if self.consumer is not None:
            put_consumer(self.meta, self.consumer, Progress(offset.snapshot, offset.full))

    def _pieces_at(self, offset: Offset) -> list[Piece]:
        return self.known.get(f"{offset.snapshot} {offset.full}", lambda: self._planned(offset), _bytes_of)

    def _planned(self, offset: Offset) -> list[Piece]:
        with self.meta.snapshots.unless_expired(*(number for number in (offset.snapshot - 1, offset.snapshot) if number)):
            if offset.full:
                return insert_pieces(self.meta, self.like, self.meta.snapshots.get(offset.snapshot), self.mode)
            return snapshot_pieces(self.meta, self.like, offset.snapshot, self.mode)

    def _from(self, snapshot: int) -> Offset:
        """Returns the offset of a snapshot whose changes are retained, or of the next one to come."""
        try:
            self.meta.snapshots.recorded(snapshot)
        except SnapshotNotFound:
            latest = self.meta.snapshots.latest_id() or 0
            if 1 <= snapshot <= latest:
                raise
            if snapshot != latest + 1:
                raise SnapshotNotFound(
                    f"snapshot {snapshot} to start from does not exist",
                    where=self.meta.paths.root,
                    expected=f"1 to {latest + 1}",
                    cure="start from one of these, or from latest-full",
                ) from None
        return Offset(snapshot)

    def _first_after(self, time_ms: int) -> int:
        """Returns the first snapshot committed at or after `time_ms`."""
        numbers = sorted({*self.meta.snapshots.recorded_ids(), *self.meta.snapshots.ids()})
        later = (number for number in numbers if self.meta.snapshots.recorded(number).time_ms >= time_ms)
        return next(later, (numbers[-1] if numbers else 0) + 1)


def _bytes_of(pieces: list[Piece]) -> int:
    return _FILE_BYTES * (1 + sum(1 + piece.described_files for piece in pieces))


_NO_SNAPSHOT = with_arguments(
    "pass {}, or another {}", "snapshot", "start", command="add --snapshot N, or choose another --start"
)


def check_start(start: Start, where: str) -> Start:
    """Returns `start`. Raises InvalidQuery if its values contradict each other."""

    def refuse(what: str, expected: str, found: object, cure: str) -> None:
        raise InvalidQuery(what, where=where, expected=expected, found="" if found is None else repr(found), cure=cure)

    if start.kind not in STARTS:
        refuse(with_arguments("unknown {}", "start"), " or ".join(STARTS), start.kind, "pass one of these")
    snapshot, needs = start.snapshot, start.kind in (SNAPSHOT, SNAPSHOT_FULL)
    if needs and snapshot is None:
        refuse(with_arguments(f"{{}} {start.kind!r} needs {{}}", "start", "snapshot"), "a snapshot id", None, _NO_SNAPSHOT)
    if not needs and snapshot is not None:
        expected = f"{SNAPSHOT!r} or {SNAPSHOT_FULL!r}"
        what, cure = f"{{}} {start.kind!r} takes no {{}}", with_arguments("omit {} or {}", "snapshot", "start")
        refuse(with_arguments(what, "start", "snapshot"), expected, start.kind, cure)
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int) or snapshot < 1):
        refuse(with_arguments("{} is a number", "snapshot"), "1 or more", snapshot, LIST_SNAPSHOTS)
    if start.kind == TIMESTAMP and start.time_ms is None:
        cure = with_arguments("pass {}", "timestamp", command="add --timestamp TIME")
        refuse(with_arguments(f"{{}} {start.kind!r} needs {{}}", "start", "timestamp"), "a time", None, cure)
    if start.kind != TIMESTAMP and start.time_ms is not None:
        what, cure = f"{{}} {start.kind!r} takes no {{}}", with_arguments("omit {} or {}", "timestamp", "start")
        refuse(with_arguments(what, "start", "timestamp"), repr(TIMESTAMP), start.kind, cure)
    return start
