"""Publishes the next schema of a table, for alterations and replacements: store it, then commit a snapshot that names it."""

from __future__ import annotations

from collections.abc import Iterator

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Request
from lsmlake.errors import CommitConflict
from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.env import attempts
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version

_ROUNDS = 5


def versions(meta: Metadata, name: str, doing: str) -> Iterator[Version]:
    """The newest version of the table, again for each attempt to succeed it.

    Raises:
        CommitConflict: other commits came first on every attempt. `doing` says what to do again, such as "alter".
    """
    cure = f"pause the writers of the table and {doing} it again"
    for _ in attempts(_ROUNDS, "other commits came first on every attempt", name, cure):
        yield Version.latest(meta)


def succeed(version: Version, request: Request) -> Snapshot | None:
    """Store the schema of a request and publish it. Returns None if another commit or alteration came first; the files of its
    messages are then deleted."""
    meta, stored = version.meta, False
    try:
        stored = meta.schemas.put(request.schema)
    finally:
        if not stored:
            meta.files.discard(request.messages)
    if not stored:
        return None
    try:
        return commit(version, request).snapshot
    except CommitConflict:
        meta.files.delete_quietly([meta.paths.schema(request.schema.id)])
        return None
