"""Calls the followers of a table's environment (`storage.env`): after a commit, and before files are deleted.

Commits, tags and branches know none of them: expiry and the publication of Iceberg metadata subscribe (`maintain.followers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from lsmlake.format.snapshot import Snapshot
from lsmlake.storage.env import CommitFollower
from lsmlake.tables.metadata import Metadata
from lsmlake.tables.version import Version
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake")


def after_commit(version: Version, snapshot: Snapshot) -> None:
    """A verb that began with `version` has published `snapshot`. Errors are logged, never raised."""
    for follower in version.meta.env.followers:
        _try(version.meta, follower, lambda one: one.after_commit(version, snapshot), f" after commit {snapshot.id}")


def after_names(meta: Metadata) -> None:
    """Tags or branches changed, or snapshots without a commit. Errors are logged."""
    for follower in meta.env.followers:
        _try(meta, follower, lambda one: one.after_names(meta), "")


def before_deletion(meta: Metadata) -> None:
    """Files of the table are about to be deleted. An error is raised, and nothing may be deleted."""
    for follower in meta.env.followers:
        follower.before_deletion(meta)


def references(meta: Metadata) -> list[Callable[[], Iterable[str]]]:
    """Functions that return what followers name and no snapshot does."""
    return [named for follower in meta.env.followers if (named := follower.references(meta)) is not None]


def _try(meta: Metadata, follower: CommitFollower, work: Callable[[CommitFollower], None], when: str) -> None:
    try:
        work(follower)
    except Exception as failed:
        pass_interruption(failed)
        _log.warning("%s: %s%s: %s", meta.paths.root, follower.failed, when, failed)
