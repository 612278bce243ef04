"""The views of a warehouse: one file for each, in the folder of its database."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.format.paths import split_name, view_file, view_name, views_dir
from lsmlake.format.view import View
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.databases import Databases


@dataclass(frozen=True)
class Views:
    """The views in a storage, by their names `database.view`."""

    storage: Storage

    def names(self, database: str) -> list[str]:
        """The names of the views of a database, ascending."""
        names = (view_name(entry.path, database) for entry in self.storage.list(views_dir(database)))
        return sorted(name for name in names if name is not None)

    def get(self, name: str) -> View | None:
        """A view; None if no view has that name. Raises Corrupt, UnsupportedFormat."""
        path = view_file(*split_name(name))
        try:
            return View.decode(read_bytes(self.storage, path), path)
        except FileNotFoundError:
            return None

    def is_there(self, name: str) -> bool:
        """Whether a view of this name exists."""
        return self.storage.size(view_file(*split_name(name))) is not None

    def put(self, name: str, view: View, *, replaces: bool) -> bool:
        """Stores a view; returns False if a view of this name exists and must not be replaced. Raises TableNotFound if the
        database is missing."""
        database, own = split_name(name)
        Databases(self.storage).need(database)
        if not replaces:
            return self.storage.put_if_absent(view_file(database, own), view.encode())
        with self.storage.write(view_file(database, own)) as sink:
            sink.write(view.encode())
        return True

    def drop(self, name: str) -> bool:
        """Drops a view; returns False if it does not exist."""
        existed = self.is_there(name)
        self.storage.delete(view_file(*split_name(name)))
        return existed
