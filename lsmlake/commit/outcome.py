"""The outcome of one attempt to publish, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import LakeError
from lsmlake.format.files import Bucket, BucketEdit
from lsmlake.format.snapshot import Snapshot


@dataclass(frozen=True)
class Committed:
    """Published. `snapshot`: None if there was nothing to publish. `edits`: the published edits. `overtaken`: buckets whose
    compaction was dropped."""

    snapshot: Snapshot | None
    edits: tuple[BucketEdit, ...] = ()
    overtaken: tuple[Bucket, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """Certainly not published: another commit took the number."""


@dataclass(frozen=True)
class Unknown:
    """The store failed while publishing."""

    cause: LakeError
