"""The snapshots of a table: finds the newest snapshot, publishes a snapshot, and replaces expired snapshots by marks.

A hint file holds the number of a recent snapshot, so that a new handle need not list the snapshots. `commit` decides what to
publish.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, repeat
from math import inf

from lsmlake import undo
from lsmlake.errors import Corrupt, LakeError, SnapshotNotFound, StorageFailed, Wording
from lsmlake.format.paths import numbered
from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.concurrency import ahead, attempts, side_by_side
from lsmlake.storage.storage import read_bytes, storage_errors
from lsmlake.tables.live import StoredSnapshot
from lsmlake.tables.manifests import Manifests
from lsmlake.tables.table_files import TableFiles
from lsmlake.tables.tags import Tags

_EXPIRED = b"expired\n"  # content of a mark: it keeps the snapshot's number taken, so that no slow commit reuses it
_CUT = b"rolled back\n"  # content of the mark of a snapshot that a rollback removed; unlike above, older snapshots stay
_MARKS = (_EXPIRED, _CUT)
_LOOKS = 10
_STEPS = 20  # snapshots probed before the hint is read
HINT_EVERY = 10  # snapshots; writing the hint takes about a tenth of a commit
_WIDTHS = 1, 1
"""How many successors of a snapshot to probe at once, step by step; the last number repeats."""
_WIDTHS_AT_ONCE = 1, 1, 4, 16
_WIDTHS_FROM_HINT = HINT_EVERY, 16
_HINT_BYTES_MAX = 19  # digits of the highest number
LIST_SNAPSHOTS = Wording(
    "snapshots() lists those that are kept",
    command="`lsmlake snapshots TABLE` lists those that are kept",
    sql="DESCRIBE HISTORY lists those that are kept",
)


@dataclass(frozen=True)
class Snapshots:
    files: TableFiles
    tags: Tags
    manifests: Manifests

    def get(self, number: int) -> Snapshot:
        """Reads a snapshot. Raises SnapshotNotFound; TableNotFound if the table no longer exists."""
        stored = self._stored(number)
        if stored is None:
            self.files.first_schema()
            raise SnapshotNotFound(f"there is no snapshot {number}", where=self.files.paths.root, cure=LIST_SNAPSHOTS)
        if stored.data == _EXPIRED:
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.files.paths.root, cure=LIST_SNAPSHOTS)
        if stored.data == _CUT:
            what = f"snapshot {number} was removed by a rollback with cut, or had expired on the branch that brought it"
            raise SnapshotNotFound(what, where=self.files.paths.root, cure=LIST_SNAPSHOTS)
        return self._decoded(stored)

    def each(self, numbers: Iterable[int]) -> Iterator[Snapshot]:
        """Yields `get` of each number. Reads some snapshots ahead where requests wait for a network."""

        def one(number: int) -> Generator[Snapshot]:
            yield self.get(number)

        return ahead(map(one, numbers), self.files.env.storage.at_once)

    def get_kept(self, number: int) -> Snapshot:
        """As `get(number)`, but also raises SnapshotNotFound for a snapshot that a slow commit stored under a freed number.
        One read if this snapshot was checked before."""
        snapshot = self.get(number)

        def follows() -> bool:
            numbered = self.is_numbered(number + 1) or self.latest_id() == number
            return numbered or self.is_numbered(number + 1)  # another commit may have come between the two looks

        if not self.files.cache.get((self.files.paths.snapshot(number), snapshot.delta_manifest_list.name), follows):
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.files.paths.root, cure=LIST_SNAPSHOTS)
        return snapshot

    @contextmanager
    def unless_expired(self, *snapshots: Snapshot | int | None) -> Iterator[None]:
        """Turns Corrupt into SnapshotNotFound if one of `snapshots` (or snapshot numbers; None is ignored) has expired during the
        read, or into TableNotFound if the table no longer exists: missing files are then not damage. A tag keeps the files of an
        expired snapshot, but not its changelog, so a caller that needs the changelog passes the number."""
        try:
            yield
        except Corrupt as broken:
            for path in {broken.where, broken.where.partition(", ")[0]}:
                self.files.env.storage.distrust(path)
            self.files.first_schema()
            named = [one if isinstance(one, Snapshot) else int(one) for one in snapshots if one is not None]
            gone = [one for one in named if not self.is_kept(one.id if isinstance(one, Snapshot) else one)]
            held = [holder.snapshot for holder in self.tags.holders()] if gone else []
            expired = [one.id if isinstance(one, Snapshot) else one for one in gone if one not in held]
            if not expired:
                raise
            raise SnapshotNotFound(
                f"snapshot {expired[0]} has expired while it was read",
                where=self.files.paths.root,
                cure="read the latest snapshot; option snapshot.time-retained keeps replaced snapshots longer",
            ) from broken

    def is_kept(self, number: int) -> bool:
        """Whether a snapshot exists and has not expired."""
        try:
            return self.get(number).id == number
        except SnapshotNotFound:
            return False

    def is_numbered(self, number: int) -> bool:
        """Whether a snapshot, or the mark of a removed snapshot, has the number."""
        return self.files.env.storage.size(self.files.paths.snapshot(number)) is not None

    def is_seen(self, number: int) -> bool:
        """As `is_numbered`, if the storage tells that without a request (`Storage.states`); False otherwise."""
        return (self.files.env.storage.states([self.files.paths.snapshot(number)]) or (None,))[0] is not None

    def is_cut(self, number: int) -> bool:
        """Whether a rollback removed the snapshot."""
        stored = self._stored(number)
        return stored is not None and stored.data == _CUT

    def last_cut(self, number: int) -> int:
        """The last number of the unbroken row of rollback marks that begins at this number; 0 if there is none. A program that
        died while it forwarded the table to a branch may have left such marks after the newest snapshot."""
        return next((n - 1 for n in count(number) if not self.is_cut(n)), 0) if self.is_cut(number) else 0

    def is_in_place(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot read before, or its mark, still exists. If not, its number was freed."""
        stored = self._stored(snapshot.id)
        return stored is not None and (stored.data in _MARKS or self._decoded(stored) == snapshot)

    def is_first(self) -> bool:
        """Whether snapshot 1, which was just published, is the first of the table. If not, its number had been freed. One
        listing. Raises TableNotFound."""
        numbers, marks = self.numbers()
        return 1 in (*numbers[:1], *marks[:1])

    def stored_ms(self, number: int) -> int | None:
        """When a snapshot was stored, by the storage's clock; None if it no longer exists."""
        path, listed = self.files.paths.snapshot(number), self.files.env.storage.list(self.files.paths.snapshots)
        return next((entry.modified_ms for entry in listed if entry.path == path), None)

    def retire(self, numbers: Sequence[int], mark: int | None) -> None:
        """Replaces snapshots by marks. The last mark is written last, which makes all marks durable. `mark`: the number of an
        existing mark to copy."""
        for number in numbers:
            path = self.files.paths.snapshot(number)
            if mark is not None and number != numbers[-1]:
                with suppress(FileNotFoundError):  # another process has freed the number of `mark`, and thus those of older ones
                    self.files.env.storage.copy(self.files.paths.snapshot(mark), path)
                    continue
            with self.files.env.storage.write(path) as sink:  # not `files.write`, which deletes the file after an error
                sink.write(_EXPIRED)
            mark = number

    def cut(self, numbers: Sequence[int]) -> None:
        """Replaces snapshots by the marks of a rollback, in the order given. The last mark is written last, which makes all marks
        durable."""
        for number in numbers:
            path = self.files.paths.snapshot(number)
            if number == numbers[0] or number == numbers[-1]:
                with self.files.env.storage.write(path) as sink:
                    sink.write(_CUT)
            else:
                self.files.env.storage.copy(self.files.paths.snapshot(numbers[0]), path)

    def put_cut(self, number: int) -> bool:
        """Stores the mark of a snapshot that a rollback removed; returns False if its number is taken."""
        return self.files.env.storage.put_if_absent(self.files.paths.snapshot(number), _CUT)

    def recorded(self, number: int) -> Snapshot:
        """A retained snapshot, or the copy of an expired one whose changelog is retained. Raises SnapshotNotFound."""
        try:
            return self.get(number)
        except SnapshotNotFound:
            path = self.files.paths.changelog(number)
            if self.files.env.storage.size(path) is None:
                raise
            return self.files.own(Snapshot.decode(self.files.read(path, None), path), number, path)

    def record(self, snapshots: Sequence[Snapshot]) -> None:
        """Copies snapshots so that their changelogs outlive them. The last copy is written last, which makes all copies
        durable."""
        for snapshot in snapshots:
            path = self.files.paths.changelog(snapshot.id)
            if snapshot is snapshots[-1]:
                self.files.write(path, snapshot.encode())
            else:
                with suppress(FileNotFoundError):  # another process has expired it, and has recorded it before
                    self.files.env.storage.copy(self.files.paths.snapshot(snapshot.id), path)

    def recorded_ids(self) -> list[int]:
        """The numbers of expired snapshots whose changelog is retained, ascending."""
        entries = self.files.env.storage.list(self.files.paths.changelogs)
        return numbered((entry.path for entry in entries), self.files.paths.changelogs, "changelog")

    def ids(self) -> list[int]:
        """The numbers of all snapshots, ascending. One listing. Raises TableNotFound if the table does not exist."""
        return self.numbers()[0]

    def numbers(self) -> tuple[list[int], list[int]]:
        """The numbers of (snapshots, marks of expired ones), ascending. One listing. A snapshot file with a number before a mark
        does not count: a slow commit stored it under a freed number (`commit.commit`, step 6). The marks of a rollback are not
        snapshots; a rollback mark older than an expired snapshot counts as the mark of an expired one. Raises TableNotFound."""
        marks, cut, numbers = self._listed_numbers()
        if not numbers:
            self.files.first_schema()
        last = marks[-1] if marks else 0
        return [number for number in numbers if number > last], sorted([*marks, *(number for number in cut if number < last)])

    def cut_ids(self) -> list[int]:
        """The numbers of snapshots that a rollback removed, ascending; not those older than an expired one. One listing."""
        marks, cut, _ = self._listed_numbers()
        return [number for number in cut if not marks or number > marks[-1]]

    def _listed_numbers(self) -> tuple[list[int], list[int], list[int]]:
        """The numbers of marks of expired snapshots, of marks of a rollback, and of other files, each ascending."""
        entries, folder = list(self.files.env.storage.list(self.files.paths.snapshots)), self.files.paths.snapshots
        sizes = [len(mark) for mark in _MARKS]
        marks, cut = (numbered([entry.path for entry in entries if entry.size == size], folder, "snapshot") for size in sizes)
        return marks, cut, numbered([entry.path for entry in entries if entry.size not in sizes], folder, "snapshot")

    def latest_id(self) -> int | None:
        """The number of the newest snapshot."""
        latest = self.latest()
        return None if latest is None else latest.id

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None before the first. Costs two reads if this handle has seen it before, and one more read for
        each snapshot since; in a storage with `states` no read after two calls that found the same snapshot. Raises TableNotFound
        if the table does not exist."""
        cache, known = self.files.cache, self.files.cache.latest
        state, following = (None, None) if known is None else self._states(known.number)
        if state is not None and state == cache.latest_state and following is None:
            return self._decoded(known)
        failed, cure = "the latest snapshot expired before it could be read, on every attempt", "expire snapshots less often"
        for _ in attempts(_LOOKS, failed, self.files.paths.snapshots, cure, kind=StorageFailed):
            stored = self._forward() or self._listed()
            if stored is None:
                return None
            if stored.data not in _MARKS:
                cache.latest = stored
                # read before the content: a file that replaces this one in the meantime has another state
                cache.latest_state = state if stored is known else None
                return self._decoded(stored)

    def _states(self, number: int) -> Sequence[Hashable | None]:
        """The states of a snapshot file and of its successor; None for a missing one, and where the storage has no states."""
        paths = self.files.paths
        return self.files.env.storage.states([paths.snapshot(number), paths.snapshot(number + 1)]) or (None, None)

    def _forward(self) -> StoredSnapshot | None:
        """The newest snapshot, found by probing successors of the newest one seen, or of the hint. None if that snapshot has
        changed or no longer exists, so the snapshots must be listed."""
        known = self.files.cache.latest
        first = self._hint_once() if known is None else known.number
        if first is None:
            return None
        widths = _WIDTHS if self.files.env.storage.at_once == 1 else _WIDTHS_AT_ONCE if known else _WIDTHS_FROM_HINT
        before = [partial(self.is_numbered, first - 1)] if known is None and first > 1 else []
        here, *read = self._read(first, 1 + widths[0], before)
        if here is None or here.data in _MARKS or (known is not None and here.data != known.data):
            return None
        if before and not read.pop():
            return None  # the hint is so old that numbers before it were freed
        if known is not None and read[0] is None:
            return known
        newest = here
        for following in self._after(here, read, chain(widths[1:], repeat(widths[-1]))):
            newest = newest if following.data == _CUT else following
        return newest

    def _after(
        self, here: StoredSnapshot, read: Sequence[StoredSnapshot | None], widths: Iterator[int]
    ) -> Iterator[StoredSnapshot]:
        """The snapshot files after `here`, up to the first free number; after some steps, only the files from the hint on.
        `read`: the files that were probed together with `here`; `widths`: how many files to probe at once in each step."""
        passed = 0
        while True:
            for following in read:
                if following is None:
                    return
                yield following
                here, passed = following, passed + 1
            if passed >= _STEPS:
                here, passed = self._hinted(here), -inf
                yield here
            load = [partial(self._load, here)] if passed == 1 and self.files.env.storage.at_once > 1 else []
            width = next(widths)
            read = self._read(here.number + 1, width, load)[:width]

    def _read(self, first: int, count: int, others: Sequence[Callable[[], object]]) -> list:
        """`count` snapshot files from a number on, then the results of other calls, all made side by side."""
        storage, numbers = self.files.env.storage, range(first, first + count)
        if storage.at_once > 1:
            return side_by_side([*(partial(self._stored, number) for number in numbers), *others], storage.at_once)
        contents = storage.contents([self.files.paths.snapshot(number) for number in numbers])
        files = [data if data is None else StoredSnapshot(number, data) for number, data in zip(numbers, contents, strict=True)]
        return [*files, *(call() for call in others)]

    def read_hint(self) -> None:
        """Reads the hint for the first search for the newest snapshot."""
        self.files.cache.hint = self._hint()

    def _hint_once(self) -> int | None:
        """The hint: the first call returns the result of `read_hint`, later calls read the file."""
        hint, self.files.cache.hint = self.files.cache.hint, None
        return hint or self._hint()

    def _load(self, stored: StoredSnapshot) -> None:
        """Starts `load` of the probably newest snapshot while the search looks for the next one."""
        if stored.data not in _MARKS:
            with suppress(LakeError):
                self.load(self._decoded(stored))

    def load(self, snapshot: Snapshot) -> None:
        """Reads the manifest lists of a snapshot ahead, unless it expires meanwhile."""
        with suppress(LakeError):
            self.manifests.load(snapshot)

    def _hinted(self, here: StoredSnapshot) -> StoredSnapshot:
        """The snapshot that the hint names if it is newer than `here`; no number after `here`, which exists, has been freed."""
        hinted = self._stored(self._hint())
        return here if hinted is None or hinted.number <= here.number else hinted

    def _listed(self) -> StoredSnapshot | None:
        """The newest snapshot, found by a listing; None if there is none."""
        numbers = self.ids()
        return self._stored(numbers[-1]) or StoredSnapshot(numbers[-1], _EXPIRED) if numbers else None

    def _stored(self, number: int | None) -> StoredSnapshot | None:
        """The stored file of a snapshot; None if it does not exist."""
        if number is None:
            return None
        try:
            return StoredSnapshot(number, read_bytes(self.files.env.storage, self.files.paths.snapshot(number)))
        except FileNotFoundError:
            return None

    def _decoded(self, stored: StoredSnapshot) -> Snapshot:
        files, path = self.files, self.files.paths.snapshot(stored.number)
        return files.cache.get((path, stored.data), lambda: files.own(Snapshot.decode(stored.data, path), stored.number, path))

    def put(self, snapshot: Snapshot) -> bool:
        """Publishes a snapshot; returns False if its number is taken. After an error, it may be published."""
        held = undo.hold()
        created = self.files.env.storage.put_if_absent(self.files.paths.snapshot(snapshot.id), snapshot.encode())
        if not created:
            undo.give_back(held)
        return created

    def note_latest(self, snapshot: Snapshot) -> None:
        """Caches a snapshot just published; the next search for the newest one starts there."""
        self.files.cache.latest_state = None
        self.files.cache.latest = stored = StoredSnapshot(snapshot.id, snapshot.encode())
        self.files.cache.put((self.files.paths.snapshot(snapshot.id), stored.data), snapshot)

    def hint(self, number: int) -> None:
        with self.files.env.storage.write(self.files.paths.latest) as sink:
            sink.write(str(number).encode())

    def _hint(self) -> int | None:
        """The number in the hint file; None if the file is missing or malformed. Reads a few bytes, however long the file is."""
        path = self.files.paths.latest
        try:
            with self.files.env.storage.read(path) as file, storage_errors("read", path):
                text = file.read(_HINT_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() and len(text) <= _HINT_BYTES_MAX else None
