"""Connections to DuckDB, and its errors as errors of this library.

Each is to a database in memory that one statement uses after the other: making one takes 14 ms.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pyarrow as pa

from lsmlake import undo
from lsmlake.dialect.failures import failure
from lsmlake.dialect.patient import PatientConnection
from lsmlake.errors import Corrupt, EngineFailed, InvalidQuery, LakeError, Wording
from lsmlake.extras import need

_DATA_FILE = ".parquet'"
_MEMORY_MIN_BYTES = 64 << 20  # with less DuckDB fails rather than spill
_SETTINGS = (
    "SET enable_progress_bar = false; SET integer_division = false; SET ieee_floating_point_ops = true; "
    "SET enable_external_file_cache = false"  # the memory that it takes would be kept between statements
)
_CHANGED = ("memory_limit", "disabled_optimizers", "preserve_insertion_order")
"""The settings of a database that a statement may change."""


@contextmanager
def connected(zone: str, what: str) -> Iterator[PatientConnection]:
    """A connection to a database in memory that nobody else uses meanwhile, without the functions of Spark.

    Tables and views must be made `TEMP`. The next user of the database finds the settings of `_CHANGED` as they were; a statement
    must not change others.

    Args:
        zone: the time zone of the session.
        what: the feature that needs DuckDB, for the error message.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    with opened(zone, what) as connection:
        yield connection


@contextmanager
def opened(zone: str, what: str, setup: Callable[[Database], Iterable[str]] = lambda database: ()) -> Iterator[PatientConnection]:
    """As `connected`. `setup`: the statements that set up the connection."""
    duckdb = need("duckdb", what)
    with borrowed(_SETTINGS) as database:
        statements = [*(f"RESET {name}" for name in _CHANGED), f"SET TimeZone = '{_zone_in_duckdb(zone)}'", *setup(database)]
        try:
            connection = database.cursor("; ".join(statements))
        except duckdb.NotImplementedException as error:
            raise InvalidQuery("unknown time zone", expected="a name such as Europe/Berlin or +01:00", found=zone) from error
        try:
            yield connection
        finally:
            connection.close()


def _zone_in_duckdb(zone: str) -> str:
    return f"GMT{zone}" if zone.startswith(("+", "-")) else {"Z": "UTC", "UT": "UTC"}.get(zone, zone)


def memory_limit(memory_bytes: int) -> str:
    """The value of DuckDB's setting `memory_limit` for about so many bytes."""
    return f"{max(memory_bytes, _MEMORY_MIN_BYTES)}B"


@contextmanager
def registered(connection: PatientConnection, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[None]:
    """Lets queries read the batches under a name, once. An error of the batches is raised as it is, an error of DuckDB as in
    `translated_errors`."""
    failed: list[Exception] = []

    def guarded() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:
            failed.append(error)
            raise

    connection.register_batches(name, schema, guarded())
    try:
        with translated_errors():
            yield
    except LakeError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        connection.unregister(name)


@contextmanager
def translated_errors(where: str = "") -> Iterator[None]:
    """Raises InvalidQuery for an error of DuckDB, such as a value that a cast refuses, Corrupt for a file that it cannot read,
    and EngineFailed if memory is short."""
    duckdb: ModuleType = need("duckdb", "SQL")
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.IOException) or _DATA_FILE in str(error):
            cure = Wording("verify() names the file", command="`lsmlake verify` names the file", sql="CALL verify names the file")
            raise Corrupt("a data file cannot be read", where=where, found=str(error).partition("\n")[0], cure=cure) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise EngineFailed(
                "DuckDB has not enough memory",
                where=where,
                found=str(error).partition("\n")[0].partition(": ")[2] or str(error),
                cure="raise the table's write-buffer-size, or free space in the folder for temporary files",
            ) from error
        what, found, cure = failure(error)
        raise InvalidQuery(what, where=where, found=found, cure=cure) from error


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
