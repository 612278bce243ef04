"""The databases of a warehouse and the tables in them: folders, and the file whose existence makes each of them exist.

A database exists if its mark exists, a table if its schema 0 exists. `tables.version` reads the content of a table; a lake
caches the metadata of the tables that it opened last, so that the next statement need not read it again.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from threading import Lock

from lsmlake.errors import Corrupt, TableExists, TableNotFound, Wording
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
    table_dir,
    views_dir,
)
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.env import Env
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.version import Metadata
from lsmlake.types.json_shape import RESTORE, TEXT, check, mapping

_KINDS = {"comment": TEXT, "properties": mapping(TEXT)}


@dataclass(frozen=True)
class Databases:
    """The databases in a storage, and the folders of their tables."""

    storage: Storage

    def names(self) -> list[str]:
        """The names of the databases, ascending."""
        names = [folder.removesuffix(".db") for folder in self.storage.folders("") if folder.endswith(".db")]
        return [name for name in names if is_name(name) and self._has(name)]

    def create(self, name: str, facts: Mapping[str, object] | None = None) -> bool:
        """Creates a database; returns False if it exists. Raises InvalidQuery if the name is not valid. `facts`: see `facts`."""
        return self.storage.put_if_absent(database_mark(check_database(name)), json.dumps(facts or {}).encode())

    def facts(self, name: str) -> Mapping[str, object]:
        """The facts stored when a database was created: "comment" and "properties", if any. Raises TableNotFound, Corrupt."""
        self.need(name)
        path = database_mark(name)
        try:
            facts = json.loads(read_bytes(self.storage, path))
        except ValueError as broken:
            raise Corrupt("the file of a database is no JSON", where=path, found=broken, cure=RESTORE) from broken
        check("database", facts, _KINDS, path, may_lack=_KINDS)
        return facts

    def need(self, name: str) -> None:
        """Checks that a database exists. Raises TableNotFound, which names a similar database; InvalidQuery if the name is not
        valid."""
        if not self._has(check_database(name)):
            near = get_close_matches(name, self.names(), n=1)
            cure = f"did you mean {near[0]!r}?" if near else _no_database(name)
            known = ", ".join(self.names())
            raise TableNotFound(f"there is no database {name!r}", expected=f"one of {known}" if known else "", cure=cure)

    def _has(self, name: str) -> bool:
        return self.storage.size(database_mark(name)) is not None

    def remove(self, name: str) -> None:
        """Removes a database without tables, its views, and files that dropped tables have left in its folder."""
        self.storage.delete_all([entry.path for entry in self.storage.list(views_dir(name))])
        for folder in self.storage.folders(database_dir(name)):
            self.clear(f"{database_dir(name)}/{folder}")
        self.storage.delete(database_mark(name))

    # -- tables -------------------------------------------------------------------------------------------------------

    def tables(self, database: str) -> list[str]:
        """The names of the tables of a database, ascending."""
        folder = database_dir(database)
        return [name for name in self.storage.folders(folder) if is_name(name) and self.is_table(f"{folder}/{name}")]

    def is_table(self, root: str) -> bool:
        """Whether there is a table in the folder `root`."""
        return self.storage.size(first_schema(root)) is not None

    def root(self, name: str) -> str:
        """The folder of a table `database.table`, whether or not there is one. Raises TableNotFound without its database,
        InvalidQuery."""
        database, _ = split_name(name)
        self.need(database)
        return table_dir(name)

    def root_of_new(self, name: str) -> str:
        """The folder of a table that is to be created. Raises TableExists, TableNotFound without its database, InvalidQuery."""
        root = self.root(name)
        if self.is_table(root):
            raise taken(name)
        return root

    def end_table(self, root: str) -> None:
        """Ends the existence of a table. Its files remain until `clear` removes them."""
        self.storage.delete(first_schema(root))

    def clear(self, root: str, *, foreign: bool = False) -> None:
        """Removes the remains of a dropped table from its folder: files of a drop that did not finish, or of a writer that was
        still running. `foreign`: also removes files whose names no table uses.

        Files of a table that is created at the same time stay, because their names are unique; schema 0, the only fixed name, is
        never removed.
        """
        if self.is_table(root):
            return
        paths = [entry.path for entry in self.storage.list(root) if entry.path != first_schema(root)]
        if self.is_table(root):
            return
        remains = [path for path in paths if foreign or is_of_a_table(path, root)]
        for folder in (f"{root}/snapshot/", f"{root}/metadata/v", root):  # first the files that name other files
            self.storage.delete_all(sorted((path for path in remains if path.startswith(folder)), key=_newest_last))
            remains = [path for path in remains if not path.startswith(folder)]
        if paths or foreign:
            self.storage.prune(root)


def taken(name: str) -> TableExists:
    """The error for a new table whose name an existing table has."""
    return TableExists(f"table {name!r} exists", cure="choose another name, or drop that table first")


def _newest_last(path: str) -> tuple[int, str]:
    """A sort key for file names that contain numbers."""
    return len(path), path


def _no_database(name: str) -> Wording:
    by_loading = "`lsmlake load TABLE FILES --create` creates one with its first table"
    return Wording(
        f"create_database({name!r}) creates it",
        command=f"`lsmlake ls` lists the databases; {by_loading}",
        sql="CREATE DATABASE creates it",
    )


# -- tables by their names --------------------------------------------------------------------------------------------


_NO_TABLE = Wording(
    "create_table creates it; tables() lists the tables",
    command="`lsmlake ls` lists the tables; `lsmlake load TABLE FILES --create` creates one from files",
    sql="CREATE TABLE creates it; SHOW TABLES lists the tables",
)


def metadata_of(env: Env, name: str) -> Metadata:
    """The metadata of a table, "database.table", or of a branch of it, "database.table$branch_NAME". Raises TableNotFound."""
    whole, branch = split_branch(name)
    database, table = split_name(whole)
    databases, root = Databases(env.storage), table_dir(whole)
    _, meta = side_by_side([partial(databases.need, database), partial(Metadata.opened, env, root)], env.storage.at_once)
    if meta is None:
        near = get_close_matches(table, databases.tables(database), n=1)
        cure = f"did you mean {database}.{near[0]}?" if near else _NO_TABLE
        raise TableNotFound(f"there is no table {whole!r}", expected=f"a schema file in {root}/schema", cure=cure)
    return meta if branch is None else meta.on(meta.branches.place(branch))


# -- tables that were opened ------------------------------------------------------------------------------------------


_TABLES_MAX = 16


class HandleCache:
    """The metadata of the tables opened last, by the uuid of the table, so a table that was dropped and created again starts
    anew. Threads can share the cache. It pickles empty."""

    def __init__(self) -> None:
        self._found: OrderedDict[TablePaths, Metadata] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return HandleCache, ()

    def of(self, meta: Metadata) -> Metadata:
        """Returns the kept metadata of the same table. If there is none, keeps `meta` and returns it."""
        with self._lock:
            kept = self._found.setdefault(meta.paths, meta)
            self._found.move_to_end(meta.paths)
            while len(self._found) > _TABLES_MAX:
                self._found.popitem(last=False)
        return kept
