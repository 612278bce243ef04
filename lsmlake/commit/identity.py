"""The identity of a commit, and the search for a commit already applied: a (writer_id, commit_id) is applied once (I7)."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import InvalidData, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version


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
            if meta.snapshots.is_cut(number):  # a rollback removed it; older ones may be there
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
    """Whether the commit transfers a known writer_id to another query, whose batches are then new whatever their numbers.

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
