"""The followers of a commit, in this order: automatic tag, Iceberg metadata, the expiry of partitions, tags and snapshots, and
callbacks.

A tag is published with its snapshot, and expiry comes last. The options of the version that the verb began with and the number of
the snapshot decide whether there is work, so only one of many concurrent writers expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lsmlake.errors import SnapshotNotFound
from lsmlake.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from lsmlake.format.tag import Tag
from lsmlake.iceberg import mirror
from lsmlake.iceberg.published import KeptMetadata, is_published
from lsmlake.maintain.callbacks import CallbackEvent, name_of, tell
from lsmlake.options.retention_options import BATCH, PROCESS_TIME, WATERMARK
from lsmlake.options.table_options import Options
from lsmlake.retention.partition_expiry import expire_partitions, is_check_due
from lsmlake.retention.retention import snapshot_retention
from lsmlake.retention.snapshot_expiry import expire
from lsmlake.retention.tag_expiry import create_batch_tag, create_due_tag, expire_tags
from lsmlake.storage.env import CommitFollower
from lsmlake.tables.version import Metadata, Version

_EVERY = 10  # commits


class AutomaticTags(CommitFollower):
    """Creates the automatic tag that is due."""

    failed = "no automatic tag was created"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        tags = version.options.tags
        if tags.creation in (PROCESS_TIME, WATERMARK) and _looks_after(version.options, snapshot):
            create_due_tag(version.meta, snapshot, version.options)
        if tags.creation == BATCH and snapshot.kind in (APPEND, OVERWRITE) and snapshot.commit_id is None:
            create_batch_tag(version.meta, snapshot, version.options)


class IcebergMetadata(CommitFollower):
    """Publishes Iceberg metadata if the options of the table say so."""

    failed = "Iceberg metadata was not brought up to date"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        if version.options.iceberg.enabled:
            meta = version.meta
            mirror.publish(meta if meta.paths.branch is None else meta.on(None))

    def after_names(self, meta: Metadata) -> None:
        """Publishes Iceberg metadata after tags or branches changed. Costs one request if the table was never published."""
        main = meta.on(None)
        if is_published(main) and Version.latest(main).options.iceberg.enabled:
            mirror.publish(main)

    def before_deletion(self, meta: Metadata) -> None:
        mirror.bring_up_to_date(meta)

    def references(self, meta: Metadata) -> Callable[[], Iterable[str]]:
        return KeptMetadata(meta).new


class PartitionExpiry(CommitFollower):
    """Expires partitions after the first commit of an interval."""

    failed = "partitions were not expired"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        meta, options = version.meta, version.options
        if options.partitions.expiration_ms is None or not _looks_after(options, snapshot):
            return
        try:
            before_ms = meta.snapshots.get(snapshot.id - 1).time_ms if snapshot.id > 1 else None
        except SnapshotNotFound:
            before_ms = None
        if is_check_due(snapshot, before_ms, options.partitions.check_ms):
            expire_partitions(Version.latest(meta))


class TagExpiry(CommitFollower):
    """Deletes expired tags after every tenth commit."""

    failed = "tags were not expired"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        if _expires(version.options, snapshot):
            meta = version.meta
            meta.tags.all()  # now the cache of the handle holds them, so the next time they are only listed
            expire_tags(meta.with_cache_aside(), limit=version.options.retention.expire_limit)


class SnapshotExpiry(CommitFollower):
    """Expires a bounded number of snapshots, after every tenth commit."""

    failed = "snapshots were not expired"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        if _expires(version.options, snapshot):
            meta = version.meta
            retention = snapshot_retention(version.options, meta.env.clock(), None, None, None, None)
            expire(meta.with_cache_aside(), retention, explain=False)  # so old metadata displaces nothing in the cache


class Callbacks(CommitFollower):
    """Tells the callbacks in the options of the table of commits and tags."""

    failed = "a callback failed"

    def after_commit(self, version: Version, snapshot: Snapshot) -> None:
        options, meta = version.options.callbacks, version.meta
        if options.commit or options.commit_url:
            numbers = snapshot.id, snapshot.kind, snapshot.delta_rows
            tell(CallbackEvent("commit", name_of(meta), meta.paths.root, *numbers), options.commit, options.commit_url)

    def after_tag(self, meta: Metadata, tag: Tag, options: Options) -> None:
        if options.callbacks.tag or options.callbacks.tag_url:
            event = CallbackEvent("tag", name_of(meta), meta.paths.root, tag.snapshot.id, tag=tag.name)
            tell(event, options.callbacks.tag, options.callbacks.tag_url)


def _looks_after(options: Options, snapshot: Snapshot) -> bool:
    """Whether followers work after this commit: in a `write-only` table only after compactions."""
    return not options.write.write_only or snapshot.kind == COMPACT


def _expires(options: Options, snapshot: Snapshot) -> bool:
    """Whether tags and snapshots expire after this commit."""
    return _looks_after(options, snapshot) and not snapshot.id % _EVERY and options.retention.expire_on_commit


FOLLOWERS = (AutomaticTags(), IcebergMetadata(), PartitionExpiry(), TagExpiry(), SnapshotExpiry(), Callbacks())
