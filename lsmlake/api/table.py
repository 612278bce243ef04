"""A table, with its verbs as methods."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Literal, overload

import pyarrow as pa

from lsmlake.api.changes import Changes
from lsmlake.api.following import ChangeBatch, Following, follow
from lsmlake.api.inputs import as_input
from lsmlake.api.key_input import as_keys
from lsmlake.api.merge import Merge
from lsmlake.api.readable import Readable
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan, check_order
from lsmlake.api.system_tables import Asked, AuditLog, Binlog, system_table
from lsmlake.api.types import (
    ArrowExpression,
    BatchFunction,
    ChangesMode,
    Data,
    Isolation,
    Keys,
    MetadataTable,
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
from lsmlake.commit.branches import BranchReport, create_branch, delete_branch, rename_branch
from lsmlake.commit.commit import drop_buckets
from lsmlake.commit.forwarding import fast_forward
from lsmlake.commit.partition_expiry import PartitionExpiryReport, expire_partitions
from lsmlake.commit.replay import Identity, replayed
from lsmlake.commit.retention import snapshot_retention
from lsmlake.commit.snapshot_expiry import ExpireReport, expire
from lsmlake.commit.tag_expiry import expire_tags
from lsmlake.commit.tags import TagReport, delete_tag, rename_tag
from lsmlake.compact.job import CompactionReport, compact_table
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.format.files import Bucket, BucketState
from lsmlake.format.paths import on_branch, split_branch
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.maintain import listings, named_files
from lsmlake.maintain.alter import alter, evolve
from lsmlake.maintain.analyze import analyze
from lsmlake.maintain.create_tag import create_tag
from lsmlake.maintain.orphans import OrphanReport, remove_orphan_files
from lsmlake.maintain.repair import RepairReport, repair
from lsmlake.maintain.repair_snapshots import SnapshotRepairReport, repair_snapshots
from lsmlake.maintain.rollback import RollbackReport, rollback
from lsmlake.maintain.verify import Finding, verify
from lsmlake.notebook import html_pairs, html_rows
from lsmlake.read.get import row_of_key, rows_of_keys
from lsmlake.read.plan import FRESH, RAW, partition_matches
from lsmlake.read.top import KeyOrder
from lsmlake.read.travel import Moment, milliseconds, resolve
from lsmlake.schema import rowkind
from lsmlake.schema.alterations import Alteration
from lsmlake.schema.conform import Cast
from lsmlake.schema.schema import Schema
from lsmlake.schema.type_text import format_type
from lsmlake.store.consumers import Progress, put_consumer, remove_consumer
from lsmlake.store.metadata import Metadata
from lsmlake.store.snapshots import LIST_SNAPSHOTS
from lsmlake.store.version import Version
from lsmlake.write.append import append_tables, check_append_only, check_keyed
from lsmlake.write.clause import Clause
from lsmlake.write.prepare import Request
from lsmlake.write.replace import Replacement, partition_predicate, publish
from lsmlake.write.statement import DmlReport, check_isolation, evaluated
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables


@public
@dataclass(frozen=True)
class Table:
    """A table, with a primary key or append-only. The handle holds no state of the table: every method reads the latest snapshot
    and its schema.

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
        kind = "append-only" if schema.append_only else f"primary key {', '.join(schema.primary_key)}"
        title = f"{self.name}: {kind}"
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

    def append(
        self,
        data: Data,
        *,
        cast: bool = False,
        commit_id: int | None = None,
        writer_id: str | None = None,
        evolve: bool = False,
    ) -> Snapshot | None:
        """Add rows to an append-only table, as one commit. An error leaves the rows of the table unchanged.

        No row is replaced: rows that are equal to rows of the table are added as well. Files beyond `write-buffer-size` are
        written while the data is read. An append never conflicts with other writers.

        Args:
            data: as in `upsert`; there is no column with row kinds.
            cast: as in `upsert`.
            commit_id: as in `upsert`.
            writer_id: as in `upsert`.
            evolve: as in `upsert`.

        Returns:
            The snapshot that this commit published, or None if `data` has no rows.

        Raises:
            InvalidQuery: the table has a primary key.
            InvalidData: the data does not fit the table. The error names the column and, without Spark, the first row that does
                not fit. Nothing was committed.
            CommitUnknown: the store did not report whether the commit took place.
            StorageFailed: the store refused a call.

        Example:
            >>> events = lake.create_table("web.events", "at TIMESTAMP, page STRING")
            >>> events.append([{"at": datetime.datetime.now(datetime.timezone.utc), "page": "/"}])
        """
        version = self.version
        check_append_only(version.schema, self.name)
        request = Request(cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), False, version, evolving=evolve)

    def upsert(
        self,
        data: Data,
        *,
        cast: bool = False,
        row_kind: RowKinds | None = None,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
        evolve: bool = False,
    ) -> Snapshot | None:
        """Insert or replace rows by key, as one commit. An error leaves the rows of the table unchanged.

        Args:
            data: anything with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a Polars LazyFrame, a list of dicts,
                a dict of columns, an iterator of record batches, a pyarrow dataset, the path or glob of Parquet, CSV or JSON
                files, or a DataFrame of the attached Spark session. Columns are matched by name. If several rows have the same
                key, the last row wins. Streams and files are read while they are written; rows beyond `write-buffer-size` are
                sorted on disk. A column with a default, such as one that was added later, may be left out; under merge engines
                that combine rows, any nullable column. Data without rows commits nothing, regardless of its columns.
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
            evolve: first add the columns of the data that the table lacks, and the fields that its structs lack, by an alteration
                of its own, which stays if the data is then refused. Only the columns of the first table of a stream count.
                Option `write.merge-schema` does the same for every write, streams included.

        Returns:
            The snapshot that this commit published, or None if there was nothing to commit.

        Raises:
            InvalidData: the data does not fit the table. The error names the column and, without Spark, the first row that does
                not fit. Nothing was committed.
            CommitConflict: other commits won the race every time. Nothing was committed.
            CommitUnknown: the store did not report whether the commit took place.
            StorageFailed: the store refused a call.
        """
        version = self.version
        check_keyed(version.schema, self.name, "upsert", "use append, which adds the rows")
        request = Request(rowkind.Source.of(row_kind), cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact, version, evolving=evolve)

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
            ignore_sequence: delete the row regardless of its sequence, under every merge engine, and also if the table sets
                `ignore-delete`. Use it for erasure requests. `data` then holds the primary key columns only. A row of the key
                that arrives later is inserted regardless of its sequence. The bytes of a deleted row stay in older files until a
                compaction rewrites these files and the snapshots that name them expire.
        """
        version = self.version
        check_keyed(version.schema, self.name, "delete_keys", "use delete(where=...)")
        request = Request(deletes=True, ignore_sequence=ignore_sequence, cast=self._cast(cast))
        return self._write(data, request, self._identity(writer_id, commit_id), compact, version)

    def delete(self, where: str | None = None, *, isolation: Isolation = "serializable") -> DmlReport:
        """Delete the rows that satisfy a condition, as one commit.

        Reads only the columns of `where`, and of a table with a primary key the key. An append-only table marks the rows in
        deletion vectors or, with `deletion-vectors.enabled = false`, rewrites the files that hold them; files whose rows are all
        deleted are removed without being read, if the condition is on partition columns. Under a primary key a row is deleted by
        its key, through the merge engine.

        Statements that change different rows do not disturb each other, also if the rows lie in one file. A statement whose rows
        another commit has changed is evaluated again.

        Args:
            where: a predicate in Spark SQL. Default: all rows.
            isolation: 'serializable' also evaluates the statement again if other commits added rows that satisfy `where`;
                'snapshot' leaves such rows in the table.

        Raises:
            InvalidQuery: `where` is no predicate on columns of the table.
            InvalidData: the merge engine cannot delete by key with the options of the table. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.

        Example:
            >>> orders.delete("dt < '2026-01-01'").deleted
            17
        """
        level = check_isolation(isolation)
        return evaluated(self.meta, lambda version: self.runtime.delete(version, where, level))

    def update(self, values: Mapping[str, str], where: str | None = None, *, isolation: Isolation = "serializable") -> DmlReport:
        """Give the rows that satisfy a condition new values, as one commit. Needs the extra `duckdb`.

        With Spark attached, Spark evaluates `where` and `values` if the files to read are not small or if only Spark knows the
        expressions.

        Concurrent statements and isolation are as in `delete`: `update({"v": "v + 1"})` by many writers loses no update.

        Args:
            values: column -> an expression in Spark SQL over the old row, such as {"amount": "amount * 2", "status": "'paid'"}.
                Key columns cannot be updated. A value that the column cannot hold without loss is refused.
            where: as in `delete`.
            isolation: as in `delete`.

        Raises:
            InvalidQuery: an expression is invalid, or the merge engine is not deduplicate or partial-update, or an expression
                fails for a row, such as a division by zero. Nothing was committed.
            InvalidData: a new value is null in a column that cannot be null. Nothing was committed.
            CommitConflict: other commits changed the rows of the statement on every attempt. Nothing was committed.
            MissingDependency: DuckDB is not installed.

        Example:
            >>> orders.update({"status": "'closed'"}, where="order_id = 7").updated
            1
        """
        level, now = check_isolation(isolation), self._now()
        return evaluated(self.meta, lambda version: self.runtime.update(version, values, where, level, now))

    def merge(self, source: Data | Table, on: str, *, isolation: Isolation = "serializable", evolve: bool = False) -> Merge:
        """Describe a MERGE: rows of a source update, delete or add rows of this table. Needs the extra `duckdb`.

        The source is read once. Where `on` requires columns to be equal, only the files that can hold the values of the source
        are read, and of them the columns that the clauses name. A join beyond `write-buffer-size` is done on local disk.
        Concurrent statements and isolation are as in `delete`.

        Args:
            source: any data that `upsert` takes, or a table, as it is now. With a Spark DataFrame, or if the files of this table
                are not small and Spark is attached, Spark joins and the tasks write; other data must then fit the driver.
            on: the condition on a target row `t` and a source row `s`, such as "t.order_id = s.order_id".
            isolation: as in `delete`.
            evolve: first add the columns of the source that the table lacks, as in `upsert`.

        Example:
            >>> merge = orders.merge(batch, "t.order_id = s.order_id")
            >>> merge.when_matched_update_all("s.op = 'U'").when_matched_delete().when_not_matched_insert_all().execute()
        """
        level, zone = check_isolation(isolation), self.runtime.zone

        def run(clauses: tuple[Clause, ...]) -> DmlReport:
            data = source.scan() if isinstance(source, Table) else source
            spread = self.runtime.source(self.version, data)
            if spread is not None:
                if evolve:
                    self._evolved(self.version, self.runtime.columns_of(spread.schema), Request())
                return evaluated(self.meta, lambda version: self.runtime.merge(version, spread, on, clauses, level))
            from lsmlake.write.merge import merge  # loads sqlglot
            from lsmlake.write.merge_clauses import checked, schema_of_source
            from lsmlake.write.merge_join import Join

            tables = as_input(data).tables
            first = next(tables, None)
            if first is None:
                raise InvalidData("the source of the merge has no columns", where=self.name, cure="pass data with columns")
            columns, now = schema_of_source(first.schema, self.current.plain_columns), self._now()
            if evolve:
                self._evolved(self.version, columns, Request())
            schema = self.current
            statement = checked(schema, columns, on, clauses, zone, now)
            with Join(statement, chain([first], tables), columns, zone, schema.parsed_options.write.buffer_bytes) as join:

                def evaluate(version: Version) -> DmlReport:
                    if version.schema.id != schema.id:
                        join.restate(checked(version.schema, columns, on, clauses, zone, now))
                    return merge(version, join, level)

                return evaluated(self.meta, evaluate)

        return Merge(run)

    def _now(self) -> str:
        """The time of a statement, as text with a time zone."""
        return datetime.datetime.fromtimestamp(self.meta.env.clock() / 1000, datetime.timezone.utc).isoformat(sep=" ")

    def overwrite(
        self,
        data: Data,
        where: str | None = None,
        truncate: bool = False,
        *,
        cast: bool = False,
        row_kind: RowKinds | None = None,
        commit_id: int | None = None,
        writer_id: str | None = None,
    ) -> Snapshot | None:
        """Replace partitions, or the whole table, by the rows of `data`, as one commit. An error leaves the table unchanged.

        The overwrite replaces what the table holds when it is published: rows that other writers commit before that are
        replaced, rows that they commit later stay. The rows of `data` are merged with each other, not with the rows they replace.
        Readers of changes get the difference between the rows before and after. Older snapshots keep the replaced rows until
        they expire.

        Args:
            data: as in `upsert`.
            where: a predicate on partition columns: replace all partitions that satisfy it, also those without new rows. Data
                with a row elsewhere is refused. Default: the partitions that `data` names; of a table without partitions, all
                rows.
            truncate: replace all rows of the table.
            cast: as in `upsert`.
            row_kind: as in `upsert`.
            commit_id: as in `upsert`.
            writer_id: as in `upsert`.

        Returns:
            The snapshot that this commit published, or None if there was nothing to replace and nothing to write.

        Raises:
            InvalidData: the data does not fit the table, or a row lies outside of `where`. Nothing was committed.
            InvalidQuery: `where` uses other columns, or is given together with `truncate`.
            CommitConflict: other commits won the race every time. Nothing was committed.
            CommitUnknown: the store did not report whether the commit took place.

        Example:
            >>> orders.overwrite(corrected, where="dt = '2026-01-02'")
        """
        version = self.version
        replaces = Replacement.of(version.schema, where, truncate, self.runtime.zone, self.name)
        if row_kind is not None:
            check_keyed(version.schema, self.name, "row_kind", "leave row_kind out")
        request = Request(rowkind.Source.of(row_kind), cast=self._cast(cast), replaces=replaces)
        return self._write(data, request, self._identity(writer_id, commit_id), False, version)

    def truncate(self) -> Snapshot | None:
        """Remove all rows, as one commit. Reads no data file; older snapshots keep the rows until they expire.

        Rows that other writers commit before the truncation is published are removed, rows that they commit later stay.

        Returns:
            The snapshot, or None if the table has no rows.

        Raises:
            CommitConflict: other commits won the race every time. Nothing was committed.
        """
        return publish(self.version, [], Identity(self.meta.env.ids()), Replacement(everything=True))

    def _cast(self, cast: bool) -> Cast | None:
        return Cast(self.runtime.zone) if cast else None

    def _write(
        self,
        data: Data,
        request: Request,
        identity: Identity,
        compact: bool | None,
        version: Version,
        evolving: bool = False,
    ) -> Snapshot | None:
        evolving = not request.deletes and (evolving or version.options.write.merge_schema) and not replayed(version, identity)
        if self.runtime.owns(data):
            found = self.runtime.columns_of(data.schema) if evolving else None
            version = self._evolved(version, found, request) if found is not None else version
            return self.runtime.upsert(version, data, identity, request=request, compact=compact)
        given = as_input(data, version.schema.plain_columns)
        tables = given.tables
        if given.text:
            request = replace(request, cast=self._cast(True))
        if evolving and (first := next((table for table in tables if table.num_rows), None)) is not None:
            version, tables = self._evolved(version, first.schema, request), chain([first], tables)
        if version.schema.append_only:
            return append_tables(version, tables, request, identity)
        return upsert_tables(version, tables, request, identity, inline_picker(version, compact))

    def _evolved(self, version: Version, found: pa.Schema, request: Request) -> Version:
        return evolve(version, self.name, found, request.row_kind, partial(self.runtime.compactions, self.meta))

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

        The query goes on while the table is altered, as long as the columns of the DataFrame fit. Otherwise it stops with
        InvalidData, and nothing of that micro-batch is visible; a DataFrame that fits continues with it from the same checkpoint.

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
        tag: str | None = None,
        branch: str | None = None,
        limit: int | None = None,
        order_by_key: KeyOrder | None = None,
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
            tag: read the table as of the snapshot that has this tag, even if the snapshot has expired.
            branch: read this branch; snapshots and tags are those of the branch.
            limit: return at most this many rows, in no particular order, then stop reading.
            order_by_key: 'asc' or 'desc': return the first `limit` rows in the ascending or descending order of the primary key.
                Reads only files whose key ranges can hold them. Needs a limit; nulls are less than all values.

        Example:
            >>> orders.scan(where="amount > 10", columns=["order_id"]).to_polars()
            >>> scan = orders.scan()
            >>> duckdb.sql("SELECT * FROM scan")
        """
        if mode not in (FRESH, RAW):  # Scan knows another one, for the readers of changes
            raise InvalidQuery(
                "unknown mode", expected="'fresh' or 'raw'", found=repr(mode), cure="fresh reads all rows, raw skips level 0"
            )
        if limit is not None and limit < 0:
            raise InvalidQuery("limit is negative", expected="0 or more", found=limit, cure="correct limit")
        if order_by_key is not None:
            check_order(order_by_key, limit, where)
        names = None if columns is None else tuple(columns)
        meta = self.meta if branch is None else self.branch(branch).meta
        return Scan(meta, self.runtime, where, names, mode, Moment(snapshot, timestamp, tag), limit, order_by_key)

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
        check_keyed(version.schema, self.name, "get", "use scan(where=...)")
        keys = as_keys(key, version.schema)
        return row_of_key(version, keys) if isinstance(key, Mapping) else rows_of_keys(version, keys)

    def df(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        mode: ReadMode = "fresh",
        snapshot: int | None = None,
        timestamp: str | datetime.datetime | None = None,
        tag: str | None = None,
        branch: str | None = None,
        limit: int | None = None,
        order_by_key: KeyOrder | None = None,
    ) -> SparkDataFrame:
        """Spark: the rows as a DataFrame. `df(...)` is `scan(...).to_spark()`; the arguments are those of `scan`."""
        moment = {"snapshot": snapshot, "timestamp": timestamp, "tag": tag}
        how = {"mode": mode, "branch": branch, "limit": limit, "order_by_key": order_by_key}
        return self.scan(where=where, columns=columns, **how, **moment).to_spark()

    def changes(
        self,
        start: int | str | datetime.datetime,
        end: int | str | datetime.datetime | None = None,
        *,
        mode: ChangesMode = "diff",
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Changes:
        """Describe the row changes between two snapshots. Nothing is read until a method of the result is called.

        Args:
            start: the changes after this snapshot (exclusive): its number, a tag as text, or a time, which stands for the newest
                snapshot that is not later. 0, or a time before the first snapshot: from the beginning.
            end: the changes up to this snapshot (inclusive), given like `start`. Default: the latest snapshot. A time without a
                time zone is in UTC; with Spark it is in the time zone of the session.
            mode: 'diff' compares the two snapshots and returns the net changes, each -U directly before its +U, under all
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

        Each change is delivered exactly once, also after a restart from a checkpoint. The DataFrame keeps the columns of the
        table as of this call, under their names of now. When the table drops or widens a column later, even one that `columns`
        leaves out, the query stops with InvalidQuery; a query of a new `read_stream()` with the same checkpoint continues there.

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

    @overload
    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: Literal[False] = False,
    ) -> Snapshot: ...

    @overload
    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: Literal[True],
    ) -> RollbackReport: ...

    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: bool = False,
    ) -> Snapshot | RollbackReport:
        """Give the table the rows, the columns and the options that it had at an older snapshot, as one new commit.

        The newer snapshots stay and can be read. Streams out of the table see the reverse changes. Commit ids of writers go on
        from the newest: a batch that was rolled back is not applied again when it is repeated, so a stream that must write these
        batches again needs a new checkpoint, or another `writer_id`.

        Args:
            snapshot: the number of the snapshot to go back to. Exactly one of `snapshot`, `tag` and `timestamp` is needed.
            tag: the tag to go back to, even if its snapshot has expired.
            timestamp: go back to the snapshot that was the latest at this time, as in `scan`.
            cut: afterwards remove the snapshots after the target, their tags and changelogs, and the files that nothing else
                needs. The new snapshot has the next number all the same: numbers are never used twice. Streams that have read a
                removed snapshot, or have yet to read it, fail; they must start anew.
            dry_run: change nothing; report what would be done.

        Returns:
            The new snapshot; or the latest one, if it is the target. With `dry_run` the report.

        Raises:
            SnapshotNotFound: the target does not exist or has expired.
            InvalidQuery: not exactly one target is given; or, with `cut`, a consumer has read a snapshot to be removed.
            CommitConflict: other commits came first on every attempt. The table is unchanged.

        Example:
            >>> orders.rollback(snapshot=12)
        """
        moment = Moment(snapshot, timestamp, tag)
        published, report = rollback(self.meta, moment, self.runtime.zone, self.name, cut=cut, dry_run=dry_run)
        return report if dry_run else published

    def create_branch(self, name: str, *, tag: str | None = None, snapshot: int | None = None) -> Table:
        """Create a branch: a line of commits, schemas, tags and consumers of its own that begins at a snapshot of the table.

        No data is copied. The files that the branch shares with the table stay as long as the branch.

        Args:
            name: letters, digits, '_' and '-', but not 'main'.
            tag: begin at the snapshot of this tag.
            snapshot: begin at this snapshot. Default, without `tag`: the latest one.

        Returns:
            The branch, as `branch(name)`.

        Raises:
            InvalidQuery: the name is not valid or taken, or this is a branch itself.
            SnapshotNotFound: there is no such snapshot or tag.

        Example:
            >>> test = orders.create_branch("test")
            >>> test.upsert(rows)
            >>> orders.fast_forward("test")
        """
        found = resolve(self.meta, Moment(snapshot, None, tag), self.runtime.zone)
        create_branch(self.meta, name, found, tag)
        return self.branch(name)

    def branch(self, name: str) -> Table:
        """A branch as a table, for all verbs. `lake.table("sales.orders$branch_b1")` opens the same.

        Raises:
            TableNotFound: there is no branch of that name.
        """
        meta = self.meta.on(None)
        table, _ = split_branch(self.name)
        return Table(on_branch(table, name), meta.on(meta.branches.place(name)), self.runtime)

    def branches(self) -> pa.Table:
        """One row per branch, by name."""
        return named_files.branches(self.meta.on(None))

    def rename_branch(self, name: str, new_name: str) -> Table:
        """Give a branch another name. Handles with the old name, and commits that are not yet published, fail.

        Raises:
            InvalidQuery: the new name is not valid, or it is taken.
            TableNotFound: there is no branch of that name.
            CommitConflict: the table is being forwarded to the branch, or the branch is being deleted.
        """
        rename_branch(self.meta, name, new_name)
        return self.branch(new_name)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> BranchReport:
        """Delete a branch with its tags and consumers, and the files that only it needs.

        If the file of the branch is damaged, only its metadata is deleted; `remove_orphan_files` removes the rest.

        Args:
            name: the name of the branch.
            dry_run: delete nothing; report what would be deleted.

        Raises:
            TableNotFound: there is no branch of that name.
            CommitConflict: the table is being forwarded to the branch.
        """
        return delete_branch(self.meta, name, dry_run=dry_run)

    def fast_forward(self, name: str) -> Snapshot | None:
        """Make the commits of a branch the commits of the table, with their schemas and tags.

        Only if the table has no commit since the branch was created; otherwise the error names the commits that came. Streams out
        of the table see the commits one after the other, except those whose snapshots have expired on the branch. The branch
        remains, and begins at the latest snapshot from then on.
        After a crash, call it again: until then the table is at one of the snapshots of the branch, and nothing expires.

        Returns:
            The latest snapshot of the table; None: neither the table nor the branch has one.

        Raises:
            CommitConflict: the table has commits that the branch does not have, or another program works on the branch.
            TableNotFound: there is no branch of that name.
            InvalidQuery: the table has a tag of the same name for another snapshot; or it has consumers, and snapshots of the
                branch have expired.
        """
        return fast_forward(self.meta, name)

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        timestamp: str | datetime.datetime | None = None,
        retain: str | datetime.timedelta | None = None,
        replace: bool = False,
    ) -> Tag:
        """Give a snapshot a name. The snapshot can be read by this name as long as the tag exists, also after it has expired.

        Args:
            name: letters, digits, '_', '-', '.' and single blanks.
            snapshot: the number of the snapshot. Default: the latest snapshot.
            timestamp: the snapshot that was the latest at this time, as in `scan`.
            retain: how long the tag is kept, such as '7 d'. Default: option `tag.default-time-retained`, or until it is deleted.
            replace: replace the tag if there is one of that name. Files that only the old tag needs are deleted.

        Raises:
            InvalidQuery: the name is not valid, it is taken, or the table has no snapshot.
            SnapshotNotFound: the snapshot has expired.

        Example:
            >>> orders.create_tag("end-of-day", retain="30 d")
            >>> orders.scan(tag="end-of-day").to_arrow()
        """
        moment = Moment(snapshot, timestamp)
        return create_tag(self.meta, name, moment, self.runtime.zone, retain, replacing=replace)

    def rename_tag(self, name: str, new_name: str) -> Tag:
        """Give a tag another name.

        Raises:
            InvalidQuery: the new name is not valid, or it is taken.
            SnapshotNotFound: there is no tag of that name.
        """
        return rename_tag(self.meta, name, new_name)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> TagReport:
        """Delete a tag. If its snapshot has expired, the files that no other tag and no snapshot needs are deleted, too.

        Args:
            name: the name of the tag.
            dry_run: delete nothing; report what would be deleted.

        Raises:
            SnapshotNotFound: there is no tag of that name.
        """
        return delete_tag(self.meta, name, dry_run=dry_run)

    def expire_tags(self, *, older_than: str | datetime.datetime | None = None, dry_run: bool = False) -> TagReport:
        """Delete the tags that have been kept for their retention, and the files that nothing else needs.

        Commits do so automatically, see option `snapshot.expire.on-commit`.

        Args:
            older_than: also delete all tags created before this time, even if their retention is longer. Text or a datetime, as
                in `scan`.
            dry_run: delete nothing; report what would be deleted.
        """
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        return expire_tags(self.meta, time_ms, dry_run=dry_run)

    def tags(self) -> pa.Table:
        """One row per tag, ordered by snapshot, then by name."""
        return named_files.tags(self.meta)

    def expire_partitions(self, *, dry_run: bool = False) -> PartitionExpiryReport:
        """Drop the partitions that are older than option `partition.expiration-time`, as one commit.

        Commits do this automatically, see option `partition.expiration-check-interval`. The time of a partition is read from its
        values (`values-time`) or is that of its newest file (`update-time`), see option `partition.expiration-strategy`; all
        times are in UTC. A partition whose values are no time never expires by values-time. At most
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
        """Check all invariants and checksums of all snapshots. Reads all files. An empty list means that nothing is wrong."""
        return verify(self.meta)

    def snapshots(self) -> pa.Table:
        """One row per retained snapshot, oldest first."""
        return named_files.snapshots(self.meta)

    def files(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per live data file of the latest snapshot, or as of a snapshot, a time or a tag, as in `scan`."""
        return listings.files(self._at(snapshot, timestamp, tag))

    def buckets(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per bucket: live and deleted rows, bytes, files. The arguments are those of `files`."""
        return listings.buckets(self.files(snapshot, timestamp=timestamp, tag=tag))

    def partitions(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per partition: live and deleted rows, bytes, files. The arguments are those of `files`."""
        return listings.partitions(self.files(snapshot, timestamp=timestamp, tag=tag))

    def manifests(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per manifest. The arguments are those of `files`."""
        return listings.manifests(self._at(snapshot, timestamp, tag))

    def _at(self, snapshot: int | None, timestamp: str | datetime.datetime | None, tag: str | None) -> Version:
        """The table as of a snapshot, a time or a tag."""
        return Version.at(self.meta, resolve(self.meta, Moment(snapshot, timestamp, tag), self.runtime.zone))

    def schemas(self) -> pa.Table:
        """One row per version of the schema, oldest first."""
        return named_files.schemas(self.meta)

    def options_table(self) -> pa.Table:
        """One row per option: its name, the value that the table sets (null: none), default, possible values and meaning."""
        return listings.options(self.current)

    @overload
    def system_table(
        self,
        name: MetadataTable,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
    ) -> pa.Table: ...

    @overload
    def system_table(
        self,
        name: Literal["audit_log"],
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
    ) -> AuditLog: ...

    @overload
    def system_table(
        self,
        name: Literal["binlog"],
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        start: int | str | None = None,
    ) -> Binlog: ...

    @overload
    def system_table(
        self,
        name: Literal["ro"],
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
    ) -> Scan: ...

    def system_table(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        start: int | str | None = None,
    ) -> pa.Table | Readable:
        """What the table knows about itself, by name, with the names and columns of Apache Paimon's system tables.

        As a pyarrow.Table: `snapshots`, `history`, `schemas`, `options`, `files`, `file_key_ranges`, `manifests`, `partitions`,
        `buckets`, `table_indexes`, `aggregation_fields`, `statistics`, `tags`, `branches`, `consumers`. As a stream, like a
        scan: `audit_log`, all rows with the column `rowkind`, which is '+I'; `binlog`, the changes, with `rowkind` and every
        column as a list, [before, after] for an update; `ro`, the rows of a scan in mode 'raw'. With Spark, `to_spark()` of these
        three returns a DataFrame.

        A snapshot, schema, tag, branch or consumer whose file cannot be read is a row with its name and the reason in `error`.

        Unlike Paimon: `writer_id` and `commit_id` stand for commit_user and commit_identifier; `options` lists all options;
        `colstat` is a map; `record_count` of partitions and buckets counts live rows; `audit_log` has no -D rows; `binlog` also
        holds the changes of older snapshots. What the table does not store has no column: row ids (`next_row_id`,
        `first_row_id`, `write_cols`, `min_row_id`, `max_row_id`, `_SEQUENCE_NUMBER`, `row_tracking`), what only a catalog knows
        (`operation` of snapshots; `created_at`, `created_by`, `updated_by`, `options` and `done` of partitions), the size of
        vector files (`file_size` of `table_indexes`), and indexes besides deletion vectors (`row_range_start`, `row_range_end`,
        `index_field_id`, `index_field_name`, `file_indexes`: bloom filters are in the Parquet files).

        Args:
            name: the name of the system table.
            snapshot: as of this snapshot, as in `scan`; `binlog`: the changes up to it. Not for `snapshots`, `history`,
                `schemas`, `tags`, `branches` and `consumers`.
            tag: as in `scan`.
            timestamp: as in `scan`.
            start: `binlog` only: the changes after this snapshot or tag, as in `changes`. Default: the oldest retained snapshot,
                or the beginning if no snapshot has expired.

        Raises:
            InvalidQuery: there is no such system table, or an argument does not apply to it.
            SnapshotNotFound: the snapshot is not retained.

        Example:
            >>> orders.system_table("files", snapshot=3)
            >>> orders.system_table("binlog").to_polars()
        """
        return system_table(name, Asked(self.meta, self.runtime, Moment(snapshot, timestamp, tag), start))

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
    predicate = None if where is None else partition_predicate(schema, where, zone)

    def wanted(bucket: Bucket) -> bool:
        return (numbers is None or bucket.number in numbers) and (
            predicate is None or partition_matches(predicate, schema, bucket.partition)
        )

    return wanted
