"""`Request`, which says what a verb wants to publish, and `Committed`, which says what was published.

The identity of a request finds a commit that was applied before: each (writer_id, commit_id) is applied once (I7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lsmlake.commit.requirements import Overtaken, Requirement
from lsmlake.errors import InvalidData, SnapshotNotFound
from lsmlake.files.divide import Divide, divide
from lsmlake.format.data_files import Bucket, BucketEdit, CommitMessage
from lsmlake.format.snapshot import NamedFile, Snapshot, SourcePosition
from lsmlake.schema.kept_query import refuse_rows
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version

Position = Mapping[str, SourcePosition]
"""The sources of a view table or a history -> the state that its rows come from."""


@dataclass(frozen=True)
class Advance:
    """The position of a view table or a history that a refresh began with, None before the first one, and the position that its
    rows reach."""

    before: Position | None
    after: Position


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
        restate: makes the messages of each attempt from the version to follow; for an overwrite, which replaces the content of
            its buckets at that version, and for a statement that marks rows. None: `messages` are rebased.
        remade: visible rows may change or disappear without a newer row of their key.
        properties: the properties of the snapshot.
        schema: the schema to put into effect; None: the one in effect stays.
        restores: an older snapshot whose files become live again, and no others.
        statistics: the statistics file that the snapshot and later ones name.
        merges_manifests: merges all manifests into as few as their target size allows.
        divide: divides files of messages for buckets that were split meanwhile.
        advance: the commit is a refresh of a view table or of a history, and moves its position.
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
    merges_manifests: bool = False
    divide: Divide = divide
    advance: Advance | None = None

    @property
    def acts_without_edits(self) -> bool:
        """Whether there is something to publish even if no file changes."""
        return self.schema is not None or self.statistics is not None or self.merges_manifests or self.advance is not None

    @property
    def writes_rows(self) -> bool:
        """Whether visible rows may change, other than by restoring an older snapshot."""
        return self.restores is None and (self.remade or any(message.append is not None for message in self.messages))


@dataclass(frozen=True)
class Committed:
    """The result of a commit. `snapshot`: the published one; None if there was nothing to publish. `edits`: the published edits.
    `overtaken`: buckets whose compaction was dropped."""

    snapshot: Snapshot | None
    edits: tuple[BucketEdit, ...] = ()
    overtaken: tuple[Bucket, ...] = ()


# -- view tables ------------------------------------------------------------------------------------------------------


def check_advance(now: Version, request: Request) -> None:
    """Only a refresh writes rows of a view table, and it follows the position that it began with. Raises InvalidQuery, or
    Overtaken if another refresh came first."""
    if request.advance is None:
        if now.schema.view is not None and request.writes_rows:
            refuse_rows(now.schema.view, now.meta.paths.root)
    elif (None if now.snapshot is None else now.snapshot.position) != request.advance.before:
        raise Overtaken


# -- identity ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """The writer of a commit and the commit's number. Raises InvalidData.

    Args:
        commit_id: None: a repeated commit is not recognised.
        query: the id of the streaming query that commits under this writer_id; "" if the id is unknown; None: not a query, or a
            query whose id is the writer_id. Two queries never share a writer_id, since their batches have the same numbers.
        replaces: the id of the query whose writer_id this query takes over.
    """

    writer_id: str
    commit_id: int | None = None
    query: str | None = None
    replaces: str | None = None

    def __post_init__(self) -> None:
        number = self.commit_id
        if not isinstance(self.writer_id, str) or not self.writer_id:
            raise InvalidData(
                "a writer_id must be text",
                expected="text that is not empty",
                found=f"writer_id={self.writer_id!r}",
                cure="name the writer",
            )
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63):
            expected = "an integer from 0 to 2^63 - 1"
            raise InvalidData(
                "a commit_id must be an integer", expected=expected, found=f"commit_id={number!r}", cure="number the batches"
            )


def replayed(version: Version, identity: Identity) -> Snapshot | None:
    """The snapshot that already holds this commit, as of `version`; None if it was not applied.

    If the commit is the writer's last one and its snapshot has expired, returns the latest snapshot. Raises InvalidData if
    another streaming query owns this writer_id, or if the writer has committed a higher id and no retained snapshot holds this
    one, so it is unknown whether it was applied.
    """
    meta, latest = version.meta, version.snapshot
    if identity.commit_id is None or latest is None:
        return None
    last = latest.writers.get(identity.writer_id)
    if last is None or _takes_over(meta, identity, latest) or identity.commit_id > last:
        return None
    number = latest.id
    while number > 0:
        try:
            snapshot = meta.snapshots.get(number)
        except SnapshotNotFound:
            if meta.snapshots.is_cut(number):  # a rollback removed this snapshot; older ones may exist
                number -= 1
                continue
            break
        if (snapshot.writer_id, snapshot.commit_id) == (identity.writer_id, identity.commit_id):
            return snapshot
        number -= 1
    if identity.commit_id == last:
        return latest  # the commit's snapshot has expired, but `writers` still records it
    raise InvalidData(
        f"commit_id {identity.commit_id} of writer {identity.writer_id!r} is less than its last one",
        where=meta.paths.root,
        expected=f"more than {last}",
        found=identity.commit_id,
        cure="increase commit_id with every commit of a writer; use another writer_id for another job",
    )


def _takes_over(meta: Metadata, identity: Identity, latest: Snapshot) -> bool:
    """Whether the commit transfers a known writer_id to another query. All batches of that query are then new, whatever their
    numbers.

    Raises InvalidData if another job or query owns the writer_id and `identity.replaces` does not name that query.
    """
    owner = latest.queries.get(identity.writer_id)
    if owner == identity.query or (identity.query is not None and owner is not None and "" in (owner, identity.query)):
        return False
    if owner is not None and owner == identity.replaces:
        return True
    raise InvalidData(
        f"the writer_id {identity.writer_id!r} belongs to another {'job' if owner is None else 'streaming query'}, "
        "whose batches have the same numbers",
        where=meta.paths.root,
        expected="commits with writer_id and commit_id, no stream" if owner is None else f"query {owner}".rstrip(),
        found=_described(identity.query),
        cure="give each job a writer_id of its own"
        if identity.query is None
        else "give each sink a writer_id of its own"
        + (
            ""
            if owner is None
            else f"; if this query replaces that one for good, give its sink the argument replaces = {owner!r}"
        ),
    )


def _described(query: str | None) -> str:
    if query is None:
        return "a commit with writer_id and commit_id, no stream"
    return f"query {query}" if query else "a streaming query"
