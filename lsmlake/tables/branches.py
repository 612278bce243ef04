"""The branches of a table, one file each, and the state of each branch.

Two programs must not forward, rename or delete a branch at once. So such work is numbered: the first program to create the file
`begun-<n>` does it, and `ended-<n>` ends it, where n - 1 is the highest number that has ended. A program that was suspended can
only create files whose numbers do not count any more. `refs.branching` has the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from lsmlake.errors import StorageFailed, TableNotFound
from lsmlake.format.branch import FORWARD, RENAME, BranchInfo, BranchWork
from lsmlake.format.paths import Branch, TablePaths, is_branch, numbered
from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.concurrency import attempts
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.table_files import LIST_BRANCHES, TableFiles
from lsmlake.tables.tags import Holder

_LOOKS = 10


class BranchState(NamedTuple):
    """The state of a branch at one moment.

    Attributes:
        ended: the number of the last work that has ended; 0 if no work has ended.
        base: the snapshot that the branch begins at; it and older snapshots belong to the table. None: the branch begins without
            rows.
        work: the work under way.
    """

    ended: int
    base: Snapshot | None
    work: BranchWork | None

    @property
    def forward(self) -> Snapshot | None:
        """The snapshot to which the table is being forwarded."""
        return self.work.snapshot if self.work is not None and self.work.work == FORWARD else None


@dataclass(frozen=True)
class Branches:
    files: TableFiles

    def get(self, name: str) -> BranchInfo:
        """A branch. Raises TableNotFound, which names similar branches; Corrupt; InvalidQuery."""
        info = self.read(name)
        if info is None:
            self.files.first_schema()
            near = get_close_matches(name, [one for one in self.names() if one != name], n=3)  # its remains may be there
            cure = f"did you mean {' or '.join(map(repr, near))}?" if near else LIST_BRANCHES
            raise TableNotFound(f"there is no branch {name!r}", where=self.files.paths.root, cure=cure)
        return info

    def read(self, name: str) -> BranchInfo | None:
        """A branch; None if no branch has that name. Raises Corrupt, InvalidQuery."""
        path = self.files.paths.branch_file(name)
        try:
            data = read_bytes(self.files.env.storage, path)
        except FileNotFoundError:
            return None
        return self.files.cache.get(data, lambda: BranchInfo.decode(data, path))

    def names(self) -> list[str]:
        """The names of the directories of branches, ascending; one of them may be the remains of a branch."""
        return [name for name in self.files.env.storage.folders(self.files.paths.branches) if is_branch(name)]

    def all(self) -> dict[str, BranchInfo]:
        """All branches by name. Raises Corrupt if a branch cannot be read."""
        return self.by_new_name({name: info for name in self.names() if (info := self.read(name)) is not None})

    def by_new_name(self, infos: Mapping[str, BranchInfo]) -> dict[str, BranchInfo]:
        """Leaves out the old name of each branch that is being renamed and has its new name already."""
        counts = Counter(info.uuid for info in infos.values())
        twice = {info.uuid: info for info in infos.values() if counts[info.uuid] > 1}
        works = (self.state(info).work for info in twice.values())
        old = {work.old_name for work in works if work is not None and work.work == RENAME}
        return {name: info for name, info in infos.items() if not (name in old and info.uuid in twice)}

    def place(self, name: str) -> Branch:
        """The parts from which the paths of a branch are built. Raises TableNotFound."""
        return self.get(name).named(name)

    def put(self, name: str, info: BranchInfo) -> bool:
        """Creates a branch; returns False if its name is taken."""
        return self.files.env.storage.put_if_absent(self.files.paths.branch_file(name), info.encode())

    def remove(self, name: str) -> None:
        self.files.env.storage.delete(self.files.paths.branch_file(name))

    # -- the state of a branch ----------------------------------------------------------------------------------------

    def state(self, info: BranchInfo) -> BranchState:
        """The state of a branch. One listing, and at most two reads. Raises Corrupt."""
        paths = self._paths(info)
        while True:
            listed = [entry.path for entry in self.files.env.storage.list(paths.works)]
            ended = max(numbered(listed, paths.works, "ended"), default=0)
            is_begun = ended + 1 in numbered(listed, paths.works, "begun")
            last = self._work(paths.ended(ended)) if ended else None
            work = self._work(paths.begun(ended + 1)) if is_begun else None
            if (last is None) == (ended == 0) and (work is not None) == is_begun:  # otherwise work has ended since the listing
                return BranchState(ended, last.snapshot if last else info.base, work)

    def begin(self, info: BranchInfo, state: BranchState, work: BranchWork) -> bool:
        """Begins work that excludes other work; returns whether no other program came first."""
        return self.files.env.storage.put_if_absent(self._paths(info).begun(state.ended + 1), work.encode())

    def end(self, info: BranchInfo, state: BranchState, base: Snapshot | None) -> None:
        """Ends the work under way. `base`: where the branch begins from now on."""
        paths, number = self._paths(info), state.ended + 1
        self.files.env.storage.put_if_absent(paths.ended(number), BranchWork(state.work.work, base).encode())
        old = [paths.begun(number), *([paths.ended(state.ended)] if state.ended else [])]
        self.files.delete_quietly(old)

    def owned(self, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """Filters `snapshots` to those whose files may be deleted if nothing else references them. Returns no snapshot while the
        table is being forwarded, and on a branch no snapshot that belongs to the table. Call this after the snapshots have become
        impossible to find, so that the table cannot be forwarded to them later."""
        own = self.files.paths.branch
        if own is None:
            return [] if self.is_forwarding() else list(snapshots)
        state = self.state(self.get(own.name))
        return [one for one in snapshots if state.forward is None and (state.base is None or one.id > state.base.id)]

    def is_of_table(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot of a branch belongs to the table; then its changelog belongs to the table, too."""
        own = self.files.paths.branch
        base = None if own is None else self.state(self.get(own.name)).base
        return base is not None and snapshot.id <= base.id

    def is_forwarding(self) -> bool:
        """Whether the table is being forwarded to a branch, or to this one; the two then share snapshots."""
        own = self.files.paths.branch
        infos = self.all().values() if own is None else [self.get(own.name)]
        return any(self.state(info).forward is not None for info in infos)

    def holders(self) -> list[Holder]:
        """The snapshots whose files stay because of branches: for the table, the snapshots that branches begin at; for a branch,
        its own; also the snapshots to which the table is being forwarded."""
        own = self.files.paths.branch
        states = self._settled() if own is None else {own.name: self.state(self.get(own.name))}
        return [
            Holder(f"branch {name!r}", snapshot)
            for name, state in states.items()
            for snapshot in (state.base, state.forward)
            if snapshot is not None
        ]

    def _settled(self) -> dict[str, BranchState]:
        """All branches, read until two readings in a row agree: a single reading may miss a branch that is being renamed."""

        def look() -> dict[str, BranchState]:
            return {name: self.state(info) for name, info in self.all().items()}

        states = look()
        failed, cure = "the branches changed while they were read, on every attempt", "rename and forward branches less often"
        for _ in attempts(_LOOKS, failed, self.files.paths.branches, cure, kind=StorageFailed):
            before, states = states, look()
            if states == before:
                return states

    def _paths(self, info: BranchInfo) -> TablePaths:
        return self.files.paths.on(info.named(info.folder))

    def _work(self, path: str) -> BranchWork | None:
        try:
            data = read_bytes(self.files.env.storage, path)
        except FileNotFoundError:
            return None
        return self.files.cache.get(data, lambda: BranchWork.decode(data, path))
