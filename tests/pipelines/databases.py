"""What the bank and the comparison need of a database, and what the databases have in common."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

_WAIT_S = 60


class Missing(Exception):
    """A program is not there."""


class Database(Protocol):
    """A running server with the tables of the bank.

    Attributes:
        tables: the statements that make them.
        types: the columns of the table `types` that are compared, with their types in the lake.
        changes: a pattern of the names that the tables have in the events.
        place: what follows the definition of a column that is added.
    """

    tables: str
    types: Mapping[str, str]
    changes: str
    place: str
    port: int

    def script(self, text: str) -> None:
        """Executes statements, each in a transaction of its own unless it has BEGIN."""

    def columns(self, table: str) -> list[str]:
        """The names of the columns, in their order."""

    def texts(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        """The rows of a table, each value as `compare` reads it: the text of the database, digits of bytes, true or false."""

    def series(self, first: int, last: int) -> str:
        """What follows FROM for rows with the numbers `n`."""

    def row_of_types(self, number: int, n: int) -> str:
        """The values of a row of the table `types`; n: between -1000 and 1000."""

    def widened(self, table: str, column: str) -> str:
        """The statement that makes a column an int."""

    def connector(self, folder: Path) -> dict[str, object]:
        """The properties of Debezium's connector, which may keep files in the folder."""


Server = Callable[[Path], AbstractContextManager[Database]]
"""Runs a server with its data in a folder, as long as the context lasts. Raises Missing."""


class Home(NamedTuple):
    """Where a server may have its files, and its port."""

    folder: Path
    port: int


def home(folder: Path, name: str) -> Home:
    """A new folder, and a port that is free."""
    (made := folder / name).mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return Home(made, probe.getsockname()[1])


def until_ready(ask: Callable[[], object]) -> None:
    """Waits for a server that was started, which answers `ask` when it is ready."""
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            ask()
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return
