"""A branch: a line of snapshots of its own that begins at a snapshot of the table.

This file describes it; the branch exists as long as the file. It holds copies of snapshots, whose files stay as long.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from lsmlake.errors import Corrupt, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.schema import envelope
from lsmlake.schema.shape import NAME, TEXT, Kind, check, integer, mapping, optional

_GIVE_UP = Wording(
    "restore the file from a copy, or give the branch up with delete_branch()",
    command="restore the file from a copy, or give the branch up: `lsmlake branch TABLE --delete NAME`",
)
_SNAPSHOT = optional(mapping(Kind("any value", lambda value: True)))
KINDS = {
    "uuid": NAME,
    "table_uuid": TEXT,
    "tag": optional(TEXT),
    "time_ms": integer(0, 1 << 53),
    "base": _SNAPSHOT,
    "forward": _SNAPSHOT,
}


@dataclass(frozen=True)
class BranchInfo(Shown):
    """What a branch is.

    Attributes:
        uuid: identifies the branch.
        table_uuid: the table.
        tag: the tag that it was created from; None: it was created from a snapshot.
        time_ms: when it was created, in milliseconds since the epoch.
        base: the snapshot that it begins at; None: it began without rows.
        forward: the snapshot to which the table is being forwarded; None: it is not.
    """

    uuid: str
    table_uuid: str = field(repr=False)
    tag: str | None
    time_ms: int
    base: Snapshot | None = field(repr=False)
    forward: Snapshot | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        return envelope.wrap_json("branch", asdict(self))

    @staticmethod
    def decode(data: bytes, where: str) -> BranchInfo:
        """Decodes a branch file. Raises Corrupt or UnsupportedFormat naming `where`."""
        try:
            content = envelope.unwrap_json("branch", data, where)
            check("branch", content, KINDS, where)
            copies = {name: content[name] and Snapshot.of(content[name], where) for name in ("base", "forward")}
        except Corrupt as damaged:  # no snapshot uses the file, so a rollback is no cure
            details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
            raise Corrupt(damaged.what, **details, cure=_GIVE_UP) from damaged
        return BranchInfo(**{**content, **copies})
