"""A tag: a named copy of a snapshot, as a small JSON file. The files of the snapshot stay as long as the tag."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from lsmlake.errors import Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.schema import envelope
from lsmlake.types.json_shape import FLAG, TEXT, JsonKind, check, integer, mapping, optional

_TIME_MAX = 1 << 53
_KINDS = {
    "name": TEXT,
    "create_time_ms": integer(0, _TIME_MAX),
    "time_retained_ms": optional(integer(0, _TIME_MAX)),
    "snapshot": mapping(JsonKind("any value", lambda value: True)),
    "automatic": FLAG,
}
REPLACE = Wording(
    "delete_tag() removes the tag, create_tag(..., replace=True) writes it anew",
    command="`lsmlake tag TABLE --delete NAME` removes the tag",
)


@dataclass(frozen=True)
class Tag(Shown):
    """A named snapshot. It does not change with the table.

    Attributes:
        name: unique in the table.
        snapshot: a copy of the snapshot, which may have expired.
        create_time_ms: when the tag was created, in milliseconds since the epoch.
        time_retained_ms: how long the tag is kept after its creation; None: until it is deleted.
        automatic: whether a commit created the tag, as the options of the table say. Only such tags make room for newer ones.
    """

    name: str
    snapshot: Snapshot = field(repr=False)
    create_time_ms: int
    time_retained_ms: int | None = None
    automatic: bool = False

    @property
    def expire_time_ms(self) -> int | None:
        """The time after which the tag expires; None: it never expires."""
        return None if self.time_retained_ms is None else self.create_time_ms + self.time_retained_ms

    def encode(self) -> bytes:
        content = asdict(self)
        if not self.automatic:
            del content["automatic"]
        return envelope.wrap_json("tag", content)

    @staticmethod
    def decode(data: bytes, where: str) -> Tag:
        """Decodes a tag file. Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("tag", data, where)
        check("tag", content, _KINDS, where, may_lack=["automatic"], cure=REPLACE)
        return Tag(**{**content, "snapshot": Snapshot.of(content["snapshot"], where)})
