"""What a lake handle remembers from one statement to the next: the current database, and temporary views. Pickles empty."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from lsmlake.format.view import View


class Session:
    """Threads can share it; each then sees what the others set.

    Attributes:
        database: where tables are that are named without a database; None: nowhere.
    """

    def __init__(self) -> None:
        self.database: str | None = None
        self._views: dict[str, View] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Session, ()

    def full_name(self, name: str) -> str:
        """The name of a table with its database, if there is one."""
        return f"{self.database}.{name}" if "." not in name and self.database is not None else name

    # -- temporary views ----------------------------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[str, View]:
        """The temporary views, by name."""
        with self._lock:
            return dict(self._views)

    def view(self, name: str) -> View | None:
        """The temporary view of a name, whatever its case."""
        with self._lock:
            return next((view for known, view in self._views.items() if known.lower() == name.lower()), None)

    def put_view(self, name: str, view: View, *, replaces: bool) -> bool:
        """Returns False if there is one of this name, and it is not to be replaced."""
        with self._lock:
            known = next((one for one in self._views if one.lower() == name.lower()), None)
            if known is not None and not replaces:
                return False
            self._views.pop(known, None)
            self._views[name] = view
            return True

    def drop_view(self, name: str) -> bool:
        """Returns False if there is no such view."""
        with self._lock:
            known = next((one for one in self._views if one.lower() == name.lower()), None)
            return self._views.pop(known, None) is not None
