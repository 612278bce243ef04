"""A table, with its verbs as methods."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import overload

import pyarrow as pa

from lsmlake.api.changes import Changes
from lsmlake.api.following import ChangeBatch, Following, follow
from lsmlake.api.inputs import as_input
from lsmlake.api.key_input import as_keys
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan
from lsmlake.api.types import (
    ArrowExpression,
    BatchFunction,
    ChangesMode,
    Data,
    Keys,
    ReadMode,
    RepairAction,
    RowKinds,
    SparkDataFrame,
    StartMode,
    StreamingQuery,
    Trigger,
)
from lsmlake.border import public
from lsmlake.cdc.follow import Limit
from lsmlake.commit.replay import Identity
from lsmlake.commit.retention import snapshot_retention
from lsmlake.commit.snapshot_expiry import ExpireReport, expire
from lsmlake.compact.job import CompactionReport, compact_table
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.format.files import Bucket, BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain import listings
from lsmlake.maintain.alter import Alteration, alter
from lsmlake.maintain.repair import RepairReport, repair
from lsmlake.maintain.verify import Finding, verify
from lsmlake.notebook import html_pairs, html_rows
from lsmlake.predicate.spark_sql.parse import parse
from lsmlake.read.get import rows_of_keys
from lsmlake.read.plan import partition_matches
from lsmlake.read.travel import Moment, milliseconds, resolve
from lsmlake.schema import rowkind
from lsmlake.schema.conform import Cast
from lsmlake.schema.schema import Schema
from lsmlake.schema.type_text import format_type
from lsmlake.store.consumers import Progress, put_consumer, remove_consumer
from lsmlake.store.metadata import LIST_SNAPSHOTS, Metadata
from lsmlake.store.version import Version
from lsmlake.write.prepare import Request
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables


@public
@dataclass(frozen=True)
class Table:
    """A primary-key table. The handle holds no state of the table: every method reads the latest snapshot and its schema.

    Attributes:
        name: "database.table".
    """

    name: str
    meta: Metadata
    runtime: Runtime

    def __repr__(self) -> str:
        return f"<lsmlake table {self.name} in {self.path}>"

    def _repr_html_(self) -> str:
        """The name, the columns and the options. Reads the schema, no data."""
        schema = self.current
        title = f"{self.name}: primary key {', '.join(schema.primary_key)}"
        if schema.partition_by:
            title += f"; partitioned by {', '.join(schema.partition_by)}"
        columns = [(field.name, format_type(field.type), "" if field.nullable else "NOT NULL") for field in schema.columns]
        return html_rows(title, ("column", "type", ""), columns) + html_pairs("options", schema.options.items())

    @property
    def current(self) -> Schema:
        """The schema in effect, with keys, partitions and options."""
        return self.version.schema

    @property
    def version(self) -> Version:
        """The table at its newest snapshot."""
        return Version.latest(self.meta)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.current.plain_columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The primary key columns, in the order in which they were declared."""
        return self.current.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns, in the order in which they were declared; empty for a table without partitions."""
        return self.current.partition_by

    @property
    def options(self) -> Mapping[str, str]:
        """The options that the table sets; all others have their defaults."""
        return MappingProxyType(dict(self.current.options))

    @property
    def comment(self) -> str | None:
        """The comment of the table, if it has one."""
        return self.current.comment

    @property
    def path(self) -> str:
        """The folder of the table, relative to the warehouse."""
        return self.meta.paths.root

    # -- writing ------------------------------------------------------------------------------------------------------

    def upsert(
        self,
        data: Data,
        *,
        cast: bool = False,
        row_kind: RowKinds | None = None,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
    ) -> Snapshot | None:
        """Insert or replace rows by key, as one commit. An error leaves the table unchanged.

        Args:
            data: anything with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a Polars LazyFrame, a list of dicts,
                a dict of columns, an iterator of record batches, a pyarrow dataset, the path or glob of Parquet, CSV or JSON
                files, or a DataFrame of the attached Spark session. Columns are matched by name. If several rows have the same
                key, the last row wins. Streams and files are read while they are written; rows beyond `write-buffer-size` are
                sorted on disk. Under merge engines that combine rows, a nullable column may be left out. Data without rows
                commits nothing, whatever its columns.
            cast: convert values of other types if the conversion is lossless: text to numbers, decimals, dates, timestamps and
                booleans, a float to an integer or to the decimal that it prints as, nanoseconds to microseconds. A time without
                a time zone is in UTC; with Spark it is in the time zone of the session. CSV and JSON files are always converted.
            row_kind: the column that holds '+I', '-U', '+U' or '-D'. For a column with other codes:
                {"column": "op", "map": {"c": "+I", "u": "+U", "d": "-D"}}. Default: option `rowkind.field`.
            commit_id: makes the write idempotent, together with `writer_id`. If this pair has already committed, the call writes
                nothing and returns the snapshot of that commit, or the latest snapshot if that one has expired. The commit ids
                of a writer must increase.
            writer_id: the name of the writer; required with `commit_id`.
            compact: True compacts after the write, False only writes level 0. None: the options of the table decide.

        Returns:
            The snapshot that this commit published, or None if there was nothing to commit.

        Raises:
            InvalidData: the data does not fit the table. The error names the column and, without Spark, the first row that does
                not fit. Nothing was committed.
            CommitConflict: other commits won the race every time. Nothing was committed.
            CommitUnknown: the store did not report whether the commit took place.
            StorageFailed: the store refused a call.
        """
        request = Request(rowkind.Source.of(row_kind), cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact)

    def delete_keys(
        self,
        data: Data,
        *,
        cast: bool = False,
        ignore_sequence: bool = False,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
    ) -> Snapshot | None:
        """Delete rows by key, as one commit, without scanning the table. A key that the table does not hold is not an error.

        The arguments that are not listed, the result and the errors are those of `upsert`.

        Args:
            data: the primary key columns and, if the table has `sequence.field`, the sequence columns; no other columns. A delete
                is ordered by sequence among the rows of its key: a row with a greater sequence stays.
            ignore_sequence: delete the row whatever its sequence, under every merge engine, and also if the table sets
                `ignore-delete`. Use it for erasure requests. `data` then holds the primary key columns only. A row of the key
                that arrives later is inserted whatever its sequence. The bytes of a deleted row stay in older files until a
                compaction rewrites these files and the snapshots that name them expire.
        """
        request = Request(deletes=True, ignore_sequence=ignore_sequence, cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact)

    def _cast(self, cast: bool) -> Cast | None:
        return Cast(self.runtime.zone) if cast else None

    def _write(self, data: Data, request: Request, identity: Identity, compact: bool | None) -> Snapshot | None:
        version = self.version
        if self.runtime.owns(data):
            return self.runtime.upsert(version, data, identity, request=request, compact=compact)
        given = as_input(data, version.schema.plain_columns)
        if given.text:
            request = replace(request, cast=self._cast(True))
        return upsert_tables(version, given.tables, request, identity, inline_picker(version, compact))

    def _identity(self, writer_id: str | None, commit_id: int | None) -> Identity:
        if commit_id is None:
            return Identity(writer_id or self.meta.env.ids())
        if not writer_id:
            raise InvalidData("a commit_id needs a writer_id", found=f"commit_id={commit_id}", cure="pass writer_id, too")
        if commit_id < 0:
            raise InvalidData("a commit_id is negative", expected="0 or more", found=commit_id, cure="number the batches from 0")
        return Identity(writer_id, commit_id)

    def sink(
        self,
        writer_id: str | None = None,
        *,
        row_kind: RowKinds | None = None,
        checkpoint: str | None = None,
        replaces: str | None = None,
    ) -> BatchFunction:
        """Spark: make a function for `df.writeStream.foreachBatch(...)`. Every micro-batch is applied exactly once.

        Args:
            writer_id: the name of the stream, the same after every restart. Default: the id of the query, which is stored in its
                checkpoint. If one foreachBatch function calls two sinks of a table, each sink needs its own name. A name belongs
                to one query: batches of another query, or of the same stream with a new checkpoint, are refused.
            row_kind: as in `upsert`.
            checkpoint: the checkpoint directory of the query. On Spark Connect, `checkpoint` or `writer_id` is required, because
                Connect does not tell a foreachBatch function which query calls it.
            replaces: the id of the query that used this `writer_id` until now. This query replaces it permanently. The error that
                refuses a batch names this id.

        Raises:
            InvalidData: when a batch is written under the name of another sink or query. Nothing of the batch is written.

        Example:
            >>> df.writeStream.foreachBatch(orders.sink()).option("checkpointLocation", "checkpoints/orders").start()
        """
        return self.runtime.sink(self, writer_id, row_kind, checkpoint, replaces)

    def write_stream(
        self,
        df: SparkDataFrame,
        *,
        checkpoint: str | Path,
        trigger: Trigger | None = None,
        row_kind: RowKinds | None = None,
    ) -> StreamingQuery:
        """Spark: start a query that upserts a streaming DataFrame, exactly once.

        Args:
            df: a streaming DataFrame of the attached session.
            checkpoint: the checkpoint directory of the query.
            trigger: the arguments of `DataStreamWriter.trigger`, such as {"availableNow": True} or
                {"processingTime": "10 seconds"}.
            row_kind: as in `upsert`.
        """
        return self.runtime.write_stream(self, df, checkpoint, trigger or {}, row_kind)

    # -- reading ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        *,
        where: str | ArrowExpression | None = None,
        columns: Sequence[str] | None = None,
        mode: ReadMode = "fresh",
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Describe a read. Nothing is read until a method of the result is called, such as `to_arrow` or `count`.

        Args:
            where: a predicate in Spark SQL, with Spark's semantics; or a pyarrow.compute.Expression, which Arrow evaluates after
                the read and which therefore prunes no file.
            columns: the columns of the result, in this order. Default: all columns.
            mode: 'fresh' reads every committed row. 'raw' skips the rows that wait at level 0 for a compaction.
            snapshot: read the table as of this snapshot.
            timestamp: read the table as of this time: text such as '2026-01-31 12:00:00', or a datetime. A time without a time
                zone is in UTC; with Spark it is in the time zone of the session.
            limit: return at most this many rows, in no particular order, then stop reading.

        Example:
            >>> orders.scan(where="amount > 10", columns=["order_id"]).to_polars()
            >>> scan = orders.scan()
            >>> duckdb.sql("SELECT * FROM scan")
        """
        if limit is not None and limit < 0:
            raise InvalidQuery("limit is negative", expected="0 or more", found=limit, cure="correct limit")
        names = None if columns is None else tuple(columns)
        return Scan(self.meta, self.runtime, where, names, mode, Moment(snapshot, timestamp), limit)

    @overload
    def get(self, key: Mapping[str, object]) -> dict[str, object] | None: ...

    @overload
    def get(self, key: Keys) -> pa.Table: ...

    def get(self, key: Mapping[str, object] | Keys) -> dict[str, object] | pa.Table | None:
        """Look rows up by primary key. Reads only the files and row groups that can hold the keys.

        Args:
            key: one key, as a dict of the primary key columns; or several keys, as a list of dicts or as any other data that
                `upsert` takes except files. Values must have the types of the columns: nothing is converted.

        Returns:
            For one key, its row as a dict, or None. For several keys, a table of the rows found, in the order of the keys, each
            row once.

        Raises:
            InvalidData: `key` does not have exactly the primary key columns, or a value has another type.

        Example:
            >>> orders.get({"order_id": 7})
            {'order_id': 7, 'status': 'new'}
        """
        version = self.version
        rows = rows_of_keys(version, as_keys(key, version.schema))
        return next(iter(rows.to_pylist()), None) if isinstance(key, Mapping) else rows

    def df(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        mode: ReadMode = "fresh",
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        limit: int | None = None,
    ) -> SparkDataFrame:
        """Spark: the rows as a DataFrame. `df(...)` is `scan(...).to_spark()`; the arguments are those of `scan`."""
        scan = self.scan(where=where, columns=columns, mode=mode, snapshot=snapshot, timestamp=timestamp, limit=limit)
        return scan.to_spark()

    def changes(
        self,
        start: int,
        end: int | None = None,
        *,
        mode: ChangesMode = "diff",
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Changes:
        """Describe the row changes between two snapshots. Nothing is read until a method of the result is called.

        Args:
            start: the changes after this snapshot (exclusive); 0: from the beginning.
            end: the changes up to this snapshot (inclusive). Default: the latest snapshot.
            mode: 'diff' compares the two snapshots and returns the net changes, each -U directly before its +U, whatever the
                options of the table; unchanged buckets and files are not read. 'changelog' reads what the changelog producer
                wrote, commit by commit; with the producers lookup and full-compaction these are the exact changes that the
                compactions made visible. 'delta' returns the rows that the commits wrote, as +I and -D; of a -D row only the key
                is reliable.
            where: return only changes of rows that satisfy this predicate. In mode 'diff', a row that no longer satisfies it is
                returned as a -D; in the other modes, only the -U of such an update is returned.
            columns: the columns of the result after `_row_kind`, in this order. Default: all columns.
        """
        return Changes(self.meta, self.runtime, start, end, where, None if columns is None else tuple(columns), mode)

    def read_stream(
        self,
        *,
        start: StartMode | None = None,
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        mode: ChangesMode | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consumer: str | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        max_files: int | None = None,
    ) -> SparkDataFrame:
        """Spark: the changes of the table as a streaming DataFrame: `_row_kind`, then the columns.

        Each change is delivered exactly once, also after a restart from a checkpoint.

        Args:
            start: 'latest-full' (default): all current rows as +I, then the changes. 'latest': changes from now on.
                'from-snapshot': the changes of `snapshot` (inclusive) and of later ones. 'from-snapshot-full': all rows as of
                `snapshot` as +I, then the changes. 'from-timestamp': the changes after `timestamp`.
            snapshot: the snapshot to start from; without `start` it means 'from-snapshot'.
            timestamp: the time to start from: text or a datetime. A time without a time zone is in the time zone of the session.
                Without `start` it means 'from-timestamp'.
            mode: as in `changes`, commit by commit. Default: the changelog of each snapshot, or 'diff' for a snapshot that was
                written without a changelog producer.
            where: as in `changes`.
            columns: as in `changes`.
            consumer: a name under which the table remembers the progress. Snapshots that the consumer has not read do not expire,
                and a stream without a checkpoint continues where the consumer stopped.
            max_rows: the rows per micro-batch. The three limits are estimated from metadata, and a micro-batch never holds less
                than the changes of one commit in one bucket. Spark 4.1 ignores them.
            max_bytes: the bytes of data files per micro-batch.
            max_files: the data files per micro-batch.

        Raises:
            InvalidQuery: the arguments contradict each other, or the table has no such changes.
        """
        limit = Limit(max_rows, max_bytes, max_files)
        return self.runtime.read_stream(self.meta, Following(start, snapshot, timestamp, mode, where, columns, consumer, limit))

    def follow(
        self,
        *,
        wait: float | None = None,
        start: StartMode | None = None,
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        mode: ChangesMode | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consumer: str | None = None,
    ) -> Iterator[ChangeBatch]:
        """Iterate over the changes of the table without Spark, one batch per snapshot.

        The arguments that are not listed are those of `read_stream`; a time without a time zone is in UTC.

        Args:
            wait: the seconds between two polls for new snapshots, once all snapshots have been read. The iterator then polls
                until it is stopped. None: the iterator ends.
            consumer: as in `read_stream`. The progress is stored when the next batch is requested.

        Raises:
            InvalidQuery: at once, if the arguments contradict each other.
            SnapshotNotFound: the next snapshot to read has expired.
        """
        if wait is not None and not 0 < wait < inf:
            raise InvalidQuery("wait is out of range", expected="more than 0 seconds, or None", found=wait, cure="correct wait")
        following = Following(start, snapshot, timestamp, mode, where, columns, consumer)
        return follow(following.follower(self.meta, self.runtime.zone), wait)

    # -- maintenance --------------------------------------------------------------------------------------------------

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

    def alter(self, *alterations: Alteration) -> Snapshot | None:
        """Change options of the table, all or none, as one commit.

        Some changes give existing files another meaning: deletion vectors, the merge engine and its options, the changelog
        producer. These compact all buckets in full by the old options, in the same commit. Writers that began before the change
        fail with CommitConflict, so that no writer follows the old options.

        Args:
            alterations: results of `lsmlake.set_option` and `lsmlake.unset_option`.

        Returns:
            The snapshot, or None if the alterations change nothing.

        Raises:
            InvalidOption: an option or value is unknown, or the option cannot change once the table has rows.
            InvalidData: the new options do not accept a stored row.
            CommitConflict: other commits came first on every attempt.

        Example:
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

        Returns:
            What was removed, and the reasons for which snapshots were kept although they are due.

        Raises:
            InvalidQuery: a number is below 1, or `retain_max` is below `retain_min`.
        """
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        options = self.current.parsed_options
        return expire(self.meta, snapshot_retention(options, self.meta.env.clock(), retain_min, retain_max, time_ms, limit))

    def consumers(self) -> pa.Table:
        """One row per consumer, by name: the snapshot that it reads next. That snapshot and later ones do not expire."""
        return listings.consumers(self.meta)

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
        if next_snapshot > (self.meta.latest_id() or 0) + 1:
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

    def verify(self) -> list[Finding]:
        """Check all invariants and checksums of all snapshots. Reads all files. An empty list means that nothing is wrong."""
        return verify(self.meta)

    def snapshots(self) -> pa.Table:
        """One row per retained snapshot, oldest first."""
        return listings.snapshots(self.meta)

    def files(self, snapshot: int | None = None) -> pa.Table:
        """One row per live data file, as of `snapshot` or of the latest snapshot."""
        version = self.version
        if snapshot is not None:
            version = replace(version, snapshot=resolve(self.meta, Moment(snapshot), self.runtime.zone))
        return listings.files(version)

    def buckets(self) -> pa.Table:
        """One row per bucket: live and deleted rows, bytes, files."""
        return listings.buckets(self.files())

    def partitions(self) -> pa.Table:
        """One row per partition: live and deleted rows, bytes, files."""
        return listings.partitions(self.files())

    def manifests(self) -> pa.Table:
        """One row per manifest of the latest snapshot."""
        return listings.manifests(self.version)

    def schemas(self) -> pa.Table:
        """One row per version of the schema, oldest first."""
        return listings.schemas(self.meta)

    def options_table(self) -> pa.Table:
        """One row per option: its name, the value that the table sets (null: none), default, possible values and meaning."""
        return listings.options(self.current)

    def states(self) -> dict[Bucket, BucketState]:
        """The buckets of the latest snapshot: live files and deletion vectors."""
        return self.version.states()


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
    predicate = None
    if where is not None:
        predicate = parse(where, schema.plain_columns, zone=zone)
        if other := sorted(predicate.columns - set(schema.partition_by)):
            raise InvalidQuery(
                "where may use partition columns only",
                expected=f"partition columns {list(schema.partition_by)}",
                found=other,
                cure="remove the other columns",
            )

    def wanted(bucket: Bucket) -> bool:
        return (numbers is None or bucket.number in numbers) and (
            predicate is None or partition_matches(predicate, schema, bucket.partition)
        )

    return wanted
