"""The verb `sync`: applies the change events of a whole database to the tables of a lake. `api.sync` does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Literal

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import EventBatches, OnError, OptionValue, StreamingQuery, Trigger
from lsmlake.api.sync.database_sync import DatabaseSync
from lsmlake.api.sync.sync_checkpoint import SyncCheckpoint
from lsmlake.api.sync.sync_report import SyncReport, together
from lsmlake.api.sync.sync_rules import SyncArguments, SyncRules
from lsmlake.api.sync.sync_run import SyncRun
from lsmlake.api.sync.sync_source import EventInput, check_files, source_of
from lsmlake.border import verbs_of
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.inputs.text_files import FileOptions
from lsmlake.options.option_types import duration
from lsmlake.storage.location import storage_at

_EVERY = Wording("correct every, or leave it out", command="correct --every, or leave it out")


@verbs_of("Lake")
class Syncing(CatalogVerbs):
    """The verb that keeps a whole database in step with another system."""

    def sync(
        self,
        source: EventBatches,
        *,
        format: str | ChangeFormat,
        database: str,
        tables: str | None = None,
        excluding_tables: str | None = None,
        table_mapping: Mapping[str, str] | None = None,
        table_prefix: str = "",
        table_suffix: str = "",
        merge_shards: bool = False,
        primary_keys: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        partition_by: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        computed_columns: Mapping[str, Mapping[str, str]] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        evolve: Literal["widen", "add", "refuse"] = "widen",
        infer_types: bool = True,
        on_error: OnError = "reject",
        checkpoint: str | PurePath | None = None,
        column: str | None = None,
        encoding: str | None = None,
        every: str | int | None = None,
        trigger: Trigger | None = None,
        query_name: str | None = None,
    ) -> SyncReport | StreamingQuery:
        """Apply one stream of change events of many tables to the tables of a database, which are made and altered as needed.

        A batch of events becomes one commit per table. With `checkpoint`, each table gets each batch exactly once, at whatever
        step a process is killed. A table that fails does not stop the others. Types come from the events where they declare them,
        and otherwise from the values: whole numbers are BIGINT, other numbers DOUBLE, texts, lists and objects STRING. All
        columns except those of the key are nullable; a column that the source drops stays, and is null in new rows.

        Args:
            source: files with an event per line, or with a column of events: paths, folders and globs, of which each file is read
                once; an iterator of batches, or of (number, batch), where a batch is what `Table.upsert` takes with `format`, and
                single texts are collected into batches; one batch; or a DataFrame of the attached Spark session, streaming or
                not, with the columns `value` and, if the key of the message is needed, `key`.
            format: as in `Table.upsert`; the events must say which table they are for.
            database: the database of this lake; it is created if there is none.
            tables: a regular expression for the whole names of the tables to keep at the source: "database.table", or
                "database.schema.table". Default: all.
            excluding_tables: a regular expression for the whole names of tables to leave out.
            table_mapping: regular expression for names at the source -> name in the lake, such as {r"shop\\.ord": "orders"}.
                Default: the name of the table without database and schema, between `table_prefix` and `table_suffix`.
            table_prefix: what the names of tables begin with, unless `table_mapping` names them.
            table_suffix: what the names of these tables end with.
            merge_shards: several tables at the source may have one table in the lake. Events that remove all rows are then
                rejected, since they concern one shard only. Default: a second table with the same name in the lake is refused.
            primary_keys: key columns for all tables, or table in the lake -> key columns. Default: the keys in the events.
            partition_by: as in `create_table`, for tables that are created: for all of them, or table in the lake -> fields.
            computed_columns: table -> column -> expression in SQL over the other columns, such as {"orders": {"dt":
                "date(created)"}}.
            options: as in `create_table`, for tables that are created.
            evolve: "widen": columns that a table lacks are added, and columns get wider types, as `change_type` allows it;
                "add": columns are only added; "refuse": neither.
            infer_types: False: fields without a declared type are STRING.
            on_error: "reject" writes events that cannot be applied, with the reasons, to the table `<table>_rejected`, or to
                `rejected_events` if they name no table, and goes on. "raise" applies the batch to all other tables, and raises
                the error; the next call begins with this batch.
            checkpoint: a folder that remembers what is done, for this source and these tables only. For a streaming DataFrame the
                checkpoint directory of the query. Default: each call reads all that the source has.
            column: the column of the events. Default: "value".
            encoding: the encoding of text files, as in `Table.upsert`.
            every: look for new files again and again, with this time in between, such as '30 s', until interrupted.
            trigger: Spark: as in `Table.write_stream`.
            query_name: Spark: as in `Table.write_stream`.

        Returns:
            What was done to each table; for a streaming DataFrame the query.

        Raises:
            InvalidQuery: arguments are not valid, or contradict each other.
            InvalidOption: an option in `options` is unknown, or its value does not fit.
            InvalidData: the source has no events, or a file or batch is not the one that was read before.
            LakeError: a table could not be written. The other tables have the batch, and the next call begins with it.

        Example:
            >>> report = lake.sync("events/", format="debezium-json", database="shop", tables=r"shop\\..*", checkpoint="state")
            >>> report.to_arrow()
        """
        rules = SyncRules.of(
            SyncArguments(
                format,
                database,
                tables,
                excluding_tables,
                table_mapping,
                table_prefix,
                table_suffix,
                merge_shards,
                primary_keys,
                partition_by,
                computed_columns,
                options,
                evolve,
                infer_types,
                on_error,
            )
        )
        wait_ms = None if every is None else duration.argument("every", every, "sync", _EVERY)
        sync = DatabaseSync(self, rules)
        sync.check()
        if self.runtime.owns(source):
            _check_unused("a DataFrame", encoding=encoding, every=every)
            return self.runtime.on_spark("sync()").sync(sync, source, checkpoint, column, trigger, query_name)
        _check_unused("a source in this process", trigger=trigger, query_name=query_name)
        files = FileOptions.of(None, None, encoding)
        events = source_of(source, EventInput(column, files, rules.format.events.avro, rules.rejects))
        check_files(events, every, checkpoint)
        remembers = None if checkpoint is None else SyncCheckpoint(storage_at(str(checkpoint)))
        run = SyncRun(sync, events, remembers)
        report = run.once()
        while wait_ms is not None:
            self.env.sleep(wait_ms / 1000)
            report = together(report, run.once())
        return report


def _check_unused(what: str, **arguments: object) -> None:
    """Raises InvalidQuery for arguments that do not apply to a source of this kind."""
    if given := [name for name, value in arguments.items() if value is not None]:
        cure = Wording(f"leave out {', '.join(given)}", command="leave it out")
        raise InvalidQuery(f"{what} has no use for {', '.join(given)}", found=given, cure=cure)
