"""The verbs that give a table to others: copies, and metadata of Iceberg."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import PurePath

from lsmlake.api.table_verbs.handle import Handle
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format.paths import split_branch
from lsmlake.iceberg import mirror
from lsmlake.iceberg.catalog import check_name, register
from lsmlake.maintain.copy import CopyReport, copy
from lsmlake.read.travel import Moment
from lsmlake.storage.location import storage_at


@verbs_of("Table")
class Sharing(Handle):
    """The verbs that give a table to others: copies, and metadata of Iceberg."""

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
        entry = main if name is None else name
        check_name(entry)
        published = mirror.publish(self.meta, asked=True)
        if catalog is not None:
            register(published.metadata_file, published.content, catalog, entry)
        return published.metadata_file

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
