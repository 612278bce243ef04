"""The verbs that list the parts of a table, such as snapshots, files and partitions."""

from __future__ import annotations

import datetime
from typing import Literal, overload

import pyarrow as pa

from lsmlake.api.public_types import (
    MetadataTable,
)
from lsmlake.api.readable import Readable
from lsmlake.api.scan import Scan
from lsmlake.api.system_tables import Asked, AuditLog, Binlog, system_table
from lsmlake.api.table_verbs.handle import Handle
from lsmlake.border import verbs_of
from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.maintain import named_files, version_listings
from lsmlake.read.travel import Moment, resolve
from lsmlake.tables.version import Version


@verbs_of("Table")
class Listings(Handle):
    """The verbs that list the parts of a table, such as snapshots, files and partitions."""

    def snapshots(self, last: int | None = None) -> pa.Table:
        """One row per retained snapshot, oldest first.

        Args:
            last: list only this many of the newest snapshots, and read no others. None: all.

        Raises:
            InvalidQuery: `last` is below 1.
        """
        return named_files.snapshots(self.meta, last)

    def files(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per live data file of the latest snapshot, or as of a snapshot, a time or a tag, as in `scan`."""
        return version_listings.files(self._at(snapshot, timestamp, tag))

    def buckets(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per bucket: live and deleted rows, bytes, files. The arguments are those of `files`."""
        return version_listings.buckets(self.files(snapshot, timestamp=timestamp, tag=tag))

    def partitions(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per partition: live and deleted rows, bytes, files. The arguments are those of `files`."""
        return version_listings.partitions(self.files(snapshot, timestamp=timestamp, tag=tag))

    def manifests(
        self, snapshot: int | None = None, *, timestamp: str | datetime.datetime | None = None, tag: str | None = None
    ) -> pa.Table:
        """One row per manifest. The arguments are those of `files`."""
        return version_listings.manifests(self._at(snapshot, timestamp, tag))

    def _at(self, snapshot: int | None, timestamp: str | datetime.datetime | None, tag: str | None) -> Version:
        """The table as of a snapshot, a time or a tag."""
        return Version.at(self.meta, resolve(self.meta, Moment(snapshot, timestamp, tag), self.runtime.zone))

    def schemas(self) -> pa.Table:
        """One row per version of the schema, oldest first."""
        return named_files.schemas(self.meta)

    def options_table(self) -> pa.Table:
        """One row per option: its name, the value that the table sets (null: none), default, possible values and meaning."""
        return version_listings.options(self.version.schema)

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
        commit_columns: bool = False,
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
        commit_columns: bool = False,
    ) -> pa.Table | Readable:
        """Metadata of the table as a system table, with the names and columns of Apache Paimon's system tables.

        As a pyarrow.Table: `snapshots`, `history`, `schemas`, `options`, `files`, `file_key_ranges`, `manifests`, `partitions`,
        `buckets`, `table_indexes`, `file_indexes`, `aggregation_fields`, `statistics`, `tags`, `branches`, `consumers`; and
        lsmlake's own `maintenance`, as `Lake.maintenance`. As a stream, like a scan: `audit_log`, all rows with the column
        `rowkind`, which is '+I'; `binlog`, the changes, with `rowkind` and every column as a list, [before, after] for an update;
        `ro`, the rows of a scan in mode 'raw'. With Spark, `to_spark()` of these three returns a DataFrame.

        A snapshot, schema, tag, branch or consumer whose file cannot be read is a row with its name and the reason in `error`.

        Unlike Paimon: `writer_id` and `commit_id` stand for commit_user and commit_identifier; `options` lists all options;
        `colstat` is a map; `record_count` of partitions and buckets counts live rows; `audit_log` has no -D rows; `binlog` also
        holds the changes of older snapshots. What the table does not store has no column: row ids (`next_row_id`,
        `first_row_id`, `write_cols`, `min_row_id`, `max_row_id`, `_SEQUENCE_NUMBER`, `row_tracking`), what only a catalog knows
        (`operation` of snapshots; `created_at`, `created_by`, `updated_by`, `options` and `done` of partitions), the size of
        vector files (`file_size` of `table_indexes`), and global indexes (`row_range_start`, `row_range_end`, `index_field_id`,
        `index_field_name`). `file_indexes` has no `is_empty`: no index is.

        Args:
            name: the name of the system table.
            snapshot: as of this snapshot, as in `scan`; `binlog`: the changes up to it. Not for `snapshots`, `history`,
                `schemas`, `tags`, `branches`, `consumers` and `maintenance`.
            tag: as in `scan`.
            timestamp: as in `scan`.
            start: `binlog` only: the changes after this snapshot or tag, as in `changes`. Default: the oldest retained snapshot,
                or the beginning if no snapshot has expired.
            commit_columns: `binlog` only: as in `changes`; an update has those of its +U.

        Raises:
            InvalidQuery: there is no such system table, or an argument does not apply to it.
            SnapshotNotFound: the snapshot is not retained.

        Example:
            >>> orders.system_table("files", snapshot=3)
            >>> orders.system_table("binlog").to_polars()
        """
        return system_table(name, Asked(self.meta, self.runtime, Moment(snapshot, timestamp, tag), start, commit_columns))

    def states(self) -> dict[Bucket, BucketState]:
        """The buckets of the latest snapshot: live files and deletion vectors."""
        return self.version.states()
