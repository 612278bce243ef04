"""The verbs that look after a table: compaction, alterations, expiry, repair."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath

import pyarrow as pa

from lsmlake.api.table_verbs.handle import Handle
from lsmlake.api.types import (
    RepairAction,
)
from lsmlake.border import verbs_of
from lsmlake.commit.commit import drop_buckets
from lsmlake.commit.partition_expiry import PartitionExpiryReport, expire_partitions
from lsmlake.commit.retention import snapshot_retention
from lsmlake.commit.snapshot_expiry import ExpireReport, expire
from lsmlake.compact.job import CompactionReport, compact_table
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format.files import Bucket
from lsmlake.format.paths import split_branch
from lsmlake.format.snapshot import Snapshot
from lsmlake.interop.iceberg import mirror
from lsmlake.interop.iceberg.catalog import check_name, register
from lsmlake.maintain import named_files
from lsmlake.maintain.alter import alter
from lsmlake.maintain.analyze import analyze
from lsmlake.maintain.copy import CopyReport, copy
from lsmlake.maintain.finding import Finding
from lsmlake.maintain.orphans import OrphanReport, remove_orphan_files
from lsmlake.maintain.repair import RepairReport, repair
from lsmlake.maintain.repair_snapshots import SnapshotRepairReport, repair_snapshots
from lsmlake.maintain.verify import verify
from lsmlake.read.partitions import partition_matches
from lsmlake.read.travel import Moment, milliseconds
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.schema import Schema
from lsmlake.store.consumers import Progress, put_consumer, remove_consumer
from lsmlake.store.location import storage_at
from lsmlake.store.snapshots import LIST_SNAPSHOTS
from lsmlake.write.replace import partition_predicate


@verbs_of("Table")
class Upkeep(Handle):
    """The verbs that look after a table: compaction, alterations, expiry, repair."""

    def analyze(self, columns: Sequence[str] | None = None) -> Snapshot | None:
        """Compute statistics of the visible rows and publish them as a snapshot of kind ANALYZE.

        `system_table("statistics")` shows them: the number of rows and about their bytes; per column about how many distinct
        values it has, the least and the greatest value, the nulls, and the lengths of texts and binary values. Later snapshots
        keep them until the next analysis. Reads the columns once, in bounded memory, or with Spark as one aggregation.

        Args:
            columns: the columns to analyze. Default: all. An empty list: none, only the rows are counted.

        Returns:
            The snapshot; None if nothing was ever written.

        Raises:
            InvalidQuery: there is no such column.
            CommitConflict: after `commit.max-retries`.

        Example:
            >>> orders.analyze(["status", "amount"])
            >>> orders.system_table("statistics")["colstat"].to_pylist(maps_as_pydicts="strict")
        """
        return analyze(self.version, columns, self.runtime.measure)

    def compact(self, *, full: bool = False, where: str | None = None, buckets: Sequence[int] | None = None) -> CompactionReport:
        """Compact the buckets that need it. With Spark attached, Spark compacts them in parallel.

        Args:
            full: compact every bucket into one sorted run without deleted rows. Default: what the compaction strategy picks.
            where: only the partitions that satisfy this predicate on partition columns.
            buckets: only the buckets with these numbers.

        Raises:
            CommitConflict: other commits overtook the compaction every time.
        """
        version = self.version
        wanted = _wanted(version.schema, where, buckets, self.runtime.zone)
        return compact_table(version, self.runtime.compactions(self.meta, version.schema), wanted, full=full)

    def publish_iceberg(self, *, catalog: Mapping[str, str] | str | None = None, name: str | None = None) -> str:
        """Publish the table as a table of Apache Iceberg, format version 3, which names the data files where they lie.

        All retained and tagged snapshots are there under their numbers, with their schemas, partition specs and tags, and so are
        branches. Files are deleted only after the metadata that names them. With the option `metadata.iceberg`, every commit
        does this.

        Rows at level 0 are visible to readers that apply equality deletes; see the option `metadata.iceberg.level0`. Under merge
        rules that combine rows, and under `sequence.field`, rows are visible once they are compacted.

        Args:
            catalog: register the table in this catalog of Iceberg, or bring it up to date there. The properties of the catalog as
                PyIceberg takes them, its name as "name"; or the name alone of a catalog that PyIceberg's configuration has.
                Commits do not do this: call it again, or set the option `metadata.iceberg.catalog`.
            name: the namespace, of one or more levels, and the name of the table in the catalog. Default: its name here.

        Returns:
            The address of the newest metadata file, `.../metadata/v<n>.metadata.json`.

        Raises:
            InvalidOption: the table has no deletion vectors.
            InvalidSchema: files have a type that Iceberg does not widen to that of the column now.
            InvalidQuery: the table is in memory, or this is the handle of a branch; the name in the catalog has no namespace.
            CommitConflict: other processes published first on every attempt.
            TableExists: the catalog has another table of that name, or another program has written to the table there.
            StorageFailed: the catalog did not register the table, or did not answer. The table is published.

        Example:
            >>> polars.scan_iceberg(orders.publish_iceberg())
        """
        main, branch = split_branch(self.name)
        if branch is not None:
            cure = Wording(f"call lake.table({main!r}).publish_iceberg()", command=f"run: lsmlake iceberg {main}")
            raise InvalidQuery("a branch is published with its table, as a branch of it", where=self.name, cure=cure)
        if catalog is None and name is not None:
            cure = Wording("add catalog=, or leave name out", command="add --catalog, or leave --name out")
            raise InvalidQuery("only a table in a catalog has another name", found=f"{name!r}, but no catalog", cure=cure)
        there = main if name is None else name
        check_name(there)
        published = mirror.publish(self.meta, asked=True)
        if catalog is not None:
            register(published.metadata_file, published.content, catalog, there)
        return published.metadata_file

    def alter(self, *alterations: Alteration) -> Snapshot | None:
        """Change columns and options of the table, all or none, as one commit.

        Columns are identified by ids, so an alteration of columns rewrites no file: rows that there are have the default of a new
        column, and are converted to a wider type when they are read. Earlier snapshots keep their columns. A stream of changes
        goes on with the columns that it began with, under their names of then. It stops with InvalidQuery once a column of the
        table was dropped or widened; a new call of `follow` or `read_stream` continues there, with the new columns. A stream of
        upserts goes on while its rows fit, and otherwise stops with InvalidData.

        Some options give existing files another meaning: deletion vectors, the merge engine and its options, the changelog
        producer. Changing them compacts all buckets in full by the old options, in the same commit; so does a new column with a
        default under a merge engine that combines rows. Writers that began before an alteration commit if their rows fit, and
        fail with CommitConflict otherwise.

        Args:
            alterations: results of `lsmlake.add_column`, `rename_column`, `drop_column`, `move_column`, `change_type`,
                `set_comment`, `set_not_null`, `drop_not_null`, `set_default`, `drop_default`, `set_option` and `unset_option`,
                applied in order.

        Returns:
            The snapshot, or None if the alterations change nothing.

        Raises:
            InvalidSchema: an alteration of columns is impossible, for example of the type of a key column.
            InvalidOption: an option or value is unknown, or the option cannot change once the table has rows.
            InvalidData: the new options do not accept a stored row.
            CommitConflict: other commits came first on every attempt.

        Example:
            >>> orders.alter(lsmlake.add_column("note", "STRING", after="status"), lsmlake.change_type("qty", "BIGINT"))
            >>> orders.alter(lsmlake.set_option("snapshot.num-retained.min", 5))
        """
        return alter(self.meta, self.name, alterations, partial(self.runtime.compactions, self.meta))

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
        options = self.current.parsed_options
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
        return expire_partitions(self.version, drop_buckets, dry_run=dry_run)

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

    def copy(
        self,
        url: str | PurePath,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        name: str | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> CopyReport:
        """Copy the table at one snapshot into another warehouse, or under another name into this one.

        The copy is a table of its own: its commits, and those of this table, do not concern each other. It begins with the
        snapshot, under the same number, and has its rows, columns, options, deletion vectors, file indexes and statistics, the
        earlier schemas, and the commit ids of writers. Older snapshots, changelogs, tags, branches and consumers stay behind.
        Copy a branch by its own handle: `orders.branch("b1").copy(...)`.

        The size and the checksum of each file are compared with those that were written once, and the copy is read back. The
        table appears in the target as a whole, at the end. After an interruption call it again: it copies what is missing. If
        the target has the copy already, it copies files that were lost or damaged there.

        Args:
            url: the warehouse of the copy, as in `connect`.
            snapshot: copy this snapshot. Default: the latest.
            tag: copy the snapshot of this tag.
            timestamp: copy the snapshot that was the latest at this time, as in `scan`.
            name: "database.table", the name of the copy; a database that does not exist is created. Default: the name of this
                table.
            storage_options: as in `connect`, for the target. Default: the usual environment variables and profiles, not the
                options of this warehouse.

        Returns:
            The number and size of the files, and how many of them the target had already.

        Raises:
            TableExists: the target has a table of this name that is no copy of the same snapshot.
            SnapshotNotFound: the snapshot does not exist, or it expired during the copy.
            Corrupt: a file of this table is damaged or missing. The target has no table then.
            StorageFailed: a storage failed. What was copied stays; call it again.

        Example:
            >>> orders.copy("s3://backup/lake", tag="eod", name="sales.orders_eod")
            >>> lsmlake.connect("s3://backup/lake").table("sales.orders_eod").scan().count()
        """
        target = storage_at(str(url), storage_options)
        return copy(self.meta, self.name, Moment(snapshot, timestamp, tag), self.runtime.zone, target, name)

    def consumers(self) -> pa.Table:
        """One row per consumer, by name: the snapshot that it reads next. That snapshot and later ones do not expire."""
        return named_files.consumers(self.meta)

    def reset_consumer(self, name: str, next_snapshot: int | None = None) -> None:
        """Set the snapshot that a consumer reads next, or remove the consumer.

        Args:
            name: the name of the consumer.
            next_snapshot: the first snapshot that the consumer has not read, at most the latest + 1. None removes the consumer.

        Raises:
            InvalidQuery: `next_snapshot` is out of range.
        """
        if next_snapshot is None:
            remove_consumer(self.meta, name)
            return
        if next_snapshot < 1:
            raise InvalidQuery(
                "next_snapshot is not a snapshot id", expected="1 or more", found=next_snapshot, cure=LIST_SNAPSHOTS
            )
        if next_snapshot > (self.meta.snapshots.latest_id() or 0) + 1:
            raise InvalidQuery("next_snapshot is after the next snapshot of the table", found=next_snapshot, cure=LIST_SNAPSHOTS)
        put_consumer(self.meta, name, Progress(next_snapshot))

    def repair(self, *, action: RepairAction | None = None, keys: Sequence[Mapping[str, object]] | None = None) -> RepairReport:
        """Find rows that cannot be merged with the older rows of their key, and remove them.

        Some faults, such as a sum beyond the range of its type, show only when rows are merged. A table that its writers do not
        compact may have accepted such a row. Every scan and compaction of the bucket then fails until the row is removed. Like a
        full compaction, repair merges all rows of such a bucket.

        Args:
            action: 'drop' removes the rows at fault. 'null' sets their columns at fault to null; their other columns still count,
                so 'null' may have to change more rows than 'drop'. None lists the rows that 'drop' would remove and changes
                nothing. Other rows of the key stay as they are.
            keys: repair only these keys, each a dict of the primary key columns. Default: all keys.

        Returns:
            The rows at fault, and the snapshot that removed them. Column `row` of the listing holds the key and the columns at
            fault. Changelogs that were written with these rows still contain them.

        Raises:
            CommitConflict: compactions came first on every attempt.
            InvalidQuery: 'null' cannot repair a row.
        """
        return repair(self.version, action, keys, self.name)

    def repair_snapshots(self, *, roll_back_to: int | None = None, drop: Sequence[int] = ()) -> SnapshotRepairReport:
        """Find damaged snapshots; with consent, roll back to the newest sound one and drop unreadable ones.

        Without arguments the snapshots are examined, the newest first, until one is sound, and nothing is changed. A snapshot is
        'unreadable' if its own file is damaged: then no program can read or write the table. It is 'damaged' if a file that it
        names is. Use this if a damaged file cannot be restored from a copy.

        Args:
            roll_back_to: the newest sound snapshot, as a report without arguments names it. Its rows become the rows of the table
                again, as a new snapshot. Rows and commits after it are lost where their snapshots are unreadable.
            drop: unreadable snapshots to remove.

        Returns:
            The state of the examined snapshots, and what was done.

        Raises:
            InvalidQuery: the arguments name other snapshots than those found. Nothing was changed.
            CommitConflict: another commit came first.
        """
        return repair_snapshots(self.meta, roll_back_to, tuple(drop), self.name)

    def verify(self) -> list[Finding]:
        """Check all invariants and checksums of all snapshots, tags and branches, and Iceberg metadata, where it is published.
        Reads all files.

        Returns:
            One finding per violation, with the damaged or missing file, and the snapshots, tags and branches that need it; empty
            if nothing is wrong.

        Example:
            >>> orders.verify()
            [Finding(where='sales.db/orders/bucket-0/data-5f0c.parquet', what='data file is missing', snapshots=(3, 4), ...)]
        """
        return verify(self.meta)


def _wanted(schema: Schema, where: str | None, buckets: Sequence[int] | None, zone: str) -> Callable[[Bucket], bool]:
    """A test of the buckets that a compaction may touch. `zone`: the time zone of times in `where` that name none."""
    numbers = None if buckets is None else {int(number) for number in buckets}
    if numbers is not None and (wrong := sorted(n for n in numbers if not 0 <= n < schema.parsed_options.layout.buckets)):
        raise InvalidQuery(
            "no such buckets",
            expected=f"0 to {schema.parsed_options.layout.buckets - 1}",
            found=wrong,
            cure="correct the numbers",
        )
    predicate = None if where is None else partition_predicate(schema, where, zone)

    def wanted(bucket: Bucket) -> bool:
        return (numbers is None or bucket.number in numbers) and (
            predicate is None or partition_matches(predicate, schema, bucket) is not False
        )

    return wanted
