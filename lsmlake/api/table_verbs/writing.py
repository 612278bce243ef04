"""The verbs that write rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lsmlake.api.change_writes import check_rejects, upsert_changes
from lsmlake.api.public_types import (
    BatchFunction,
    Data,
    OnError,
    OrderKeys,
    RowKinds,
    SparkDataFrame,
    StreamingQuery,
    Trigger,
)
from lsmlake.api.table_verbs.handle import Handle, check_append_only, check_keyed, writable
from lsmlake.api.writes import write
from lsmlake.border import verbs_of
from lsmlake.cdc.change_input import ChangeArguments, ChangeInput
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData, Wording
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema import rowkind
from lsmlake.schema.conform import Cast
from lsmlake.storage.env import moment_of
from lsmlake.tables.version import Version
from lsmlake.write.order import OrderBy
from lsmlake.write.replace import Replacement
from lsmlake.write.write import publish
from lsmlake.write.write_request import WriteRequest

_USE_APPEND = Wording("use append, which adds the rows", command="leave --format out: `lsmlake load` adds the rows of files")


@verbs_of("Table")
class Writing(Handle):
    """The verbs that write rows."""

    def append(
        self,
        data: Data,
        *,
        cast: bool = False,
        commit_id: int | None = None,
        writer_id: str | None = None,
        evolve: bool = False,
        null_values: str | Collection[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
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
            null_values: as in `upsert`.
            delimiter: as in `upsert`.
            encoding: as in `upsert`.

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
        version = writable(self)
        check_append_only(version.schema, self.name)
        files = FileOptions.of(null_values, delimiter, encoding)
        identity = self._identity(writer_id, commit_id)
        request = WriteRequest(identity, cast=self._cast(cast), files=files, evolve=evolve, compact=False)
        return write(version, self.runtime, self.name, data, request)

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
        null_values: str | Collection[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        order_by: OrderKeys | None = None,
        format: str | ChangeFormat | None = None,
        column: str | None = None,
        on_error: OnError = "raise",
        rejected: str | None = None,
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        ignore_null_updates: bool = False,
        columns: Sequence[str] | None = None,
        except_columns: Collection[str] | None = None,
    ) -> Snapshot | None:
        """Insert or replace rows by key, as one commit. An error leaves the rows of the table unchanged.

        Args:
            data: anything with the Arrow stream interface (PyArrow, pandas, Polars, DuckDB), a Polars LazyFrame, a list of dicts,
                a dict of columns, an iterator of record batches or of dicts, a pyarrow dataset, the path or glob of Parquet, CSV
                or JSON files or Excel workbooks, or a DataFrame of the attached Spark session. Columns are matched by name. If
                several rows have the same key, the last row wins (see `order_by`). Streams and files are read while they are
                written (JSON files and workbooks one at a time); rows beyond `write-buffer-size` are sorted on disk. A column
                with a default, such as one that was added later, may be left out; under merge engines that combine rows, any
                nullable column. Data without rows commits nothing, regardless of its columns.
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
            evolve: first add the columns of the data that the table lacks, those of `order_by` included, and the fields that its
                structs lack, by an alteration of its own, which stays if the data is then refused. Only the columns of the first
                table of a stream count.
                Option `write.merge-schema` does the same for every write, streams included. Events and AUTO CDC's words take the
                columns that the table has.
            null_values: of CSV and Excel files: the words that mean null, such as ["NA", "NULL"], beside the empty field. In text
                columns a field in quotes is text.
            delimiter: of CSV files. Default: recognised among , ; | and tab.
            encoding: of CSV and JSON files, such as "latin-1". Default: the one of the byte order mark; without one UTF-8.
            order_by: the order in which rows of one key in this batch apply, whatever tasks they come from: a column or an
                expression of SQL, or a list of them, the most significant first, over the columns of the data. The row with the
                greatest value applies last; a null is older than any value; of equal values the order of the data counts. A
                column that the table lacks is only read for the order; a column of text is refused there under `cast=True` and
                for CSV and JSON files, whose texts may be numbers (10 before 9): write `n :: BIGINT`. It is not stored: rows
                of other commits are ordered by commit, or by the option `sequence.field`, which comes before `order_by`.
                Default: the order of the data; of a change feed with `commit_columns`, theirs. Between the partitions of a
                Spark DataFrame the data has no order: rows of one key that differ there are refused. `lsmlake.ANY`: any of
                them will do.
            format: the format of change events in the data: "debezium-json", "canal-json", "maxwell-json", "ogg-json", "aws-dms",
                "mongodb", "plain", or a `lsmlake.cdc.ChangeFormat`, which also says how values are written whose events do not
                tell it, and where the schemas of "debezium-avro" are. `data` may also be texts or bytes, one event each, or
                files with an event per line. The events of a key apply in the order of their source. Values are converted as by
                `cast`.
            column: the column of the events. Default: "value", as Kafka's sources name it.
            on_error: "raise" refuses the write for an event that cannot be read. "reject" writes such events, with the reasons,
                to the table `rejected` and goes on.
            rejected: the name of the table for rejected events; it is made when it is needed. Default: the name of this table
                with `_rejected`.
            apply_as_deletes: a condition in SQL on the columns of the data, such as "op = 'd'": its rows are deletes. They may
                lack all but the key. With `format`, it reads the columns of the table.
            apply_as_truncates: a condition as `apply_as_deletes`: its rows remove all rows before them.
            ignore_null_updates: a null leaves the value that the row of the key has. So does a column that was added to the table
                later and that the data lacks.
            columns: the columns of the data to write; others are only read by conditions and `order_by`.
            except_columns: the columns of the data not to write. With `format`, also fields of the events that the table lacks;
                an event with another field that the table lacks cannot be read, and a name that no event has is logged as a
                warning. Fields inside of nested values are named by their paths: "address.zip", "items.element.price",
                "by_name.value.price"; they also go with `columns`.

        Returns:
            The snapshot that this commit published, or None if there was nothing to commit.

        Raises:
            InvalidData: the data does not fit the table. The error names the column and, without Spark, the first row that does
                not fit, in files with its line. Nothing was committed.
            CommitConflict: other commits won the race every time. Nothing was committed.
            CommitUnknown: the store did not report whether the commit took place.
            StorageFailed: the store refused a call.
        """
        version = writable(self)
        check_keyed(version.schema, self.name, "upsert", _USE_APPEND)
        request = WriteRequest(
            self._identity(writer_id, commit_id),
            rowkind.Source.of(row_kind),
            cast=self._cast(cast),
            order_by=self._order(order_by),
            files=FileOptions.of(null_values, delimiter, encoding),
            evolve=evolve,
            compact=compact,
        )
        words = ChangeArguments(
            format, column, on_error, rejected, apply_as_deletes, apply_as_truncates, ignore_null_updates, columns, except_columns
        )
        if words == ChangeArguments():
            return write(version, self.runtime, self.name, data, request)
        changes = ChangeInput.of(version.schema, words, row_kind=row_kind is not None, evolve=evolve)
        return upsert_changes(version, self.runtime, self.name, data, request, changes)

    def delete_keys(
        self,
        data: Data,
        *,
        cast: bool = False,
        ignore_sequence: bool = False,
        commit_id: int | None = None,
        writer_id: str | None = None,
        compact: bool | None = None,
        null_values: str | Collection[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
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
        version = writable(self)
        check_keyed(version.schema, self.name, "delete_keys", "use delete(where=...)")
        request = WriteRequest(
            self._identity(writer_id, commit_id),
            deletes=True,
            ignore_sequence=ignore_sequence,
            cast=self._cast(cast),
            files=FileOptions.of(null_values, delimiter, encoding),
            compact=compact,
        )
        return write(version, self.runtime, self.name, data, request)

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
        null_values: str | Collection[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        order_by: OrderKeys | None = None,
    ) -> Snapshot | None:
        """Replace partitions, or the whole table, by the rows of `data`, as one commit. An error leaves the table unchanged.

        The overwrite replaces what the table holds when it is published: rows that other writers commit before that are
        replaced, rows that they commit later stay. The rows of `data` are merged with each other, not with the rows they replace.
        Readers of changes get the difference between the rows before and after. Older snapshots keep the replaced rows until
        they expire.

        Args:
            data: as in `upsert`.
            where: a condition on partition columns: replace all partitions that satisfy it, also those without new rows. Data
                with a row elsewhere is refused, and so is a condition that only some rows of a partition satisfy. Default: the
                partitions that `data` names; of a table without partitions, all rows. Partitions from before the table was
                partitioned anew are replaced if they lie inside of those; if one lies partly inside, the overwrite is refused.
            truncate: replace all rows of the table.
            cast: as in `upsert`.
            row_kind: as in `upsert`.
            commit_id: as in `upsert`.
            writer_id: as in `upsert`.
            null_values: as in `upsert`.
            delimiter: as in `upsert`.
            encoding: as in `upsert`.
            order_by: as in `upsert`.

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
        version = writable(self)
        replaces = Replacement.of(version.schema, where, truncate, self.runtime.zone, self.name, moment_of(self.meta.env))
        if row_kind is not None:
            check_keyed(version.schema, self.name, "row_kind", "leave row_kind out")
        if order_by is not None:
            check_keyed(version.schema, self.name, "order_by", "leave order_by out: no row replaces another one")
        request = WriteRequest(
            self._identity(writer_id, commit_id),
            rowkind.Source.of(row_kind),
            cast=self._cast(cast),
            order_by=self._order(order_by),
            files=FileOptions.of(null_values, delimiter, encoding),
            compact=False,
            replaces=replaces,
        )
        return write(version, self.runtime, self.name, data, request)

    def truncate(self) -> Snapshot | None:
        """Remove all rows, as one commit. Reads no data file; older snapshots keep the rows until they expire.

        Rows that other writers commit before the truncation is published are removed, rows that they commit later stay.

        Returns:
            The snapshot, or None if the table has no rows.

        Raises:
            CommitConflict: other commits won the race every time. Nothing was committed.
        """
        request = WriteRequest(Identity(self.meta.env.ids()), replaces=Replacement(everything=True))
        return publish(writable(self), [], request)

    def _order(self, given: OrderKeys | None) -> OrderBy | None:
        return OrderBy.of(given, self.runtime.zone)

    def _cast(self, cast: bool) -> Cast | None:
        return Cast(self.runtime.zone) if cast else None

    def _check_names(self, **names: str | Path | None) -> None:
        """Raises InvalidData if one of these arguments is an empty text, which is no name."""
        if empty := [name for name, given in names.items() if given == ""]:
            what, cure = f"{empty[0]} is empty", "name it, or leave it out"
            raise InvalidData(what, where=self.name, expected="a name, or None", found="''", cure=cure)

    def _identity(self, writer_id: str | None, commit_id: int | None) -> Identity:
        self._check_names(writer_id=writer_id)
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
        order_by: OrderKeys | None = None,
        cast: bool = False,
        format: str | ChangeFormat | None = None,
        column: str | None = None,
        on_error: OnError = "raise",
        rejected: str | None = None,
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        ignore_null_updates: bool = False,
        columns: Sequence[str] | None = None,
        except_columns: Collection[str] | None = None,
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
            order_by: as in `upsert`, for each micro-batch.
            cast: as in `upsert`.
            format: as in `upsert`.
            column: as in `upsert`.
            on_error: as in `upsert`.
            rejected: as in `upsert`.
            apply_as_deletes: as in `upsert`.
            apply_as_truncates: as in `upsert`, for each micro-batch.
            ignore_null_updates: as in `upsert`.
            columns: as in `upsert`.
            except_columns: as in `upsert`.

        Raises:
            InvalidData: when a batch is written under the name of another sink or query. Nothing of the batch is written.

        Example:
            >>> df.writeStream.foreachBatch(orders.sink()).option("checkpointLocation", "checkpoints/orders").start()
        """
        self._check_names(writer_id=writer_id, checkpoint=checkpoint, replaces=replaces)
        version = writable(self)
        words = ChangeArguments(
            format, column, on_error, rejected, apply_as_deletes, apply_as_truncates, ignore_null_updates, columns, except_columns
        )
        changes = ChangeInput.of(version.schema, words, row_kind=row_kind is not None, evolve=False)
        check_rejects(version, changes)
        request = self._streamed(version, row_kind, order_by, cast)
        return self.runtime.on_spark("sink()").sink(self, writer_id, request, changes, checkpoint, replaces)

    def write_stream(
        self,
        df: SparkDataFrame,
        *,
        checkpoint: str | Path,
        trigger: Trigger | None = None,
        row_kind: RowKinds | None = None,
        order_by: OrderKeys | None = None,
        query_name: str | None = None,
        writer_id: str | None = None,
        cast: bool = False,
        format: str | ChangeFormat | None = None,
        column: str | None = None,
        on_error: OnError = "raise",
        rejected: str | None = None,
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        ignore_null_updates: bool = False,
        columns: Sequence[str] | None = None,
        except_columns: Collection[str] | None = None,
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
            order_by: as in `upsert`, for each micro-batch.
            query_name: the name of the query in Spark.
            writer_id: as in `sink`. Default: the id of the query, which is stored in its checkpoint.
            cast: as in `upsert`.
            format: as in `upsert`.
            column: as in `upsert`.
            on_error: as in `upsert`.
            rejected: as in `upsert`.
            apply_as_deletes: as in `upsert`.
            apply_as_truncates: as in `upsert`, for each micro-batch.
            ignore_null_updates: as in `upsert`.
            columns: as in `upsert`.
            except_columns: as in `upsert`.
        """
        self._check_names(query_name=query_name, writer_id=writer_id)
        version = writable(self)
        words = ChangeArguments(
            format, column, on_error, rejected, apply_as_deletes, apply_as_truncates, ignore_null_updates, columns, except_columns
        )
        changes = ChangeInput.of(version.schema, words, row_kind=row_kind is not None, evolve=False)
        check_rejects(version, changes)
        request = self._streamed(version, row_kind, order_by, cast)
        return self.runtime.on_spark("write_stream()").write_stream(
            self, df, checkpoint, trigger, request, changes, query_name, writer_id
        )

    def _streamed(self, version: Version, row_kind: RowKinds | None, order_by: OrderKeys | None, cast: bool) -> WriteRequest:
        if order_by is not None:
            check_keyed(version.schema, self.name, "order_by", "leave order_by out: no row replaces another one")
        return WriteRequest(row_kind=rowkind.Source.of(row_kind), cast=self._cast(cast), order_by=self._order(order_by))
