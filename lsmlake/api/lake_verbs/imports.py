"""The verbs that make a table of a table or of files of another format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import OptionValue
from lsmlake.border import verbs_of
from lsmlake.imports.adopt import ImportReport, adopt
from lsmlake.imports.delta import read_delta
from lsmlake.imports.foreign import ForeignTable, repartitioned
from lsmlake.imports.from_iceberg import read_iceberg
from lsmlake.imports.parquet import read_parquet
from lsmlake.storage.location import Outside
from lsmlake.tables.databases import Databases

_REQUESTS_AT_ONCE = 8


@verbs_of("Lake")
class Imports(CatalogVerbs):
    """The verbs that make a table of a table or of files of another format."""

    def import_iceberg(
        self,
        metadata: str | PurePath,
        name: str,
        primary_key: Sequence[str] = (),
        *,
        snapshot: int | None = None,
        partition_by: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        storage_options: Mapping[str, object] | None = None,
        newest: bool = False,
    ) -> ImportReport:
        """Make a table of an Iceberg table, whose data files stay as they are.

        The table gets its own names of the files: hard links in a local file system, copies that the store makes in an object
        store. So both tables may be written to and expire their files. Deletes of Iceberg become deletion vectors. Files in a
        form that some reader of tables misreads, such as times in INT96, are written anew. A process that is killed leaves no
        table.

        With a primary key, the keys of all rows are read: none may be null or occur twice. With `bucket = 1`, the default, files
        stay as they are, too: their rows are not in the order of the key, so `compact` sorts them, in one go per partition. Until
        then writers mark the rows that they supersede. With more buckets all rows are written anew.

        Args:
            metadata: the path or address of a *.metadata.json file; or catalog.namespace.table, which PyIceberg finds by its
                configuration; or the folder of a table that has no catalog and therefore a `version-hint.text`.
            name: "database.table".
            primary_key: the key columns. Empty: an append-only table.
            snapshot: the id of a snapshot of Iceberg. None: the current one.
            partition_by: None: the fields of the Iceberg table; []: no partitions. Other fields, as in `create_table`: all
                files are written anew.
            options: as in `create_table`.
            comment: as in `create_table`. None: the comment of the Iceberg table.
            storage_options: settings of the object store with the Iceberg table, as in `connect`.
            newest: of a folder, take the newest metadata file, whether a catalog has it or not. The writer may have died before
                its commit, so the table may get rows that the catalog does not have.

        Returns:
            What was done. The table has one snapshot.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidQuery: there is no Iceberg table, or its folder does not tell which file is its metadata.
            SnapshotNotFound: it has no such snapshot.
            InvalidSchema: it has a column or a partition field that no table of lsmlake can have, or not with this key.
            InvalidData: it has files that are not read, such as ORC files; or rows without a key, or several of one key.
            Corrupt: a file is damaged or missing.
            StorageFailed: a file cannot be read, or a catalog refused or did not answer.
            MissingDependency: fastavro is not installed, or PyIceberg for a table in a catalog.

        Example:
            >>> lake.import_iceberg("prod.sales.orders", "sales.orders", ["order_id"])
        """
        outside, partitioned = Outside(dict(storage_options or {})), partition_by is None

        def read() -> ForeignTable:
            workers = self._requests_at_once
            return read_iceberg(outside, str(metadata), snapshot, newest=newest, partitioned=partitioned, workers=workers)

        return self._imported(name, outside, read, primary_key, partition_by, options, comment)

    def import_delta(
        self,
        table: str | PurePath,
        name: str,
        primary_key: Sequence[str] = (),
        *,
        version: int | None = None,
        partition_by: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> ImportReport:
        """Make a table of a Delta table, whose data files stay as they are where that is sound.

        The table gets its own names of the files, as in `import_iceberg`, and deletion vectors stay vectors. Delta's files do not
        have the partition columns, so all files of a table with partitions are written anew, and so are files with times in
        INT96. A process that is killed leaves no table.

        Args:
            table: the path or address of the folder of a Delta table.
            name: "database.table".
            primary_key: as in `import_iceberg`.
            version: the number of a version of the Delta table. None: the newest.
            partition_by: None: the columns of the Delta table; []: no partitions; other fields as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`. None: the comment of the Delta table.
            storage_options: settings of the object store with the Delta table, as in `connect`.

        Returns:
            What was done. The table has one snapshot.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidQuery: there is no Delta table.
            SnapshotNotFound: it has no such version.
            InvalidSchema: it has a column that no table of lsmlake can have, or not with this key.
            InvalidData: rows without a key, or several of one key.
            UnsupportedFormat: it has a feature that is not read.
            Corrupt: a file is damaged or missing.
            MissingDependency: deltalake is not installed.

        Example:
            >>> lake.import_delta("s3://lake/delta/orders", "sales.orders", version=7)
        """
        outside = Outside(dict(storage_options or {}))

        def read() -> ForeignTable:
            return read_delta(outside, str(table), version, partitioned=partition_by is None)

        return self._imported(name, outside, read, primary_key, partition_by, options, comment)

    def import_parquet(
        self,
        files: str | PurePath,
        name: str,
        primary_key: Sequence[str] = (),
        *,
        partition_by: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        link: bool = False,
        storage_options: Mapping[str, object] | None = None,
    ) -> ImportReport:
        """Make a table of Parquet files, which stay as they are where that is sound.

        The table has the columns of all files, by name; a column that some files lack is null there. Files are copied without
        being decoded. Files in a form that some reader of tables misreads, and those without a column that only folders name,
        are written anew. With a primary key see `import_iceberg`. A process that is killed leaves no table.

        Args:
            files: a path, a glob or a folder, or the address of one in an object store. Folders such as `dt=2026-01-01` are
                partitions, as Hive writes them.
            name: "database.table".
            primary_key: the key columns. Empty: an append-only table.
            partition_by: None: by the columns that folders name; []: a table without partitions; others as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`.
            link: the files never change in place, so hard links of them are enough in a local file system.
            storage_options: settings of the object store with the files, as in `connect`.

        Returns:
            What was done. The table has one snapshot.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidSchema: the columns of the files do not fit together, or no table can have them, or not with this key.
            InvalidData: there are no such files, a value does not fit the table, or two rows have one key.
            Corrupt: a file is damaged.

        Example:
            >>> lake.import_parquet("exports/orders", "sales.orders")
        """
        outside = Outside(dict(storage_options or {}))

        def read() -> ForeignTable:
            workers = self._requests_at_once
            return read_parquet(outside, str(files), primary_key, partitioned=partition_by is None, workers=workers)

        return self._imported(name, outside, read, primary_key, partition_by, options, comment, link=link)

    @property
    def _requests_at_once(self) -> int:
        return max(self.env.workers, _REQUESTS_AT_ONCE)

    def _imported(
        self,
        name: str,
        outside: Outside,
        read: Callable[[], ForeignTable],
        primary_key: Sequence[str],
        partition_by: Sequence[str] | None,
        options: Mapping[str, OptionValue] | None,
        comment: str | None,
        *,
        link: bool = True,
    ) -> ImportReport:
        root, examined = Databases(self.env.storage).root_of_new(name), read()
        for file in examined.files[:1]:
            outside.place(file.uri)
        outside.check_options(examined.where)
        if partition_by:
            examined = repartitioned(examined, partition_by, name)
        return adopt(self.env, root, name, outside, examined, dict(options or {}), comment, primary_key, link=link)
