"""Publishes the next schema of a table, for alterations and replacements: store it, then commit a snapshot that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lsmlake.commit.commit import Succession, commit
from lsmlake.commit.identity import Identity
from lsmlake.errors import CommitConflict
from lsmlake.format.files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version

_ROUNDS = 5


def versions(meta: Metadata, name: str, doing: str) -> Iterator[Version]:
    """The newest version of the table, again for each attempt to succeed it.

    Raises:
        CommitConflict: other commits came first on every attempt. `doing` says what to do again, such as "alter".
    """
    for _ in range(_ROUNDS):
        yield Version.latest(meta)
    raise CommitConflict(
        "other commits came first on every attempt",
        where=name,
        found=f"{_ROUNDS} attempts",
        cure=f"pause the writers of the table and {doing} it again",
    )


def succeed(
    version: Version, messages: Sequence[CommitMessage], succession: Succession, replaces: Callable | None = None
) -> Snapshot | None:
    """Store the schema of `succession` and publish it with `messages`, which `replaces` treats as in `commit`. Returns None if
    another commit or alteration came first; the files of `messages` are then deleted."""
    meta, stored = version.meta, False
    try:
        stored = meta.schemas.put(succession.schema)
    finally:
        if not stored:
            meta.files.discard(messages)
    if not stored:
        return None
    try:
        return commit(version, messages, Identity(meta.env.ids()), succession=succession, replaces=replaces).snapshot
    except CommitConflict:
        meta.files.delete_quietly([meta.paths.schema(succession.schema.id)])
        return None
