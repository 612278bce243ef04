"""Housekeeping after a commit: automatic tags, Iceberg metadata, and the expiry of partitions, tags and snapshots by the options
of the table, or on a branch by those of the branch. `mirror_references` is that of other verbs, such as those of tags.

The commit is already published, so errors are logged, never raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lsmlake.commit.partition_expiry import Drop, expire_partitions, is_check_due
from lsmlake.commit.retention import snapshot_retention
from lsmlake.commit.snapshot_expiry import expire
from lsmlake.commit.tag_expiry import create_due_tag, expire_tags
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.interop.iceberg import mirror
from lsmlake.interop.iceberg.published import is_published
from lsmlake.options.table_options import Options
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake")

_EVERY = 10  # commits
_NOT_PUBLISHED = "Iceberg metadata was not brought up to date"


def housekeep(meta: Metadata, snapshot: Snapshot, options: Options, drop: Drop) -> None:
    """Create the automatic tag that is due. Publish Iceberg metadata. After the first commit of an interval, expire partitions.
    After every tenth commit, expire tags and a bounded number of snapshots.

    Args:
        meta: the table, or a branch.
        snapshot: the one just published; its number decides, so only one of many concurrent writers expires.
        options: the options of the table or branch. In a `write-only` table only compactions do housekeeping.
        drop: commits the expiry of partitions.
    """
    keeps = not options.write.write_only or snapshot.kind == COMPACT
    if keeps:
        _try(meta, snapshot, "no automatic tag was created", lambda: create_due_tag(meta, snapshot, options.tags))
    if options.iceberg.enabled:
        main = meta if meta.paths.branch is None else meta.on(None)
        _try(meta, snapshot, _NOT_PUBLISHED, lambda: mirror.publish(main))
    if not keeps:
        return
    if options.partitions.expiration_ms is not None:
        _try(meta, snapshot, "partitions were not expired", lambda: _expire_partitions(meta, snapshot, options, drop))
    if snapshot.id % _EVERY or not options.retention.expire_on_commit:
        return
    fresh = meta.with_cache_aside()  # so old metadata displaces nothing in the cache
    _try(meta, snapshot, "tags were not expired", lambda: _expire_tags(meta, fresh, options.retention.expire_limit))
    retention = snapshot_retention(options, meta.env.clock(), None, None, None, None)
    _try(meta, snapshot, "snapshots were not expired", lambda: expire(fresh, retention, explain=False))


def mirror_references(meta: Metadata) -> None:
    """After tags or branches changed, or snapshots without a commit: publish Iceberg metadata if every commit of the table does.
    One request if it was never published. An error is logged."""
    main = meta.on(None)
    try:
        if is_published(main) and Version.latest(main).options.iceberg.enabled:
            mirror.publish(main)
    except Exception as failed:
        pass_interruption(failed)
        _log.warning("%s: %s: %s", meta.paths.root, _NOT_PUBLISHED, failed)


def _expire_tags(meta: Metadata, fresh: Metadata, limit: int) -> None:
    meta.tags.all()  # now the cache of the handle holds them, so the next time they are only listed
    expire_tags(fresh, limit=limit)


def _expire_partitions(meta: Metadata, snapshot: Snapshot, options: Options, drop: Drop) -> None:
    try:
        before_ms = meta.snapshots.get(snapshot.id - 1).time_ms if snapshot.id > 1 else None
    except SnapshotNotFound:
        before_ms = None
    if is_check_due(snapshot, before_ms, options.partitions.check_ms):
        expire_partitions(Version.latest(meta), drop)


def _try(meta: Metadata, snapshot: Snapshot, otherwise: str, work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as failed:
        pass_interruption(failed)
        _log.warning("%s: %s after commit %d: %s", meta.paths.root, otherwise, snapshot.id, failed)
