"""A table: the verbs, under one name."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.changes import Changes
from lsmlake.api.following import ChangeBatch, Following, follow
from lsmlake.api.inputs import as_input
from lsmlake.api.key_input import as_keys
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan
from lsmlake.border import public
from lsmlake.cdc.follow import Limit
from lsmlake.commit.publish import Identity
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
from lsmlake.write.prepare import Request
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables


@public
@dataclass(frozen=True)
class Table:
    """A primary-key table. Holds no state of the table: every verb looks for the latest snapshot and its schema."""

    name: str
    meta: Metadata
    runtime: Runtime

    def __repr__(self) -> str:
        return f"<lsmlake table {self.name} in {self.path}>"

    def _repr_html_(self) -> str:
        """The name, the columns and the options: reads the schema, no data."""
        schema = self.current
        title = f"{self.name}: primary key {', '.join(schema.primary_key)}"
        if schema.partition_by:
            title += f"; partitioned by {', '.join(schema.partition_by)}"
        columns = [(field.name, format_type(field.type), "" if field.nullable else "NOT NULL") for field in schema.columns]
        return html_rows(title, ("column", "type", ""), columns) + html_pairs("options", schema.options.items())

    @property
    def current(self) -> Schema:
        """The schema in effect, with keys, partitions and options."""
        return self.meta.latest_schema()

    @property
    def schema(self) -> pa.Schema:
        """The columns as users see them."""
        return self.current.plain_columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self.current.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        return self.current.partition_by

    @property
    def options(self) -> Mapping[str, str]:
        """The options as given."""
        return MappingProxyType(dict(self.current.options))

    @property
    def comment(self) -> str | None:
        return self.current.comment

    @property
    def path(self) -> str:
        """Where the table lies, relative to the warehouse."""
        return self.meta.paths.root

    # -- writing ------------------------------------------------------------------------------------------------------

    def upsert(
        self,
        data: object,
        *,
        cast: bool = False,
        row_kind: str | Mapping[str, object] | None = None,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
    ) -> Snapshot | None:
        """Insert or replace rows by key, as one commit; all of them or, after an error, none.

        Args:
            data: anything with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a Polars LazyFrame, a list of dicts,
                a dict of columns, an iterator of record batches, a pyarrow dataset, the path or glob of Parquet, CSV or JSON
                files, or a DataFrame of the attached Spark session. Columns go by name. Of several rows with one key the last
                wins. Streams and files are read as they are written; beyond `write-buffer-size` rows are sorted on disk. Under
                merge engines that combine rows, a column that may be null may be left out. Data without rows commits nothing,
                whatever its columns.
            cast: convert values of other types where nothing is lost: text to numbers, decimals, dates, timestamps and booleans,
                a float to an integer or the decimal it prints as, nanoseconds to microseconds. A time that names no zone is
                UTC, on Spark of the session's zone. Implied for CSV and JSON files.
            row_kind: the column of '+I', '-U', '+U', '-D' (default: option `rowkind.field`), or, where it has other codes,
                {"column": "op", "map": {"c": "+I", "u": "+U", "d": "-D"}}.
            commit_id, writer_id: make the write idempotent: a pair that has committed already does nothing and returns the
                snapshot of that commit, or the latest snapshot once that one has expired. The ids of a writer must grow.
            compact: None as the options say, True at once, False writes level 0 only.

        Returns:
            The snapshot, or None if there was nothing to commit.

        Raises:
            InvalidData: before anything is committed; names the column and, outside of Spark, the first row that does not fit.
            CommitConflict, CommitUnknown, StorageFailed
        """
        request = Request(rowkind.Source.of(row_kind), cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact)

    def delete_keys(
        self,
        data: object,
        *,
        cast: bool = False,
        ignore_sequence: bool = False,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
    ) -> Snapshot | None:
        """Delete rows by key, without scanning the table. A key that the table does not hold is no error.

        Args:
            data: the primary key columns and, where the table has `sequence.field`, its columns; no others. A delete takes its
                place among the rows of its key by sequence, as a row does: a row with a greater sequence stays.
            ignore_sequence: delete whatever the sequence, under every merge engine and also with `ignore-delete`, as an erasure
                request asks. `data` then holds the primary key columns alone. The key begins anew: a row that arrives later is
                inserted whatever its sequence. Bytes of the rows stay in older files until a compaction rewrites these and
                their snapshots expire.

        All other arguments, the result and the errors are those of `upsert`.
        """
        request = Request(deletes=True, ignore_sequence=ignore_sequence, cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact)

    def _cast(self, cast: bool) -> Cast | None:
        return Cast(self.runtime.zone) if cast else None

    def _write(self, data: object, request: Request, identity: Identity, compact: bool | None) -> Snapshot | None:
        schema = self.current
        if self.runtime.owns(data):
            return self.runtime.upsert(self.meta, schema, data, identity, request=request, compact=compact)
        given = as_input(data, schema.plain_columns)
        if given.text:
            request = replace(request, cast=self._cast(True))
        return upsert_tables(self.meta, schema, given.tables, request, identity, inline_picker(self.meta, schema, compact))

    def _identity(self, writer_id: str | None, commit_id: int | None) -> Identity:
        if commit_id is None:
            return Identity(writer_id or self.meta.env.ids())
        if not writer_id:
            raise InvalidData(
                "a commit_id means nothing without its writer", found=f"commit_id={commit_id}", cure="give writer_id too"
            )
        if isinstance(commit_id, bool) or not isinstance(commit_id, int) or commit_id < 0:
            raise InvalidData(
                "a commit_id is a number", expected="an integer from 0 on", found=repr(commit_id), cure="count batches"
            )
        return Identity(writer_id, commit_id)

    def sink(
        self,
        writer_id: str | None = None,
        *,
        row_kind: str | Mapping[str, object] | None = None,
        checkpoint: str | None = None,
        replaces: str | None = None,
    ):
        """Spark: a function for `df.writeStream.foreachBatch(...)`; every micro-batch is applied exactly once.

        Args:
            writer_id: the name of the stream, the same over restarts. Default: the id of the query, which lies in its checkpoint.
                Where one foreachBatch function calls two sinks of a table, each needs a name of its own. A name belongs to one
                query: batches of another query, or of the same stream with a new checkpoint, are refused.
            row_kind: as in `upsert`.
            checkpoint: the checkpoint directory of the query. Spark Connect needs it, or a writer_id: it does not tell a
                foreachBatch function which query calls it.
            replaces: the id of the query that wrote under this writer_id until now; this query takes its place for good. The
                error that refuses a batch names it.

        Raises:
            InvalidData: when a batch is written under the name of another sink or query; nothing of the batch is written.

        Example:
            >>> df.writeStream.foreachBatch(orders.sink()).option("checkpointLocation", "checkpoints/orders").start()
        """
        return self.runtime.sink(self, writer_id, row_kind, checkpoint, replaces)

    def write_stream(
        self,
        df: object,
        *,
        checkpoint: str | Path,
        trigger: Mapping[str, object] | None = None,
        row_kind: str | Mapping[str, object] | None = None,
    ):
        """Spark: upsert a streaming DataFrame, exactly once. `trigger`: arguments of `DataStreamWriter.trigger`, such as
        {"availableNow": True} or {"processingTime": "10 seconds"}. `row_kind`: as in `upsert`. Returns the StreamingQuery."""
        return self.runtime.write_stream(self, df, checkpoint, trigger or {}, row_kind)

    # -- reading ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        *,
        where: str | pc.Expression | None = None,
        columns: Sequence[str] | None = None,
        mode: str = "fresh",
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Describe a read; nothing happens until a `to_...`, `count` or `plan` of the result.

        Args:
            where: a predicate in SQL text, Spark's dialect and meaning; or a pyarrow.compute.Expression, which Arrow evaluates on
                the rows that were read, so that no file is skipped for it.
            columns: the columns of the result, in this order.
            mode: 'fresh' sees every committed row, 'raw' only those compacted out of level 0.
            snapshot, timestamp: the table as it was at that snapshot, or at that time: text such as '2026-01-31 12:00:00' or a
                datetime. A time that names no zone is UTC, on Spark of the session's zone.
            limit: at most so many rows, whichever are read first; then reading stops.

        Example:
            >>> orders.scan(where="amount > 10", columns=["order_id"]).to_polars()
            >>> duckdb.sql("SELECT * FROM scan")  # where scan is a variable with a Scan
        """
        if isinstance(columns, str):
            raise InvalidQuery("columns is a list of names", found=repr(columns), cure=f"write [{columns!r}]")
        if limit is not None and limit < 0:
            raise InvalidQuery("limit is a number of rows", expected="0 or more", found=limit, cure="correct it")
        names = None if columns is None else tuple(columns)
        return Scan(self.meta, self.runtime, where, names, mode, Moment(snapshot, timestamp), limit)

    def get(self, key: object) -> dict[str, object] | pa.Table | None:
        """Look rows up by primary key; only the files and row groups that can hold them are read.

        Args:
            key: one key as a dict of the primary key columns; or several, as a list of dicts or other data that `upsert` takes
                (no file). Values have the types of the columns: nothing is converted.

        Raises:
            InvalidData: if `key` has other columns than the primary key, or a value of another type.

        Returns:
            Of one key the row as a dict, or None. Of several keys a table of the rows found, in the order of the keys, each once.

        Example:
            >>> orders.get({"order_id": 7})
            {'order_id': 7, 'status': 'new'}
        """
        schema = self.current
        rows = rows_of_keys(self.meta, schema, self.meta.latest(), as_keys(key, schema))
        return next(iter(rows.to_pylist()), None) if isinstance(key, Mapping) else rows

    def df(
        self,
        *,
        where: str | pc.Expression | None = None,
        columns: Sequence[str] | None = None,
        mode: str = "fresh",
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        limit: int | None = None,
    ):
        """Spark: the rows as a DataFrame. The arguments are those of `scan`; `df(...)` is `scan(...).to_spark()`."""
        scan = self.scan(where=where, columns=columns, mode=mode, snapshot=snapshot, timestamp=timestamp, limit=limit)
        return scan.to_spark()

    def changes(
        self,
        start: int,
        end: int | None = None,
        *,
        mode: str = "diff",
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Changes:
        """Describe the changes after snapshot `start` (0: from the beginning) up to and with `end` (default: the latest); nothing
        happens until a `to_...` or `count` of the result.

        `mode` 'diff' compares the two snapshots: net changes, a -U just before its +U, whatever the table's options; unchanged
        buckets and files are not read. 'changelog' reads what the changelog producer wrote, commit after commit: with producers
        lookup and full-compaction exact changes of what compaction brought up. 'delta': what the commits wrote, as +I and -D, of
        which only the key is certain. `where`: only changes of the rows it is true of; by comparing, a row that leaves them
        counts as deleted, in files of an update that leaves only the -U is told.
        """
        return Changes(self.meta, self.runtime, start, end, where, None if columns is None else tuple(columns), mode)

    def read_stream(
        self,
        *,
        start: str | None = None,
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        mode: str | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consumer: str | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        max_files: int | None = None,
    ):
        """Spark: the changes of the table as a streaming DataFrame, `_row_kind` and the columns; every change once, also over
        restarts from a checkpoint.

        `start`: 'latest-full' (the rows there are as +I, then changes; default), 'latest' (changes from now on), 'from-snapshot'
        with `snapshot`, whose changes are the first, 'from-snapshot-full', 'from-timestamp' with `timestamp` (text or a
        datetime; a time that names no zone is of the session's zone). `mode`: as in `changes`, commit by commit; default: of
        every snapshot its changelog, or 'diff' if it was made without a changelog producer. `where`, `columns`: as in `changes`.
        `consumer`: a name under which what is not read yet is kept by `expire_snapshots`; a stream without a checkpoint goes on
        where it stopped. `max_rows`, `max_bytes`, `max_files`: how much a micro-batch takes, going by metadata and never less
        than the changes of one commit in one bucket (not on Spark 4.1). Raises InvalidQuery.
        """
        limit = Limit(max_rows, max_bytes, max_files)
        return self.runtime.read_stream(self.meta, Following(start, snapshot, timestamp, mode, where, columns, consumer, limit))

    def follow(
        self,
        *,
        wait: float | None = None,
        start: str | None = None,
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        mode: str | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consumer: str | None = None,
    ) -> Iterator[ChangeBatch]:
        """The changes of the table without Spark: an iterator, a batch a snapshot. `wait`: seconds between looks once all is
        read; None: stop then. Everything else as in `read_stream`; without Spark a time that names no zone is UTC. A consumer has
        read a batch when the next one is asked for. Raises InvalidQuery at once; SnapshotNotFound when what is to be read next
        has expired."""
        if wait is not None and (isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 < wait < inf):
            raise InvalidQuery(
                "wait is a number of seconds", expected="more than 0, or None", found=repr(wait), cure="correct it"
            )
        following = Following(start, snapshot, timestamp, mode, where, columns, consumer)
        return follow(following.follower(self.meta, self.runtime.zone), wait)

    # -- looking after it ---------------------------------------------------------------------------------------------

    def compact(self, *, full: bool = False, where: str | None = None, buckets: Sequence[int] | None = None) -> CompactionReport:
        """Compact as the table's strategy asks, or `full`: every bucket into one run without dead rows. Spark, if attached,
        does it in
        parallel. `where` chooses partitions (partition columns only), `buckets` bucket numbers. Raises CommitConflict."""
        schema = self.current
        wanted = _wanted(schema, where, buckets, self.runtime.zone)
        return compact_table(self.meta, schema, self.runtime.compactions(self.meta, schema), wanted, full=full)

    def alter(self, *alterations: Alteration) -> Snapshot | None:
        """Apply `set_option` and `unset_option`, all or none, as one commit; None if nothing changes.

        What needs the files to be others - deletion vectors, the merge engine and its options, a changelog producer in the place
        of another - compacts all buckets in full, by the options as they were, in the same commit. Writers that began before fail
        with CommitConflict, so that none writes for options that are gone. Raises InvalidOption (also for what cannot be changed
        once there is data), InvalidData if the new options do not accept a stored row, CommitConflict if other commits kept
        coming in between.
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
        """Remove old snapshots and the files only they have; never the latest.

        Commits do this by themselves, see option `snapshot.expire.on-commit`. At least `retain_min` stay and at most
        `retain_max`; in between, those stay that were the latest at `older_than` or later; at most `limit` go. `older_than` is
        text such as '2026-01-31 12:00:00' or a datetime; a time that names no zone is UTC, on Spark of the session's zone.

        Defaults: options `snapshot.num-retained.min` and `.max`, `snapshot.time-retained`; without any argument also
        `snapshot.expire.limit`. What a consumer has yet to read stays in any case, and changelogs as long as the options
        `changelog.*` say. The report names the reasons for which snapshots stay that are due. Readers of a snapshot that goes
        fail. Raises InvalidQuery.
        """
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        options = self.current.parsed_options
        return expire(self.meta, snapshot_retention(options, self.meta.env.clock(), retain_min, retain_max, time_ms, limit))

    def consumers(self) -> pa.Table:
        """A row a consumer, by name: the snapshot it reads next, which is not expired, nor are later ones."""
        return listings.consumers(self.meta)

    def reset_consumer(self, name: str, next_snapshot: int | None = None) -> None:
        """Have a consumer go on at a snapshot, or, with None, remove it. Raises InvalidQuery."""
        if next_snapshot is None:
            remove_consumer(self.meta, name)
            return
        if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 1:
            raise InvalidQuery("next_snapshot is the number of a snapshot", found=repr(next_snapshot), cure=LIST_SNAPSHOTS)
        if next_snapshot > (self.meta.latest_id() or 0) + 1:
            raise InvalidQuery("a consumer cannot be ahead of its table", found=next_snapshot, cure=LIST_SNAPSHOTS)
        put_consumer(self.meta, name, Progress(next_snapshot))

    def repair(self, *, action: str | None = None, keys: Sequence[Mapping[str, object]] | None = None) -> RepairReport:
        """Find rows that cannot be merged with the older rows of their key, and take them out.

        A sum beyond its type, or a factor of zero that is taken back, only shows when rows meet. A table that is not compacted by
        its writers has accepted such a row, and every scan and compaction of its bucket fails until the row is out. Repair merges
        all rows of such a bucket, as a full compaction does.

        Args:
            action: 'drop' removes the rows at fault. 'null' sets their columns at fault to null. Their other columns still count,
                so 'null' may have to change more rows than 'drop'. None changes nothing and lists the rows that 'drop' removes.
                Other rows of the key stay as they are.
            keys: repair only these keys, each a dict of the primary key columns. Default: all.
        Returns: the rows, and the snapshot that took them out. Column `row` of the listing shows the key and the columns at
            fault. A changelog that was written with the rows still has them.
        Raises: CommitConflict if compactions kept coming in between. InvalidQuery if 'null' cannot repair a row.
        """
        return repair(self.meta, self.current, action, keys, self.name)

    def verify(self) -> list[Finding]:
        """Check every invariant and every checksum of all snapshots; reads all files. Empty: nothing is wrong."""
        return verify(self.meta)

    def snapshots(self) -> pa.Table:
        """A row a snapshot, ascending."""
        return listings.snapshots(self.meta)

    def files(self, snapshot: int | None = None) -> pa.Table:
        """A row a live data file of the latest or given snapshot."""
        return listings.files(self.meta, self.current, resolve(self.meta, Moment(snapshot), self.runtime.zone))

    def buckets(self) -> pa.Table:
        """A row a bucket: live and dead rows, bytes, files."""
        return listings.buckets(self.files())

    def partitions(self) -> pa.Table:
        """A row a partition: live and dead rows, bytes, files."""
        return listings.partitions(self.files())

    def manifests(self) -> pa.Table:
        """A row a manifest of the latest snapshot."""
        return listings.manifests(self.meta, self.meta.latest())

    def schemas(self) -> pa.Table:
        """A row a version of the schema."""
        return listings.schemas(self.meta)

    def options_table(self) -> pa.Table:
        """One row per option: its name, the value that the table sets (null: none), default, possible values and meaning."""
        return listings.options(self.current)

    def states(self) -> dict[Bucket, BucketState]:
        """The buckets of the latest snapshot, as values."""
        latest = self.meta.latest()
        return self.meta.states(latest, self.meta.schema_of(latest)) if latest else {}


def _wanted(schema: Schema, where: str | None, buckets: Sequence[int] | None, zone: str):
    """The buckets a compaction is to touch, as a function. `zone`: of times in `where` that name none."""
    numbers = None if buckets is None else {int(number) for number in buckets}
    if numbers is not None and (wrong := sorted(n for n in numbers if not 0 <= n < schema.parsed_options.bucket)):
        raise InvalidQuery(
            "no such buckets", expected=f"0 to {schema.parsed_options.bucket - 1}", found=wrong, cure="correct them"
        )
    predicate = None
    if where is not None:
        predicate = parse(where, schema.plain_columns, zone=zone)
        if other := sorted(predicate.columns - set(schema.partition_by)):
            raise InvalidQuery(
                "where chooses partitions here",
                expected=f"partition columns {list(schema.partition_by)}",
                found=other,
                cure="leave the others out",
            )

    def wanted(bucket: Bucket) -> bool:
        return (numbers is None or bucket.number in numbers) and (
            predicate is None or partition_matches(predicate, schema, bucket.partition)
        )

    return wanted
