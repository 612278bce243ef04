"""A branch: a separate line of snapshots that begins at a snapshot of the table.

One file describes a branch and never changes; the branch exists as long as the file. Renaming creates the same file under another
name. Forwarding, renaming and deleting a branch exclude each other: one file marks the beginning of such work, another its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from lsmlake.errors import Corrupt, Wording
from lsmlake.format.paths import Branch
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.schema import envelope
from lsmlake.types.json_shape import NAME, TEXT, JsonKind, check, integer, mapping, one_of, optional

_GIVE_UP = Wording(
    "restore the file from a copy, or give the branch up with delete_branch()",
    command="restore the file from a copy, or give the branch up: `lsmlake branch TABLE --delete NAME`",
)
FORWARD, RENAME, DELETE = "forward", "rename", "delete"
_SNAPSHOT = optional(mapping(JsonKind("any value", lambda value: True)))
KINDS = {
    "uuid": NAME,
    "table_uuid": TEXT,
    "folder": NAME,
    "tag": optional(TEXT),
    "time_ms": integer(0, 1 << 53),
    "base": _SNAPSHOT,
}
WORK_KINDS = {
    "work": one_of(FORWARD, RENAME, DELETE),
    "snapshot": _SNAPSHOT,
    "old_name": optional(NAME),
    "new_name": optional(NAME),
}


@dataclass(frozen=True)
class BranchInfo(Shown):
    """The stored facts of a branch.

    Attributes:
        uuid: identifies the branch.
        table_uuid: the table.
        folder: the folder of its directories: the name under which it was created.
        tag: the tag that it was created from; None: it was created from a snapshot.
        time_ms: when it was created, in milliseconds since the epoch.
        base: the snapshot that it was created from; None: it began without rows.
    """

    uuid: str
    table_uuid: str = field(repr=False)
    folder: str = field(repr=False)
    tag: str | None
    time_ms: int
    base: Snapshot | None = field(repr=False)

    def named(self, name: str) -> Branch:
        """The parts from which the paths of the branch are built."""
        return Branch(name, self.uuid, self.folder)

    def encode(self) -> bytes:
        return envelope.wrap_json("branch", asdict(self))

    @staticmethod
    def decode(data: bytes, where: str) -> BranchInfo:
        """Decodes a branch file. Raises Corrupt or UnsupportedFormat naming `where`."""
        return BranchInfo(**_decoded("branch", KINDS, "base", data, where))


@dataclass(frozen=True)
class BranchWork:
    """Work on a branch that excludes other work.

    Attributes:
        work: FORWARD (the table is being forwarded to the branch), RENAME or DELETE.
        snapshot: FORWARD: the last snapshot that the table gets. In the file that ends the work: the snapshot where the branch
            begins from now on; None: the branch begins without rows.
        old_name: RENAME: the current name.
        new_name: RENAME: the new name.
    """

    work: str
    snapshot: Snapshot | None = None
    old_name: str | None = None
    new_name: str | None = None

    def encode(self) -> bytes:
        return envelope.wrap_json("branch-work", asdict(self))

    @staticmethod
    def decode(data: bytes, where: str) -> BranchWork:
        """Decodes a file that begins or ends work. Raises Corrupt or UnsupportedFormat naming `where`."""
        return BranchWork(**_decoded("branch-work", WORK_KINDS, "snapshot", data, where))


def _decoded(kind: str, kinds: Mapping[str, JsonKind], snapshot: str, data: bytes, where: str) -> dict:
    """The fields of a file, with its snapshot decoded."""
    try:
        content = envelope.unwrap_json(kind, data, where)
        check(kind, content, kinds, where)
        return {**content, snapshot: content[snapshot] and Snapshot.of(content[snapshot], where)}
    except Corrupt as damaged:  # no snapshot uses the file, so a rollback does not help
        details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
        raise Corrupt(damaged.what, **details, cure=_GIVE_UP) from damaged
