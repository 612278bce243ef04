"""The verbs that remove old snapshots, partitions and files; and the consumers, which keep snapshots."""

from __future__ import annotations

import datetime

import pyarrow as pa

from lsmlake.api.table_verbs.handle import Handle
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery
from lsmlake.maintain import named_files
from lsmlake.read.travel import milliseconds
from lsmlake.retention.orphans import OrphanReport, remove_orphan_files
from lsmlake.retention.partition_expiry import PartitionExpiryReport, expire_partitions
from lsmlake.retention.retention import snapshot_retention
from lsmlake.retention.snapshot_expiry import ExpireReport, expire
from lsmlake.tables.consumers import Progress, put_consumer, remove_known_consumer
from lsmlake.tables.snapshots import LIST_SNAPSHOTS


@verbs_of("Table")
class Expiry(Handle):
    """The verbs that remove old snapshots, partitions and files; and the consumers, which keep snapshots."""

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime.datetime | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ExpireReport:
        """Remove old snapshots, and the files that only these snapshots need. The latest snapshot always stays.

        Commits expire snapshots automatically, see option `snapshot.expire.on-commit`. Snapshots that a consumer has not read
        stay, and changelogs stay as long as the options `changelog.*` require. Readers of an expired snapshot fail.

        Args:
            retain_max: keep at most this many snapshots. Default: option `snapshot.num-retained.max`.
            retain_min: keep at least this many snapshots. Default: option `snapshot.num-retained.min`.
            older_than: between these two numbers, keep the snapshots that were the latest at this time or later. Text such as
                '2026-01-31 12:00:00', or a datetime; a time without a time zone is in UTC, with Spark in the time zone of the
                session. Default: option `snapshot.time-retained`.
            limit: remove at most this many snapshots. Default: no limit or, in a call without arguments, option
                `snapshot.expire.limit`.
            dry_run: remove nothing, report what would be removed.

        Returns:
            What was removed, and the reasons for which snapshots were kept although they are due.

        Raises:
            InvalidQuery: a number is below 1, or `retain_max` is below `retain_min`.
        """
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        options = self.version.schema.parsed_options
        retention = snapshot_retention(options, self.meta.env.clock(), retain_min, retain_max, time_ms, limit)
        return expire(self.meta, retention, dry_run=dry_run)

    def expire_partitions(self, *, dry_run: bool = False) -> PartitionExpiryReport:
        """Drop the partitions that are older than option `partition.expiration-time`, as one commit.

        Commits do this automatically, see option `partition.expiration-check-interval`. The time of a partition is read from its
        values (`values-time`) or is that of its newest file (`update-time`), see option `partition.expiration-strategy`; all
        times are in UTC. A partition by years, months, days or hours expires once its latest instant is older. A partition whose
        values are no time never expires by values-time. At most
        `partition.expiration-max-num` partitions expire in one call, the oldest first. Older snapshots keep the rows until they
        expire.

        Args:
            dry_run: drop nothing, report what is due.

        Returns:
            The partitions, with the number of their rows and files.

        Raises:
            InvalidQuery: the option `partition.expiration-time` is not set.
            CommitConflict: other commits won the race every time. Nothing was dropped.
        """
        return expire_partitions(self.version, dry_run=dry_run)

    def remove_orphan_files(
        self, older_than: str | datetime.datetime | None = None, dry_run: bool = False, *, limit: int | None = None
    ) -> OrphanReport:
        """Delete files in the folder of the table that lsmlake wrote and that no snapshot, tag or changelog names.

        Killed writers and interrupted deletions leave such files; they cost space and nothing else. On a local file system these
        include temporary files (kind "temporary"), which are deleted only if their writer is dead. Files that others put into
        the folder stay. If any metadata of the table cannot be read, nothing is deleted.

        Args:
            older_than: delete files that were last modified before this time, by the clock of the storage. Text such as
                '2026-01-31 12:00:00', or a datetime; a time without a time zone is in UTC, with Spark in the time zone of the
                session. Default: a day ago. A write that has not committed yet loses files that are older than this.
            dry_run: delete nothing, report what would be deleted.
            limit: delete at most this many files. Default: no limit.

        Returns:
            The number, size, kinds and paths of the files.

        Raises:
            Corrupt: metadata is damaged or missing. Nothing was deleted.
            UnsupportedFormat: the table has metadata that this version does not know. Nothing was deleted.
        """
        if limit is not None and limit < 1:
            raise InvalidQuery("limit is not a number of files", expected="1 or more", found=limit, cure="correct limit")
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        return remove_orphan_files(self.meta.on(None), time_ms, dry_run=dry_run, limit=limit)

    def consumers(self) -> pa.Table:
        """One row per consumer, by name: the snapshot that it reads next. That snapshot and later ones do not expire."""
        return named_files.consumers(self.meta)

    def reset_consumer(self, name: str, next_snapshot: int | None = None) -> None:
        """Set the snapshot that a consumer reads next, or remove the consumer.

        Args:
            name: the name of the consumer.
            next_snapshot: the first snapshot that the consumer has not read, at most the latest + 1. None removes the consumer.

        Raises:
            SnapshotNotFound: `next_snapshot` has expired.
            InvalidQuery: `next_snapshot` is out of range; or there is no consumer to remove.
        """
        if next_snapshot is None:
            remove_known_consumer(self.meta, name)
            return
        if next_snapshot < 1:
            raise InvalidQuery(
                "next_snapshot is not a snapshot id", expected="1 or more", found=next_snapshot, cure=LIST_SNAPSHOTS
            )
        latest = self.meta.snapshots.latest_id() or 0
        if next_snapshot > latest + 1:
            raise InvalidQuery("next_snapshot is after the next snapshot of the table", found=next_snapshot, cure=LIST_SNAPSHOTS)
        if next_snapshot <= latest:
            self.meta.snapshots.recorded(next_snapshot)  # the consumer could not keep what has expired
        put_consumer(self.meta, name, Progress(next_snapshot))
