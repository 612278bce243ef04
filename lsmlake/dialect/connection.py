"""A DuckDB connection, and the errors of DuckDB as errors of this library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pyarrow as pa

from lsmlake.dialect.databases import Database, borrowed
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
