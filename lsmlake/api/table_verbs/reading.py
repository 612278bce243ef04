"""The verbs that read rows and changes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import PurePath
from typing import overload

import pyarrow as pa

from lsmlake.api.changes import Changes
from lsmlake.api.following import ChangeBatch, Following, follow
from lsmlake.api.public_types import ArrowExpression, ChangesMode, Keys, PandasDataFrame, ReadMode, SparkDataFrame, StartMode
from lsmlake.api.scan import Scan, check_order
from lsmlake.api.table_verbs.handle import Handle, check_keyed
from lsmlake.border import short, verbs_of
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.follow import Limit
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.inputs.data import as_input
from lsmlake.inputs.in_memory import as_table
from lsmlake.read.fallback import with_fallback
from lsmlake.read.limit import KeyOrder
from lsmlake.read.plan import FRESH, RAW
from lsmlake.read.point import row_of_key, row_of_plain_key, rows_of_keys
from lsmlake.read.travel import Moment
from lsmlake.schema.conform import conform
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Version
from lsmlake.types.type_text import format_type_of


@verbs_of("Table")
class Reading(Handle):
    """The verbs that read rows and changes."""

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
            where: a condition in Spark SQL, with Spark's semantics. One that is no predicate, such as "upper(name) = 'X'", is
                evaluated by DuckDB (the extra `duckdb`), or by Spark. Or a pyarrow.compute.Expression, which Arrow evaluates
                after the read and which therefore prunes no file.
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
            >>> orders.scan(where="amount > 10", columns=["order_id"]).to_polars().collect()
            >>> scan = orders.scan()
            >>> duckdb.sql("SELECT * FROM scan")
        """
        if mode not in (FRESH, RAW):  # Scan has one more mode, for the readers of changes
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

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows of the table, in no particular order. Reads only the files that hold them.

        Raises:
            InvalidQuery: `rows` is negative.
        """
        return self.scan().head(rows)

    def count(self) -> int:
        """The number of rows: `scan().count()`."""
        return self.scan().count()

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table: `scan().to_arrow()`."""
        return self.scan().to_arrow()

    def to_pandas(self) -> PandasDataFrame:
        """All rows as a pandas.DataFrame: `scan().to_pandas()`."""
        return self.scan().to_pandas()

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
        version = with_fallback(Version.latest(self.meta))
        check_keyed(version.schema, self.name, "get", "use scan(where=...)")
        if isinstance(key, Mapping) and (rows := row_of_plain_key(version, key)) is not None:
            return rows[0] if rows else None
        keys = _as_keys(key, version.schema)
        return row_of_key(version, keys) if isinstance(key, Mapping) else rows_of_keys(version, keys, copying=True)

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
        commit_columns: bool = False,
        format: str | ChangeFormat | None = None,
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
            where: return only changes of rows that satisfy this condition in Spark SQL. In mode 'diff', a row that no longer
                satisfies it is returned as a -D; in the other modes, only the -U of such an update is returned. A condition that
                is no predicate, such as "upper(name) = 'X'", is evaluated by DuckDB (the extra `duckdb`), on Spark in its tasks.
            columns: the columns of the result after `_row_kind`, in this order. Default: all columns.
            commit_columns: add three columns at the end: `_commit_snapshot_id` BIGINT, `_commit_time` TIMESTAMP, and
                `_change_ordinal` BIGINT, which ascends with the changes of the commit, each -U directly before its +U. In mode
                'diff' the changes have those of `end`. `upsert` and `write_stream` order rows that have all three by them, and do
                not store them: so changes can be joined, grouped and shuffled before they are written.
            format: return change events, as messages with the columns `key` and `value`: debezium-json, canal-json, maxwell-json,
                ogg-json, aws-dms, mongodb or plain; or a `lsmlake.cdc.ChangeFormat`, which also says how values are written and
                where the schemas of debezium-avro are registered. Both columns are STRING, with debezium-avro BINARY. A -U and
                its +U are one event. Positions order the events as the commits and their changes.

        Raises:
            InvalidQuery: when the changes are read, if the table has a column with the name of a commit column, or if events of
                the format cannot have the columns.
            StorageFailed: when the changes are read, if the registry of debezium-avro refuses the schemas or does not answer.
        """
        names = None if columns is None else tuple(columns)
        format = None if format is None else ChangeFormat.of(format)
        return Changes(self.meta, self.runtime, start, end, where, names, mode, commit_columns, format)

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
        commit_columns: bool = False,
        format: str | ChangeFormat | None = None,
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
            where: as in `changes`, but without the current time.
            columns: as in `changes`.
            consumer: a name under which the table remembers the progress. Snapshots that the consumer has not read do not expire,
                and a stream without a checkpoint continues where the consumer stopped.
            max_rows: the rows per micro-batch. The three limits are estimated from metadata, and a micro-batch never holds less
                than the changes of one commit in one bucket. Spark 4.1 ignores them.
            max_bytes: the bytes of data files per micro-batch.
            max_files: the data files per micro-batch.
            commit_columns: as in `changes`.
            format: as in `changes`: a stream of messages, as `writeStream.format("kafka")` takes them.

        Raises:
            InvalidQuery: the arguments contradict each other, or the table has no such changes.
        """
        limit = Limit(max_rows, max_bytes, max_files)
        following = Following(start, snapshot, timestamp, mode, where, columns, consumer, limit, commit_columns, format)
        return self.runtime.on_spark("read_stream()").read_stream(self.meta, following)

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
        commit_columns: bool = False,
        format: str | ChangeFormat | None = None,
    ) -> Iterator[ChangeBatch]:
        """Iterate over the changes of the table without Spark, one batch per snapshot.

        The arguments that are not listed are those of `read_stream`; a time without a time zone is in UTC.

        Args:
            wait: the seconds between two polls for new snapshots, once all snapshots have been read. The iterator then polls
                until it is stopped. In a directory a new snapshot is found within 0.05 seconds, whatever `wait` is. None: the
                iterator ends.
            consumer: as in `read_stream`. The progress is stored when the next batch is requested.

        Raises:
            InvalidQuery: at once, if the arguments contradict each other.
            SnapshotNotFound: the next snapshot to read has expired.

        Example:
            >>> for batch in orders.follow(wait=1, consumer="bus", format="debezium-json"):
            ...     for message in batch.to_pylist():
            ...         producer.send(message["key"], message["value"])
        """
        if wait is not None and not 0 < wait < inf:
            raise InvalidQuery("wait is out of range", expected="more than 0 seconds, or None", found=wait, cure="correct wait")
        more = {"commit_columns": commit_columns, "format": format}
        following = Following(start, snapshot, timestamp, mode, where, columns, consumer, **more)
        follower = following.follower(self.meta, self.runtime.zone)
        return follow(follower, wait, following.events(follower))


_DATA = "__iter__", "keys", "__arrow_c_stream__", "__arrow_c_array__", "scanner", "to_reader"
"""Data with rows of keys has one of these attributes; text, and objects without any of them, are single values."""


def _as_keys(key: object, schema: Schema) -> pa.Table:
    """The primary key columns of `key`, in the types of the table. Raises InvalidData."""
    one = isinstance(key, Mapping)
    rows = [key] if one else key
    if isinstance(rows, (str, bytes, PurePath)) or not any(hasattr(rows, name) for name in _DATA):
        raise _refused("a key is a dict", key, schema)
    for row in rows if isinstance(rows, (list, tuple)) else ():
        _check_row(row, schema)
    try:
        tables = [as_table(rows, schema.plain_columns)] if one else as_input(rows, schema.plain_columns).tables
        parts = [conform(table, schema, schema.primary_key, first_row=None if one else 0) for table in tables if table.num_rows]
    except InvalidData as error:  # its cure is for upserts
        raise error.changed(cure=_cure(schema)) from error
    return pa.concat_tables(parts) if parts else schema.row_columns.empty_table().select(list(schema.primary_key))


def _check_row(row: object, schema: Schema) -> None:
    """Refuse a list item that is not a dict of exactly the key columns. `as_input` handles record batches and tables."""
    if hasattr(row, "__arrow_c_array__") or hasattr(row, "__arrow_c_stream__"):
        return
    if not isinstance(row, Mapping):
        raise _refused("a key is a dict", row, schema)
    missing = [name for name in schema.primary_key if name not in row]
    extra = [name for name in row if name not in schema.primary_key]
    if missing or extra:
        faults = [f"lacks the columns {missing}"] if missing else []
        faults += [f"has extra columns {extra}"] if extra else []
        raise _refused(f"the key {' and '.join(faults)}", row, schema)


def _refused(what: str, found: object, schema: Schema) -> InvalidData:
    return InvalidData(
        what, expected=f"the primary key columns {list(schema.primary_key)}", found=short(found), cure=_cure(schema)
    )


def _cure(schema: Schema) -> str:
    names = ", ".join(f"{name!r}: ..." for name in schema.primary_key)
    types = ", ".join(f"{name} {format_type_of(schema.columns.field(name))}" for name in schema.primary_key)
    return f"write {{{names}}}, or a list of such dicts; the types are {types}"
