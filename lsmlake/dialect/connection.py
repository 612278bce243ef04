"""A DuckDB connection that computes as Spark does, and the errors of DuckDB as errors of this library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from lsmlake.dialect.macros import create_macros
from lsmlake.errors import Corrupt, InvalidQuery, Wording
from lsmlake.extras import need

_DATA_FILE = ".parquet'"
_SETTINGS = "SET enable_progress_bar = false; SET integer_division = false; SET ieee_floating_point_ops = true"


@contextmanager
def connected(zone: str, what: str = "SQL"):  # the type of a connection belongs to an optional package
    """A connection to an empty database in memory, with the functions of Spark and its session's time zone.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    duckdb = need("duckdb", what)
    connection = duckdb.connect(":memory:")
    try:
        connection.execute(_SETTINGS)
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.execute(create_macros())
        yield connection
    finally:
        connection.close()


@contextmanager
def translated_errors(where: str = "") -> Iterator[None]:
    """Raises InvalidQuery for an error of DuckDB, such as a value that a cast refuses, and Corrupt for a file that it cannot
    read."""
    duckdb: ModuleType = need("duckdb", "SQL")
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.IOException) or _DATA_FILE in str(error):
            cure = Wording("verify() names the file", command="`lsmlake verify` names the file")
            raise Corrupt("a data file cannot be read", where=where, found=str(error).partition("\n")[0], cure=cure) from error
        first = str(error).partition("\n")[0].partition(": ")[2] or str(error)
        raise InvalidQuery(
            "the statement failed", where=where, found=first, cure="correct the statement or the values"
        ) from error
