"""Databases of DuckDB in memory, each used by one statement after the other: making one takes 14 ms."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lsmlake import undo
from lsmlake.dialect.patient import PatientConnection
from lsmlake.extras import need

_IDLE_MAX = 4


class Database:
    """A database in memory. It spills to a folder of its own.

    Attributes:
        made: names of what was made in it, and stays.
    """

    def __init__(self, settings: str) -> None:
        self.made: set[str] = set()
        self._root = PatientConnection(need("duckdb", "SQL").connect(":memory:"))
        self._root.execute(settings)
        self.folder = os.path.join(tempfile.gettempdir(), f"lsmlake-{os.getpid()}-{secrets.token_hex(8)}")
        quoted = self.folder.replace("'", "''")
        self._root.execute(f"SET temp_directory = '{quoted}'")  # DuckDB makes it when it needs it, and removes it

    def cursor(self, setup: str) -> PatientConnection:
        """A new connection, on which the statements `setup` were executed. Closing it removes what it made `TEMP`."""

        def opened():
            inner = self._root.inner.cursor()
            inner.execute(setup)
            return inner

        return PatientConnection(self._root.wait_for(opened))

    def close(self) -> None:
        self._root.close()
        _remove([self.folder])


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


_idle: dict[str, list[Database]] = {}
"""By settings, the databases that nobody uses."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_idle.clear)  # a forked process could neither use nor close them: it lacks their threads


@contextmanager
def borrowed(settings: str) -> Iterator[Database]:
    """A database that nobody else uses meanwhile. After an error, which may have been a lack of memory, it is not used again.

    Args:
        settings: the statements that set up a new database.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    try:
        database = _idle[settings].pop()
    except (KeyError, IndexError):
        database = Database(settings)
    undo.made(_remove, [database.folder])
    try:
        yield database
    except BaseException:
        database.close()
        raise
    undo.kept(_remove, [database.folder])
    idle = _idle.setdefault(settings, [])
    if len(idle) < _IDLE_MAX:
        idle.append(database)
