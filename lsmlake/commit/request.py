"""What a verb wants published, and what became of it: one value each way between the verb and the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lsmlake.commit.identity import Identity
from lsmlake.commit.requirements import Requirement
from lsmlake.files.divide import Divide, divide
from lsmlake.format.files import Bucket, BucketEdit, CommitMessage
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version

Restate = Callable[[Version], Sequence[CommitMessage]]
"""Returns the messages for the version to follow. The same messages again if nothing that they depend on has changed."""


@dataclass(frozen=True)
class Request:
    """One snapshot to publish.

    Attributes:
        identity: the writer, and the number of its commit.
        messages: what was written; at most one message per bucket. If the commit fails, their files are deleted.
        requires: what must hold at the version to follow, checked in each attempt. None: the messages fit the schema in effect
            (`Fits`).
        restate: makes the messages of each attempt from the version to follow: of an overwrite, which replaces what its buckets
            hold then, and of a statement that marks rows. None: `messages` are rebased.
        remade: visible rows may change or go without a newer row of their key.
        properties: of the snapshot.
        schema: the schema to put into effect; None: the one in effect stays.
        restores: an older snapshot whose files become live again, and no others.
        statistics: the statistics file that the snapshot and later ones name.
        divide: divides files of messages for buckets that were split meanwhile.
    """

    identity: Identity
    messages: Sequence[CommitMessage] = ()
    requires: Sequence[Requirement] | None = None
    restate: Restate | None = None
    remade: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None
    restores: Snapshot | None = None
    statistics: NamedFile | None = None
    divide: Divide = divide

    @property
    def acts_without_edits(self) -> bool:
        """Whether there is something to publish even if no file changes."""
        return self.schema is not None or self.statistics is not None


@dataclass(frozen=True)
class Committed:
    """Published. `snapshot`: None if there was nothing to publish. `edits`: the published edits. `overtaken`: buckets whose
    compaction was dropped."""

    snapshot: Snapshot | None
    edits: tuple[BucketEdit, ...] = ()
    overtaken: tuple[Bucket, ...] = ()
