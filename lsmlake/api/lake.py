"""`Lake`: a warehouse with its databases and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import PurePath

import pyarrow as pa

from lsmlake.api.inputs import Input, as_input
from lsmlake.api.result import Result
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.api.types import Data, OptionValue, RowKinds, SparkDataFrame, SparkSession, TableSchema
from lsmlake.border import public
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, TableExists, TableNotFound, Wording
from lsmlake.format.paths import (
    TablePaths,
    check_database,
    database_dir,
    database_mark,
    first_schema,
    is_name,
    is_of_a_table,
    split_branch,
    split_name,
)
from lsmlake.format.snapshot import Snapshot
from lsmlake.interop.imports.delta import read_delta
from lsmlake.interop.imports.foreign import ForeignTable, repartitioned
from lsmlake.interop.imports.iceberg import read_iceberg
from lsmlake.interop.imports.parquet import read_parquet
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.maintain.adopt import ImportReport, adopt
from lsmlake.maintain.catalog_entry import CatalogEntry, publish_moved
from lsmlake.notebook import html_rows
from lsmlake.schema import rowkind
from lsmlake.schema.from_data import schema_from
from lsmlake.schema.schema import Schema
from lsmlake.store.env import Env
from lsmlake.store.kept import Kept
from lsmlake.store.location import storage_at
from lsmlake.store.metadata import Metadata
from lsmlake.store.outside import Outside
from lsmlake.write.append import check_keyed

_REQUESTS_AT_ONCE = 8
_TAKEN = Wording("choose another name or pass if_not_exists=True", command="choose another name, or omit --create")
_NOT_EMPTY = Wording("drop its tables or pass cascade=True", command="drop its tables first")
_NO_TABLE = Wording(
    "create_table creates it; tables() lists the tables",
    command="`lsmlake ls` lists the tables; `lsmlake load TABLE FILES --create` creates one from files",
)


def _no_database(name: str) -> Wording:
    by_loading = "`lsmlake load TABLE FILES --create` creates one with its first table"
    return Wording(f"create_database({name!r}) creates it", command=f"`lsmlake ls` lists the databases; {by_loading}")


def table_at(path: str, env: Env | None = None) -> Table:
    """The table in folder `<warehouse>/<database>.db/<table>` of a store, without a runtime. `env`: that of the warehouse, for a
    store that its address alone does not reach. Raises TableNotFound, InvalidQuery."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    env or storage_at(path)  # refuses what is neither a path nor an address
    home, _, name = path.rstrip("/").rpartition("/")
    warehouse, folder = home[: home.rfind("/") + 1], home.rpartition("/")[2]
    database, dot, suffix = folder.rpartition(".")
    if (dot, suffix) != (".", "db"):
        raise InvalidQuery(
            "not the folder of a table", where=path, expected="<warehouse>/<database>.db/<table>", cure="correct the path"
        )
    return Lake(env or Env(storage_at(warehouse or ".")), Runtime()).table(f"{database}.{name}")


@public
@dataclass(frozen=True)
class Lake:
    """The databases and tables of one warehouse: `lsmlake.connect`."""

    env: Env
    runtime: Runtime
    kept: Kept = field(default_factory=Kept, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<lsmlake lake in {self.env.storage}>"

    def _repr_html_(self) -> str:
        """The names of the databases and of their tables."""
        rows = ((database, ", ".join(self.tables(database))) for database in self.databases())
        return html_rows(f"Lake in {self.env.storage}", ("database", "tables"), rows)

    # -- databases ----------------------------------------------------------------------------------------------------

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database.

        Args:
            name: letters, digits, '_' and '-'.
            if_not_exists: do nothing if the database exists. Default: raise TableExists.

        Raises:
            TableExists: the database exists.
            InvalidQuery: the name is not valid.
        """
        if not self.env.storage.put_if_absent(database_mark(check_database(name)), b"{}") and not if_not_exists:
            raise TableExists(f"database {name!r} exists", cure=_TAKEN)

    def databases(self) -> list[str]:
        """The names of the databases, ascending."""
        names = [folder.removesuffix(".db") for folder in self.env.storage.folders("") if folder.endswith(".db")]
        return [name for name in names if is_name(name) and self._has(name)]

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Remove a database.

        Args:
            name: the name of the database.
            cascade: remove its tables, too.

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: the database has tables and `cascade` is False.
        """
        tables = self.tables(name)
        if tables and not cascade:
            raise InvalidQuery(f"database {name!r} is not empty", found=tables, cure=_NOT_EMPTY)
        for table in tables:
            self.drop_table(f"{name}.{table}")
        for folder in self.env.storage.folders(database_dir(name)):
            self._clear(f"{database_dir(name)}/{folder}")
        self.env.storage.delete(database_mark(name))

    def _has(self, database: str) -> bool:
        return self.env.storage.size(database_mark(database)) is not None

    def _need(self, database: str) -> None:
        if not self._has(check_database(database)):
            near = get_close_matches(database, self.databases(), n=1)
            cure = f"did you mean {near[0]!r}?" if near else _no_database(database)
            known = ", ".join(self.databases())
            raise TableNotFound(f"there is no database {database!r}", expected=f"one of {known}" if known else "", cure=cure)

    # -- SQL ----------------------------------------------------------------------------------------------------------

    def sql(
        self,
        text: str,
        args: Mapping[str, object] | Sequence[object] | None = None,
        *,
        tables: Mapping[str, Data] | None = None,
    ) -> Result | SparkDataFrame:
        """Execute a statement of Spark SQL. Each table is read at one snapshot, and each changed table gets one commit.

        Args:
            text: a query with tables as database.table, a change of rows or of tables, or CALL of a procedure. What is not
                supported is refused before anything happens, with its place in the text.
            args: values of the parameters: {"id": 7} for `:id`, or a list for `?`. They are values, never parts of the text.
            tables: further data by name, such as a pyarrow.Table, for names without a database.

        Returns:
            Without Spark a Result; with Spark attached a DataFrame for a query.

        Raises:
            InvalidQuery: the statement is not valid, or fails on a value.
            TableNotFound: a table does not exist.
            MissingDependency: DuckDB is not installed, which executes queries without Spark.

        Example:
            >>> lake.sql("SELECT * FROM sales.orders WHERE order_id = :id", args={"id": 7}).fetchall()
        """
        return self.runtime.sql(self, text, args, dict(tables or {}))

    # -- names in Spark -----------------------------------------------------------------------------------------------

    def register_tables(self, spark: SparkSession, database: str | None = None) -> list[str]:
        """Put tables into Spark's catalog: spark.table("sales.orders"), INSERT INTO and INSERT OVERWRITE of Spark SQL.

        A query reads the latest snapshot. The columns are those of now: call it again after an alteration. `sql` and `Table.df`
        read faster, and Spark refuses DELETE, UPDATE, MERGE and VERSION AS OF on these names. Dropping one of them in Spark
        leaves the table.

        Args:
            spark: a SparkSession, classic or Connect.
            database: the tables of this database. None: all tables.

        Returns:
            The names, as "database.table".

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: Spark has another table of this name, or cannot take it.
            MissingDependency: PySpark is not installed.

        Example:
            >>> lake.register_tables(spark, "sales")
            >>> spark.sql("INSERT INTO sales.orders SELECT * FROM new_orders")
        """
        runtime = self.runtime.attached(spark)
        return runtime.register_tables(self, database)

    def register_views(self, spark: SparkSession, database: str | None = None) -> list[str]:
        """Make a temporary view of each table in a Spark session, named as the table. A query of it reads the latest snapshot.

        Also puts the tables into Spark's catalog, as `register_tables`, because the views name them.

        Args:
            spark: a SparkSession, classic or Connect.
            database: the tables of this database. None: all tables, whose names must differ.

        Returns:
            The names of the views.

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: two tables have one name; or as `register_tables`.
            MissingDependency: PySpark is not installed.

        Example:
            >>> lake.register_views(spark, database="sales")
            >>> spark.sql("SELECT count(*) FROM orders")
        """
        runtime = self.runtime.attached(spark)
        return runtime.register_views(self, database)

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self, database: str | None = None) -> list[str]:
        """The names of tables, ascending.

        Args:
            database: list the tables of this database by their own names. None: list the tables of all databases as
                "database.table".

        Raises:
            TableNotFound: the database does not exist.
        """
        if database is None:
            return [f"{home}.{name}" for home in self.databases() for name in self._tables(home)]
        self._need(database)
        return self._tables(database)

    def _tables(self, database: str) -> list[str]:
        folder = database_dir(database)
        return [name for name in self.env.storage.folders(folder) if is_name(name) and self._is_table(f"{folder}/{name}")]

    def _is_table(self, root: str) -> bool:
        return self.env.storage.size(first_schema(root)) is not None

    def create_table(
        self,
        name: str,
        schema: TableSchema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        if_not_exists: bool = False,
        comment: str | None = None,
    ) -> Table:
        """Create a table without rows.

        Args:
            name: "database.table".
            schema: the columns: a pyarrow.Schema, DDL text or, with Spark attached, a StructType.
            primary_key: the key columns. They become NOT NULL, except partition columns.
            partition_by: columns, or transforms of them: "days(ts)", "bucket(16, id)", "truncate(4, code)", also years, months
                and hours. The columns must be part of the primary key, if there is one.
            options: table options by name, such as {"bucket": 4}; names and values are those of Apache Paimon.
            if_not_exists: open the table if it exists; its schema is not compared. Default: raise TableExists.
            comment: a description of the table.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidSchema: no table can have these columns or this key.
            InvalidOption: an option is unknown, or its value does not fit.

        Example:
            >>> lake.create_table("sales.orders", "order_id BIGINT NOT NULL, amount DOUBLE", primary_key=["order_id"])
        """
        database, table = split_name(name)
        self._need(database)
        root = f"{database_dir(database)}/{table}"
        columns, clock, table_uuid = self._columns(schema), self.env.clock(), self.env.ids()
        created = Schema.create(columns, primary_key, partition_by, dict(options or {}), comment, clock, table_uuid, name)
        rule_of(created, name)  # refuses functions that do not fit their columns
        self._clear(root)
        if not Metadata.of(self.env, TablePaths(root, table_uuid)).schemas.put(created) and not if_not_exists:
            raise TableExists(f"table {name!r} exists", cure=_TAKEN)
        return self.table(name)

    def create_table_from(
        self,
        name: str,
        data: Data,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        cast: bool = False,
        row_kind: RowKinds | None = None,
    ) -> Table:
        """Create a table with the columns of `data` and load its rows as one commit.

        Key columns become NOT NULL; all other columns are nullable. Nanoseconds become microseconds if the conversion is
        lossless, dictionaries become their values, unsigned integers the next wider signed type. If `data` is several files, the
        first file determines the types. The first rows of a CSV file determine its types: numbers that begin with a zero and
        times of day become STRING, integers beyond 64 bits DECIMAL(38,0). A key column of CSV or JSON files whose values look
        like DOUBLE is refused, because rounding could make two keys equal. The table exists before its rows are committed: an
        error drops it again; a process that is killed leaves it empty.

        Args:
            name: "database.table".
            data: as in `Table.upsert`.
            primary_key: as in `create_table`.
            partition_by: as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`.
            cast: as in `Table.upsert`.
            row_kind: as in `Table.upsert`. The table gets no column for the row kinds.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidSchema: no table can have these columns or this key.
            InvalidOption: an option is unknown, or its value does not fit.
            InvalidData: a row does not fit the table.

        Example:
            >>> orders = lake.create_table_from("sales.orders", "orders.csv", primary_key=["order_id"])
        """
        table, _ = created_from(
            self,
            name,
            data,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            comment=comment,
            cast=cast,
            row_kind=row_kind,
        )
        return table

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
    ) -> ImportReport:
        """Make a table of an Iceberg table, whose data files stay as they are.

        The table gets its own names of the files: hard links in a local file system, copies that the store makes in an object
        store. So both tables may be written to and expire their files. Deletes of Iceberg become deletion vectors. Files that not
        every reader of lsmlake can read as they are, such as those with times in INT96, are written anew. A process that is
        killed leaves no table.

        With a primary key, the keys of all rows are read: none may be null or occur twice. With `bucket = 1`, the default, files
        stay as they are, too: their rows are not in the order of the key, so `compact` sorts them, in one go per partition. Until
        then writers mark the rows that they supersede. With more buckets all rows are written anew.

        Args:
            metadata: the path or address of a *.metadata.json file or of the folder of a table; or catalog.namespace.table, which
                PyIceberg finds by its configuration.
            name: "database.table".
            primary_key: the key columns, among them the partition columns. Empty: an append-only table.
            snapshot: the id of a snapshot of Iceberg. None: the current one.
            partition_by: None: as there; []: a table without partitions. Others, as in `create_table`: all files are written
                anew.
            options: as in `create_table`.
            comment: as in `create_table`. None: as there.
            storage_options: settings of the object store with the Iceberg table, as in `connect`.

        Returns:
            What was done. The table has one snapshot.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidQuery: there is no Iceberg table.
            SnapshotNotFound: it has no such snapshot.
            InvalidSchema: it has a column or a partition field that no table of lsmlake can have, or not with this key.
            InvalidData: it has files that are not read, such as ORC files; or rows without a key, or several of one key.
            Corrupt: a file is damaged or missing.
            MissingDependency: fastavro is not installed.

        Example:
            >>> lake.import_iceberg("s3://lake/warehouse/sales/orders", "sales.orders", ["order_id"])
        """
        outside, workers = Outside(dict(storage_options or {})), self._requests_at_once

        def read() -> ForeignTable:
            return read_iceberg(outside, str(metadata), snapshot, partitioned=partition_by is None, workers=workers)

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
            partition_by: None: as there; []: a table without partitions; others as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`. None: as there.
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
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        link: bool = False,
        storage_options: Mapping[str, object] | None = None,
    ) -> ImportReport:
        """Make a table of Parquet files, which stay as they are where that is sound.

        The table has the columns of all files, by name; a column that some files lack is null there. Files are copied without
        being decoded. Files that not every reader of lsmlake can read as they are are written anew. A process that is killed
        leaves no table. With a primary key, files stay as they are or not as in `import_iceberg`.

        Args:
            files: a path, a glob or a folder, or the address of one in an object store. Folders such as `dt=2026-01-01` are
                partitions, as Hive writes them.
            name: "database.table".
            primary_key: as in `create_table`.
            partition_by: None: by the columns that folders name; else as in `create_table`.
            options: as in `create_table`.
            comment: as in `create_table`.
            link: the files never change in place, so hard links of them are enough in a local file system.
            storage_options: settings of the object store with the files, as in `connect`.

        Returns:
            What was done. The table has one snapshot.

        Raises:
            TableExists: the table exists.
            TableNotFound: the database does not exist.
            InvalidSchema: the columns of the files do not fit together, or no table can have them.
            InvalidData: there are no such files, a value does not fit the table, or two rows have one key.
            Corrupt: a file is damaged.

        Example:
            >>> lake.import_parquet("exports/orders", "sales.orders")
        """
        outside = Outside(dict(storage_options or {}))

        def read() -> ForeignTable:
            return read_parquet(outside, str(files), partitioned=partition_by is None, workers=self._requests_at_once)

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
        root, found = self._root_of_new(name), read()
        if partition_by:
            found = repartitioned(found, partition_by, name)
        return adopt(self.env, root, name, outside, found, dict(options or {}), comment, primary_key, link=link)

    def _root_of_new(self, name: str) -> str:
        """The folder of a table that is to be made. Raises TableNotFound without its database, TableExists, InvalidQuery."""
        database, table = split_name(name)
        self._need(database)
        root = f"{database_dir(database)}/{table}"
        if self._is_table(root):
            raise TableExists(f"table {name!r} exists", cure="choose another name, or drop that table first")
        return root

    def _columns(self, schema: TableSchema) -> pa.Schema:
        if isinstance(schema, str):
            from lsmlake.schema import ddl  # loads sqlglot

            return ddl.parse_columns(schema)
        columns = schema if isinstance(schema, pa.Schema) else self.runtime.columns_of(schema)
        if columns is None:
            raise InvalidSchema(
                "not a schema",
                expected="a pyarrow.Schema, DDL text or, with Spark attached, a StructType",
                found=type(schema).__name__,
                cure='e.g. "id BIGINT NOT NULL, name STRING"',
            )
        return columns

    def table(self, name: str) -> Table:
        """Open a table.

        Args:
            name: "database.table"; or "database.table$branch_NAME", a branch of it.

        Raises:
            TableNotFound: the table, its database or the branch does not exist.
        """
        whole, branch = split_branch(name)
        if branch is not None:
            return self.table(whole).branch(branch)
        database, table = split_name(name)
        root = f"{database_dir(database)}/{table}"
        _, meta = self.env.side_by_side([partial(self._need, database), partial(Metadata.opened, self.env, root)])
        if meta is None:
            near = get_close_matches(table, self.tables(database), n=1)
            cure = f"did you mean {database}.{near[0]}?" if near else _NO_TABLE
            raise TableNotFound(f"there is no table {name!r}", expected=f"a schema file in {root}/schema", cure=cure)
        return Table(name, meta, self.runtime)

    def drop_table(self, name: str) -> None:
        """Remove a table and all its files. A commit that is not yet published fails with TableNotFound.

        Symbolic links in the folder of the table are removed; their targets are not touched. The table leaves the catalog of
        Iceberg that the option `metadata.iceberg.catalog` names. If that fails, it is logged.

        Raises:
            TableNotFound: the table does not exist.
        """
        meta = self._main(name)
        root, entry = meta.paths.root, CatalogEntry.of(meta)
        self.env.storage.delete(first_schema(root))  # from here on the table does not exist, even if files remain
        if entry is not None:
            entry.remove()
        self._clear(root, foreign=True)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table, within its database or into another one. The change is atomic and copies no file.

        Handles with the old name, and commits that are not yet published, fail with TableNotFound. A table with Iceberg metadata
        is published again, also in the catalog that the option `metadata.iceberg.catalog` names: under the new name, unless
        `metadata.iceberg.table` gives it another one there. If that fails, it is logged.

        Args:
            name: "database.table".
            new_name: "database.table"; the database must exist.

        Returns:
            The table under its new name.

        Raises:
            TableNotFound: the table or the new database does not exist.
            TableExists: a table has the new name.
            InvalidQuery: there are other files in the folder of the new name, or the warehouse is in an object store, which
                cannot rename.
        """
        meta = self._main(name)
        root = meta.paths.root
        database, table = split_name(new_name)
        self._need(database)
        new_root = f"{database_dir(database)}/{table}"
        entry = CatalogEntry.of(meta)
        if not self.env.storage.move(root, new_root):
            self.table(name)  # raises TableNotFound if another process has dropped or renamed it
            if self._is_table(new_root):
                raise TableExists(f"table {new_name!r} exists", cure="choose another name, or drop that table first")
            # They may belong to a writer of this table, which had the new name before.
            raise InvalidQuery(
                f"the folder of {new_name!r} is not empty",
                where=new_root,
                found=next((entry.path for entry in self.env.storage.list(new_root)), "directories or links"),
                cure="choose another name; if no writer works there, remove the folder",
            )
        if entry is not None:
            entry.remove()
        renamed = self.table(new_name)
        publish_moved(renamed.meta)
        return renamed

    def _main(self, name: str) -> Metadata:
        """The table of a name that is no branch."""
        split_name(name)
        return self.table(name).meta

    def _clear(self, root: str, *, foreign: bool = False) -> None:
        """Remove the remains of a dropped table from its folder: files of a drop that did not finish, or of a writer that was
        still running. `foreign`: also remove files whose names no table uses.

        Files of a table that is created at the same time stay, because their names are unique; schema 0, the only fixed name, is
        never removed.
        """
        if self._is_table(root):
            return
        found = [entry.path for entry in self.env.storage.list(root) if entry.path != first_schema(root)]
        if self._is_table(root):
            return
        remains = [path for path in found if foreign or is_of_a_table(path, root)]
        for folder in (f"{root}/snapshot/", f"{root}/metadata/v", root):  # first what names other files
            self.env.storage.delete_all(sorted((path for path in remains if path.startswith(folder)), key=_newest_last))
            remains = [path for path in remains if not path.startswith(folder)]
        if found or foreign:
            self.env.storage.prune(root)


def _newest_last(path: str) -> tuple[int, str]:
    """An order of files with numbers in their names."""
    return len(path), path


def created_from(
    lake: Lake,
    name: str,
    data: Data | Input,
    *,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, OptionValue] | None,
    comment: str | None,
    cast: bool,
    row_kind: RowKinds | None,
) -> tuple[Table, Snapshot | None]:
    """`Lake.create_table_from`, with the snapshot of its commit; None for data without rows."""
    columns, rows, text = _with_schema(lake, data, primary_key, rowkind.Source.of(row_kind))
    table = lake.create_table(name, columns, primary_key=primary_key, partition_by=partition_by, options=options, comment=comment)
    try:
        return table, added(table, rows, cast=cast or text, row_kind=row_kind)
    except BaseException:
        if table.meta.snapshots.latest_id() is None:  # no other writer has committed
            lake.drop_table(name)
        raise


def added(table: Table, data: Data | Input, *, cast: bool, row_kind: RowKinds | None) -> Snapshot | None:
    """Appends the rows to a table without a primary key; upserts them otherwise."""
    if not table.current.append_only:
        return table.upsert(data, cast=cast, row_kind=row_kind)
    if row_kind is not None:
        check_keyed(table.current, table.name, "row_kind", "leave row_kind out")
    return table.append(data, cast=cast)


def _with_schema(
    lake: Lake, data: Data | Input, primary_key: Sequence[str], kinds: rowkind.Source | None
) -> tuple[pa.Schema, Data | Iterator[pa.Table], bool]:
    """The columns of a table for `data`, the data to load, and whether it is text, whose values must be converted."""
    if lake.runtime.owns(data):
        return schema_from(_without(lake.runtime.columns_of(data.schema), kinds)), data, False
    given = as_input(data, inferred=True)
    first = next(given.tables, None)
    if first is None or not first.num_columns:
        raise InvalidData(
            "the data has no columns",
            expected="data with the columns of the table",
            cure="create the table with a schema",
        )
    columns = schema_from(_without(first.schema, kinds))
    if given.guessed:
        _check_guessed_key(columns, primary_key)
    return columns, chain([first], given.tables), given.text


def _without(columns: pa.Schema, kinds: rowkind.Source | None) -> pa.Schema:
    return pa.schema([field for field in columns if kinds is None or field.name != kinds.column])


def _check_guessed_key(columns: pa.Schema, primary_key: Sequence[str]) -> None:
    """Raises InvalidSchema for a key column whose texts look like DOUBLE: rounding could make two keys equal."""
    for column in columns:
        if column.name in primary_key and pa.types.is_floating(column.type):
            raise InvalidSchema(
                "the numbers of a key column have fractions or exponents",
                where=f"column {column.name!r}",
                expected="integers or text: the values look like DOUBLE, and rounding could make two keys equal",
                cure=Wording(
                    "create the table with a schema, such as DECIMAL(20,2) or STRING for the column, then upsert the files",
                    command="create the table in a program with a schema, then load without --create",
                ),
            )
