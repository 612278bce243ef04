"""The history of work: what each compaction, split and expiry did, and when.

It has two sources, and costs writers nothing:

- Snapshots that are retained: the manifests of a commit say which files it removed and added. That is all there is to know of the
  compactions that writers do.
- Records of maintainers, of everything that they did, also of what makes no commit and of what failed. They lie beside the
  tables, `maintenance/history/<line>-<n>`, one small file per table or branch with its newest records. A maintainer that adds
  some creates file n + 1 if absent and deletes file n.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.errors import Corrupt, SnapshotNotFound, UnsupportedFormat
from lsmlake.format.manifest import ADD, DELETE
from lsmlake.format.snapshot import ANALYZE, APPEND, Snapshot
from lsmlake.schema import envelope
from lsmlake.storage.concurrency import attempts
from lsmlake.storage.env import Env
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.version import Metadata

FOLDER = "maintenance/history"
RECORDS_MAX = 200
"""Records of a table or branch that are kept."""
_SNAPSHOTS_MAX = 1_000  # retained snapshots that are looked at, the newest
_ATTEMPTS = 5
_DAY_MS = 86_400_000
_FILE = re.compile(rf"{FOLDER}/(.+)-(\d{{1,18}})")
_TIME = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class WorkRecord:
    """A piece of work that was done.

    Attributes:
        table: the table or branch.
        kind: what was done, such as "compact" or "expire_snapshots".
        reason: why; None for work of a writer.
        start_ms: when it began; None: unknown.
        end_ms: when it ended.
        snapshot_id: the snapshot that it published; None: none.
        rows: the rows written or, of a removal, removed.
        bytes_in: the bytes of the files that were replaced or removed.
        bytes_level0: those of them that were at level 0, moved files included.
        bytes_out: the bytes of new files.
        files_in: how many files were replaced or removed.
        files_out: how many files replace them.
        who: the maintainer, or the writer of the commit.
        error: why it failed; None: it did not.
    """

    table: str
    kind: str
    reason: str | None
    start_ms: int | None
    end_ms: int
    snapshot_id: int | None = None
    rows: int | None = None
    bytes_in: int | None = None
    bytes_level0: int | None = None
    bytes_out: int | None = None
    files_in: int | None = None
    files_out: int | None = None
    who: str | None = None
    error: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the work changed anything."""
        return self.snapshot_id is not None or bool(self.files_in or self.files_out)


_NAMES = tuple(field.name for field in fields(WorkRecord))


class WorkSummary(NamedTuple):
    """What the next decisions need of the records of a table or branch.

    Attributes:
        last_ms: kind of work -> when it last succeeded.
        moved: (when it ended, kind, bytes in and out) of each work of the last day that moved bytes.
    """

    last_ms: Mapping[str, int] = MappingProxyType({})
    moved: tuple[tuple[int, str, int], ...] = ()

    @staticmethod
    def of(records: Sequence[WorkRecord]) -> WorkSummary:
        """`records`: oldest first."""
        since_ms = records[-1].end_ms - _DAY_MS if records else 0
        sizes = ((one.end_ms, one.kind, (one.bytes_in or 0) + (one.bytes_out or 0)) for one in records)
        moved = tuple(one for one in sizes if one[0] >= since_ms and one[2])
        return WorkSummary({one.kind: one.end_ms for one in records if one.error is None}, moved)

    def spent(self, kinds: Collection[str], now_ms: int) -> int:
        """The bytes that works of some kinds moved in the last 24 hours."""
        return sum(size for end_ms, kind, size in self.moved if kind in kinds and end_ms >= now_ms - _DAY_MS)


def listing(records: Iterable[WorkRecord]) -> pa.Table:
    """Records as rows, oldest first. `write_amplification`: bytes written per byte taken from level 0; null if none was."""
    rows = sorted(records, key=lambda one: (one.end_ms, one.table, one.snapshot_id or 0))
    counts = "snapshot_id", "rows", "bytes_in", "bytes_level0", "bytes_out", "files_in", "files_out"
    written = [one.bytes_out / one.bytes_level0 if one.bytes_level0 and one.bytes_out is not None else None for one in rows]
    return pa.table(
        {
            "table_name": pa.array([one.table for one in rows], pa.string()),
            "kind": pa.array([one.kind for one in rows], pa.string()),
            "reason": pa.array([one.reason for one in rows], pa.string()),
            "start_time": pa.array([one.start_ms for one in rows], _TIME),
            "end_time": pa.array([one.end_ms for one in rows], _TIME),
            **{name: pa.array([getattr(one, name) for one in rows], pa.int64()) for name in counts},
            "write_amplification": pa.array(written, pa.float64()),
            "who": pa.array([one.who for one in rows], pa.string()),
            "error": pa.array([one.error for one in rows], pa.string()),
        }
    )


# -- records of maintainers -------------------------------------------------------------------------------------------


class _Content(NamedTuple):
    """What a file holds."""

    records: Sequence[WorkRecord] = ()
    marked: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class WorkHistory:
    """The records of the maintainers of a warehouse. Keeps a summary of each file that it read: no file changes."""

    env: Env
    _known: dict[str, tuple[int, WorkSummary]] = field(default_factory=dict, repr=False)

    def add(self, line: str, records: Sequence[WorkRecord], marks: Mapping[str, int] = MappingProxyType({})) -> None:
        """Adds records of a table or branch, and drops the oldest ones. `marks`: partitions that were marked as done, each with
        the snapshot that brought its newest rows. Raises StorageFailed, CommitConflict."""
        failed = "other maintainers added records first on every attempt"
        for _ in attempts(_ATTEMPTS, failed, FOLDER, "run one maintainer at a time"):
            number = self._newest(line)
            before = self._content(line, number) if number else _Content()
            kept, marked = [*before.records, *records][-RECORDS_MAX:], {**before.marked, **marks}
            rows = [{name: getattr(one, name) for name in _NAMES} for one in kept]
            data = envelope.wrap_json("maintenance", {"line": line, "records": rows, "marked": marked}, indent=None)
            if self.env.storage.put_if_absent(_path(line, number + 1), data):
                self._known[line] = number + 1, WorkSummary.of(kept)
                if number:
                    self.env.storage.delete(_path(line, number))
                return

    def of(self, line: str) -> list[WorkRecord]:
        """The records of a table or branch, oldest first."""
        return list(self.all([line]).get(line, ()))

    def all(self, lines: Iterable[str] | None = None) -> dict[str, list[WorkRecord]]:
        """Table or branch (its uuid) -> its records, oldest first. `lines`: only these."""
        wanted = None if lines is None else set(lines)
        return {
            line: self._content(line, max(numbers)).records
            for line, numbers in self._numbers().items()
            if wanted is None or line in wanted
        }

    def summaries(self) -> dict[str, WorkSummary]:
        """Table or branch -> a summary of its records. Reads the files that are new since the last call, and one listing."""
        newest = {line: max(numbers) for line, numbers in self._numbers().items()}
        for line in self._known.keys() - newest.keys():
            self._known.pop(line, None)
        return {line: self._summary(line, number) for line, number in newest.items()}

    def summary(self, line: str) -> WorkSummary:
        """A summary of the records of a table or branch."""
        number = self._newest(line)
        return self._summary(line, number) if number else WorkSummary()

    def _summary(self, line: str, number: int) -> WorkSummary:
        known = self._known.get(line)
        if known is None or known[0] != number:
            self._known[line] = known = number, WorkSummary.of(self._content(line, number).records)
        return known[1]

    def marked(self, line: str) -> Mapping[str, int]:
        """Partition -> the snapshot that had brought its newest rows when it was marked as done."""
        number = self._newest(line)
        return self._content(line, number).marked if number else {}

    def forget(self, lines: Iterable[str]) -> None:
        """Deletes the records of tables that were dropped. `lines`: all tables and branches."""
        known = set(lines)
        gone = [_path(line, n) for line, numbers in self._numbers().items() if line not in known for n in numbers]
        self.env.storage.delete_all(gone)

    def _newest(self, line: str) -> int:
        """The number of the newest file of a table or branch; 0: there is none. Lists all only if the file known is not the
        newest any more."""
        known, size = self._known.get(line, (0, None))[0], self.env.storage.size
        if known and size(_path(line, known)) is not None and size(_path(line, known + 1)) is None:
            return known
        return max(self._numbers().get(line, ()), default=0)

    def _numbers(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for entry in self.env.storage.list(FOLDER):
            if match := _FILE.fullmatch(entry.path):
                numbers.setdefault(match[1], []).append(int(match[2]))
        return numbers

    def _content(self, line: str, number: int) -> _Content:
        """A file; empty if it is damaged, of another version, or deleted meanwhile: no row depends on it."""
        path = _path(line, number)
        try:
            content = envelope.unwrap_json("maintenance", read_bytes(self.env.storage, path), path)
            records = [WorkRecord(**{name: one[name] for name in _NAMES}) for one in content["records"]]
            return _Content(records, {str(name): int(snapshot) for name, snapshot in content["marked"].items()})
        except (FileNotFoundError, Corrupt, UnsupportedFormat, LookupError, TypeError, ValueError, AttributeError):
            return _Content()


def _path(line: str, number: int) -> str:
    return f"{FOLDER}/{line}-{number}"


# -- what commits did -------------------------------------------------------------------------------------------------


def of_commits(meta: Metadata, name: str, known: Iterable[WorkRecord] = ()) -> Iterator[WorkRecord]:
    """The work of retained snapshots: compactions, splits, expiry of partitions and other commits that removed files. `known`:
    records of maintainers, whose snapshots are left out. Reads the manifests of the newest snapshots."""
    told = {one.snapshot_id for one in known}
    for number in meta.snapshots.ids()[-_SNAPSHOTS_MAX:]:
        if number in told:
            continue
        try:
            snapshot = meta.snapshots.get(number)
            with meta.snapshots.unless_expired(snapshot):
                record = of_commit(meta, name, snapshot)
        except SnapshotNotFound:
            continue
        if record is not None:
            yield record


def of_commit(meta: Metadata, name: str, snapshot: Snapshot) -> WorkRecord | None:
    """The work of a snapshot; None if it removed no file. Raises Corrupt if it expires meanwhile."""
    if snapshot.restores is not None or snapshot.kind == ANALYZE:
        return None
    entries = meta.manifests.delta(snapshot, meta.schemas.of(snapshot))
    kinds, names = entries["kind"].to_numpy(), entries["name"].to_numpy()
    removed, added = kinds == DELETE, kinds == ADD
    if not removed.any():
        return None
    moved = np.isin(names, np.intersect1d(names[removed], names[added]))
    rows, size, level0 = entries["rows"].to_numpy(), entries["bytes"].to_numpy(), entries["level"].to_numpy() == 0
    return WorkRecord(
        name,
        "compact with a write" if snapshot.kind == APPEND else snapshot.kind.lower(),
        None,
        None,
        snapshot.time_ms,
        snapshot.id,
        int(rows[added & ~moved].sum()),
        int(size[removed & ~moved].sum()),
        int(size[removed & level0].sum()),
        int(size[added & ~moved].sum()),
        int(removed.sum()),
        int(added.sum()),
        snapshot.writer_id,
    )
