"""Who commits, and whether that commit has taken place: one (writer_id, commit_id) is applied once (invariant I7)."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import InvalidData, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version


@dataclass(frozen=True)
class Identity:
    """Who commits. Raises InvalidData.

    Args:
        commit_id: None: the commit is known only to itself and its retries.
        query: the id of the streaming query that commits under this name; "" if it cannot be known; None: not a query, or a query
            whose id is the name. Two queries never share a name: their batches have the same numbers and other rows.
        replaces: the id of the query whose name this query takes over.
    """

    writer_id: str
    commit_id: int | None = None
    query: str | None = None
    replaces: str | None = None

    def __post_init__(self) -> None:
        number = self.commit_id
        if not isinstance(self.writer_id, str) or not self.writer_id:
            raise InvalidData(
                "a writer_id is text", expected="a name", found=f"writer_id={self.writer_id!r}", cure="name the writer"
            )
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63):
            expected = "an integer from 0 to 2^63 - 1"
            raise InvalidData("a commit_id is a number", expected=expected, found=f"commit_id={number!r}", cure="count batches")


def replayed(version: Version, identity: Identity) -> Snapshot | None:
    """The snapshot that already holds this commit, as of `version`; None if it has not taken place.

    Raises InvalidData if another streaming query writes under this name, or if the writer has gone past this id and the snapshot
    is not kept, so nobody knows whether it took place.
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
            snapshot = meta.snapshot(number)
        except SnapshotNotFound:
            break
        if (snapshot.writer_id, snapshot.commit_id) == (identity.writer_id, identity.commit_id):
            return snapshot
        number -= 1
    if identity.commit_id == last:
        return latest  # its snapshot has expired, the note of it has not
    raise InvalidData(
        f"commit id {identity.commit_id} of writer {identity.writer_id!r} is behind its last one",
        where=meta.paths.root,
        expected=f"more than {last}",
        found=identity.commit_id,
        cure="commit ids of a writer must grow; use another writer_id for another job",
    )


def _takes_over(meta: Metadata, identity: Identity, latest: Snapshot) -> bool:
    """Whether a known name passes from one query to another, whose batches are then new whatever their numbers.

    Raises InvalidData if it may not: `identity.replaces` does not name the query that has it.
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
        found=_seeker(identity.query),
        cure="give each job a writer_id of its own"
        if identity.query is None
        else "give each sink a writer_id of its own"
        + (
            ""
            if owner is None
            else f"; if this query replaces that one for good, give its sink the argument replaces = {owner!r}"
        ),
    )


def _seeker(query: str | None) -> str:
    if query is None:
        return "a commit with writer_id and commit_id, no stream"
    return f"query {query}" if query else "a streaming query"
