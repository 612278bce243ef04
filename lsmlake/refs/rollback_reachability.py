"""Finds the snapshots and tags that can need a file that is no longer live. Only a rollback makes such a file live again.

In a table without rollbacks, a file is live from one snapshot to another without a gap. So of all tagged snapshots before a
removed one, the newest stands for all. A rollback makes the files of an older snapshot live again, so every holder up to the
newest rollback may need any file; after it there are no gaps again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from lsmlake.errors import SnapshotNotFound, StorageFailed
from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.tags import Holder
from lsmlake.tables.version import Metadata

Read = TypeVar("Read")

_TRIES = 10


class Returns(NamedTuple):
    """The retained snapshots that may have made old files live again.

    Attributes:
        newest: the newest rollback; None: the table was never rolled back.
        retained: if the table was rolled back, the first retained snapshot and all retained rollbacks after it.
    """

    newest: int | None
    retained: tuple[Holder, ...] = ()

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(holder.snapshot for holder in self.retained)

    def near(self, holders: Sequence[Holder], number: int) -> list[Holder]:
        """Returns the holders and retained snapshots that may need files which ceased to be live after snapshot `number`."""
        older = newest_until(holders, number)
        near = [] if older is None else [older]
        if self.newest is not None:
            newer = [holder for holder in holders if holder.snapshot.id > self.newest]
            near += [holder for holder in holders if holder.snapshot.id <= self.newest]
            near += [*([min(newer, key=number_of)] if newer else []), *self.retained]
        return list({holder.snapshot.delta_manifest_list.name: holder for holder in near}.values())

    @staticmethod
    def of(meta: Metadata, first: int) -> Returns:
        """Reads the retained rollbacks from snapshot `first` on. In a table without rollbacks this costs one search for the
        newest snapshot."""
        latest = meta.snapshots.latest()
        if latest is None or latest.newest_rollback is None:
            return Returns(None)
        for _ in attempts_while_restless(meta):
            numbers = [number for number in meta.snapshots.ids() if number >= first]
            with suppress(SnapshotNotFound):  # one has expired meanwhile
                return Returns(latest.newest_rollback, tuple(_retained(meta, numbers, latest.newest_rollback)))


def _retained(meta: Metadata, numbers: Sequence[int], newest: int) -> Iterator[Holder]:
    """The first of `numbers`, and the rollbacks among the others."""
    yield retained(meta, numbers[0])
    rollback: int | None = newest
    while rollback is not None and rollback > numbers[0]:
        if rollback in numbers:
            yield (holder := retained(meta, rollback))
            rollback = holder.snapshot.last_rollback
        else:  # another rollback has cut it out
            before = max(number for number in numbers if number < rollback)
            rollback = meta.snapshots.get(before).newest_rollback


def retained(meta: Metadata, number: int) -> Holder:
    """A retained snapshot as a holder of its files. Raises SnapshotNotFound."""
    return Holder(f"snapshot {number}", meta.snapshots.get(number))


def newest_until(holders: Sequence[Holder], number: int) -> Holder | None:
    """The holder of the newest snapshot up to `number`."""
    return max((holder for holder in holders if holder.snapshot.id <= number), key=number_of, default=None)


def number_of(holder: Holder) -> int:
    return holder.snapshot.id


def settled(meta: Metadata, read: Callable[[], Read]) -> Read:
    """The result of `read`, repeated until no snapshot expires during the call."""
    for _ in attempts_while_restless(meta):
        with suppress(SnapshotNotFound):
            return read()


def attempts_while_restless(meta: Metadata) -> Iterator[int]:
    """Yields attempts to read tags and snapshots without a change by other programs. Raises StorageFailed after the last
    attempt."""
    failed = "tags or snapshots were removed while they were read, on every attempt"
    yield from attempts(_TRIES, failed, meta.paths.root, "delete tags and expire snapshots less often", kind=StorageFailed)
