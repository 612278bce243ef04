"""The branches of a table: one file each. `commit.branches` creates, renames, forwards and deletes them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from lsmlake.errors import StorageFailed, TableNotFound
from lsmlake.format.branch import BranchInfo
from lsmlake.format.paths import Branch, is_branch
from lsmlake.store.storage import read_bytes
from lsmlake.store.table_files import LIST_BRANCHES, TableFiles
from lsmlake.store.tags import Holder

_LOOKS = 10


@dataclass(frozen=True)
class Branches:
    files: TableFiles

    def get(self, name: str) -> BranchInfo:
        """Raises TableNotFound, which names similar branches; Corrupt; InvalidQuery."""
        found = self.read(name)
        if found is None:
            self.files.first_schema()
            near = get_close_matches(name, self.names(), n=3)
            cure = f"did you mean {' or '.join(map(repr, near))}?" if near else LIST_BRANCHES
            raise TableNotFound(f"there is no branch {name!r}", where=self.files.paths.root, cure=cure)
        return found

    def read(self, name: str) -> BranchInfo | None:
        """A branch; None if there is none of that name. Raises Corrupt, InvalidQuery."""
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
        """Name -> branch. Raises Corrupt if one cannot be read."""
        return {name: found for name in self.names() if (found := self.read(name)) is not None}

    def _settled(self) -> dict[str, BranchInfo]:
        """All branches, listed until two listings in a row agree: one may miss a branch that is renamed meanwhile."""
        found = self.all()
        for _ in range(_LOOKS):
            before, found = found, self.all()
            if found == before:
                return found
        raise StorageFailed(
            "the branches changed while they were read, on every attempt",
            where=self.files.paths.branches,
            found=f"{_LOOKS} attempts",
            cure="rename branches less often",
        )

    def place(self, name: str) -> Branch:
        """What the paths of a branch are made of. Raises TableNotFound."""
        return Branch(name, self.get(name).uuid)

    def put(self, name: str, info: BranchInfo) -> bool:
        """Create a branch; returns False if its name is taken."""
        return self.files.env.storage.put_if_absent(self.files.paths.branch_file(name), info.encode())

    def replace(self, name: str, info: BranchInfo) -> None:
        with self.files.env.storage.write(self.files.paths.branch_file(name)) as sink:
            sink.write(info.encode())

    def is_forwarding(self) -> bool:
        """Whether the table is being forwarded to a branch, or to this one; the two then share snapshots."""
        own = self.files.paths.branch
        found = self.all().values() if own is None else [self.get(own.name)]
        return any(info.forward is not None for info in found)

    def holders(self) -> list[Holder]:
        """The snapshots whose files stay because of branches: on the table those that branches begin at, on a branch its own."""
        own = self.files.paths.branch
        found = self._settled() if own is None else {own.name: self.get(own.name)}
        return [
            Holder(f"branch {name!r}", snapshot)
            for name, info in found.items()
            for snapshot in (info.base, info.forward)
            if snapshot is not None
        ]
