"""The databases of a warehouse and the tables in them: folders, and the file of each whose existence is its own.

A database exists by its mark, a table by its schema 0. What a table holds is in `tables.metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from lsmlake.errors import Corrupt, TableExists, TableNotFound, Wording
from lsmlake.format.paths import (
    check_database,
    database_dir,
    database_mark,
    first_schema,
    is_name,
    is_of_a_table,
    split_name,
    table_dir,
    views_dir,
)
from lsmlake.storage.storage import Storage, read_bytes
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
        """Returns False if the database exists. Raises InvalidQuery if the name is not valid. `facts`: see `facts`."""
        return self.storage.put_if_absent(database_mark(check_database(name)), json.dumps(facts or {}).encode())

    def facts(self, name: str) -> Mapping[str, object]:
        """What its maker noted of a database: "comment" and "properties", if any. Raises TableNotFound, Corrupt."""
        self.need(name)
        path = database_mark(name)
        try:
            found = json.loads(read_bytes(self.storage, path))
        except ValueError as broken:
            raise Corrupt("the file of a database is no JSON", where=path, found=broken, cure=RESTORE) from broken
        check("database", found, _KINDS, path, may_lack=_KINDS)
        return found

    def need(self, name: str) -> None:
        """Raises TableNotFound, which names a similar database; InvalidQuery if the name is not valid."""
        if not self._has(check_database(name)):
            near = get_close_matches(name, self.names(), n=1)
            cure = f"did you mean {near[0]!r}?" if near else _no_database(name)
            known = ", ".join(self.names())
            raise TableNotFound(f"there is no database {name!r}", expected=f"one of {known}" if known else "", cure=cure)

    def _has(self, name: str) -> bool:
        return self.storage.size(database_mark(name)) is not None

    def remove(self, name: str) -> None:
        """Removes a database without tables, its views, and what tables have left in its folder."""
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
        """The folder of a table that is to be made. Raises TableExists, TableNotFound without its database, InvalidQuery."""
        root = self.root(name)
        if self.is_table(root):
            raise taken(name)
        return root

    def end_table(self, root: str) -> None:
        """From here on the table does not exist, even if files remain: `clear` removes them."""
        self.storage.delete(first_schema(root))

    def clear(self, root: str, *, foreign: bool = False) -> None:
        """Removes the remains of a dropped table from its folder: files of a drop that did not finish, or of a writer that was
        still running. `foreign`: also removes files whose names no table uses.

        Files of a table that is created at the same time stay, because their names are unique; schema 0, the only fixed name, is
        never removed.
        """
        if self.is_table(root):
            return
        found = [entry.path for entry in self.storage.list(root) if entry.path != first_schema(root)]
        if self.is_table(root):
            return
        remains = [path for path in found if foreign or is_of_a_table(path, root)]
        for folder in (f"{root}/snapshot/", f"{root}/metadata/v", root):  # first what names other files
            self.storage.delete_all(sorted((path for path in remains if path.startswith(folder)), key=_newest_last))
            remains = [path for path in remains if not path.startswith(folder)]
        if found or foreign:
            self.storage.prune(root)


def taken(name: str) -> TableExists:
    """The error that a table has the name of a new one."""
    return TableExists(f"table {name!r} exists", cure="choose another name, or drop that table first")


def _newest_last(path: str) -> tuple[int, str]:
    """An order of files with numbers in their names."""
    return len(path), path


def _no_database(name: str) -> Wording:
    by_loading = "`lsmlake load TABLE FILES --create` creates one with its first table"
    return Wording(
        f"create_database({name!r}) creates it",
        command=f"`lsmlake ls` lists the databases; {by_loading}",
        sql="CREATE DATABASE creates it",
    )
