"""The verbs of databases and of tables as a whole: to list, create, open, rename and drop them; and the session of a lake handle:
its current database and temporary views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from lsmlake import undo
from lsmlake.api.public_types import OptionValue, TableSchema
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery, InvalidSchema, TableExists, Wording
from lsmlake.format.paths import TablePaths, split_name
from lsmlake.format.view import View
from lsmlake.iceberg.catalog_entry import CatalogEntry, publish_moved
from lsmlake.lsm.merge.rules import check_new
from lsmlake.notebook import html_rows, offered
from lsmlake.read.fallback import refuse_without_table
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.tables.databases import Databases, HandleCache, metadata_of, taken
from lsmlake.tables.version import Metadata
from lsmlake.tables.views import Views


class Session:
    """The current database, and temporary views. Threads can share a session and then see each other's changes. Pickles empty.

    Attributes:
        database: the database of tables that are named without one; None: such names are refused.
        served: whether clients of a server share it: then statements do not change it, and read no files of this machine.
    """

    def __init__(self) -> None:
        self.database: str | None = None
        self.served = False
        self._views: dict[str, View] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Session, ()

    def full_name(self, name: str) -> str:
        """The name of a table, with the current database if the name has none and there is one."""
        return f"{self.database}.{name}" if "." not in name and self.database is not None else name

    # -- temporary views ----------------------------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[str, View]:
        """The temporary views, by name."""
        with self._lock:
            return dict(self._views)

    def view(self, name: str) -> View | None:
        """The temporary view of this name, compared without case; None if it does not exist."""
        with self._lock:
            return next((view for known, view in self._views.items() if known.lower() == name.lower()), None)

    def put_view(self, name: str, view: View, *, replaces: bool) -> bool:
        """Stores a temporary view. Returns False if one of this name exists and `replaces` is False."""
        with self._lock:
            known = next((one for one in self._views if one.lower() == name.lower()), None)
            if known is not None and not replaces:
                return False
            self._views.pop(known, None)
            self._views[name] = view
            return True

    def drop_view(self, name: str) -> bool:
        """Removes a temporary view. Returns False if it does not exist."""
        with self._lock:
            known = next((one for one in self._views if one.lower() == name.lower()), None)
            return self._views.pop(known, None) is not None


_TAKEN = Wording(
    "choose another name or pass if_not_exists=True",
    command="choose another name, or omit --create",
    sql="choose another name, or write IF NOT EXISTS",
)
_ATTACH = 'attach a session, lsmlake.connect("...", spark=spark), or write the columns as text'
_NOT_EMPTY = Wording("drop them or pass cascade=True", command="drop its tables first", sql="drop them, or write CASCADE")


@verbs_of("Lake")
@dataclass(frozen=True)
class CatalogVerbs:
    """The databases and tables of a warehouse, by their names."""

    env: Env
    runtime: Runtime
    kept: HandleCache = field(default_factory=HandleCache, init=False, repr=False, compare=False)
    session: Session = field(default_factory=Session, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<lsmlake lake in {self.env.storage}>"

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def __getitem__(self, name: str) -> Table:
        """The table `name`, as `table`."""
        return self.table(name)

    __iter__ = None  # otherwise Python would ask for the tables 0, 1, ...

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
        if not Databases(self.env.storage).create(name) and not if_not_exists:
            raise TableExists(f"database {name!r} exists", cure=_TAKEN)

    def databases(self) -> list[str]:
        """The names of the databases, ascending."""
        return Databases(self.env.storage).names()

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Remove a database.

        Args:
            name: the name of the database.
            cascade: remove its tables and views, too.

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: the database has tables or views, and `cascade` is False.
        """
        tables = self.tables(name)
        views = Views(self.env.storage).names(name)
        if (tables or views) and not cascade:
            raise InvalidQuery(f"database {name!r} is not empty", found=[*tables, *views], cure=_NOT_EMPTY)
        for table in tables:
            self.drop_table(f"{name}.{table}")
        Databases(self.env.storage).remove(name)

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self, database: str | None = None) -> list[str]:
        """The names of tables, ascending.

        Args:
            database: list the tables of this database by their own names. None: list the tables of all databases as
                "database.table".

        Raises:
            TableNotFound: the database does not exist.
        """
        databases = Databases(self.env.storage)
        if database is None:
            return [f"{home}.{name}" for home in databases.names() for name in databases.tables(home)]
        databases.need(database)
        return databases.tables(database)

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
                and hours. If a primary key lacks one of the columns, a key moves to another partition with its row.
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
        databases = Databases(self.env.storage)
        root = databases.root(name)
        columns, clock, table_uuid = columns_in(self.runtime, schema), self.env.clock(), self.env.ids()
        created = Schema.create(columns, primary_key, partition_by, dict(options or {}), comment, clock, table_uuid, name)
        check_new(created, name)  # refuses functions that do not fit their columns
        refuse_without_table(created, name)
        if Views(self.env.storage).is_there(name):
            raise TableExists(f"a view has the name {name!r}", cure="choose another name, or drop the view")
        databases.clear(root)
        if not Metadata.of(self.env, TablePaths(root, table_uuid)).schemas.begin(created) and not if_not_exists:
            raise TableExists(f"table {name!r} exists", cure=_TAKEN)
        return self.table(name)

    def table(self, name: str) -> Table:
        """Open a table.

        Args:
            name: "database.table"; or "database.table$branch_NAME", a branch of it.

        Raises:
            TableNotFound: the table, its database or the branch does not exist.
        """
        return Table(name, self.kept.of(metadata_of(self.env, name)), self.runtime)

    def drop_table(self, name: str) -> None:
        """Remove a table and all its files. A commit that is not yet published fails with TableNotFound.

        Symbolic links in the folder of the table are removed; their targets are not touched. The table leaves the catalog of
        Iceberg that the option `metadata.iceberg.catalog` names. If that fails, it is logged.

        Raises:
            TableNotFound: the table does not exist.
        """
        meta = self._main(name)
        databases, root, entry = Databases(self.env.storage), meta.paths.root, CatalogEntry.of(meta)

        def clear() -> None:
            databases.clear(root, foreign=True)  # does nothing if the table still exists

        undo.on_failure(clear)
        databases.end_table(root)
        if entry is not None:
            entry.remove()
        clear()
        undo.done(clear)

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
        databases, meta = Databases(self.env.storage), self._main(name)
        new_root = databases.root(new_name)
        entry = CatalogEntry.of(meta)
        if not self.env.storage.move(meta.paths.root, new_root):
            self.table(name)  # raises TableNotFound if another process has dropped or renamed it
            if databases.is_table(new_root):
                raise taken(new_name)
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
        """The metadata of a table, whose name must not be that of a branch."""
        split_name(name)
        return self.table(name).meta


def columns_in(runtime: Runtime, schema: TableSchema, of_spark: str = _ATTACH) -> pa.Schema:
    """The columns that a schema of any accepted kind declares. `of_spark`: the cure for a schema of Spark that the runtime does
    not know. Raises InvalidSchema."""
    if isinstance(schema, str):
        from lsmlake.types import ddl  # loads sqlglot

        return ddl.parse_columns(schema)
    columns = schema if isinstance(schema, pa.Schema) else runtime.columns_of(schema)
    if columns is None:
        is_of_spark = hasattr(schema, "fieldNames")  # a StructType
        raise InvalidSchema(
            "a schema of Spark needs Spark" if is_of_spark else "not a schema",
            expected="a pyarrow.Schema, DDL text or, with Spark attached, a StructType",
            found=type(schema).__name__,
            cure=of_spark if is_of_spark else 'e.g. "id BIGINT NOT NULL, name STRING"',
        )
    return columns
