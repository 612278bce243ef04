"""A DuckDB connection that computes as Spark does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lsmlake.dialect.connection import opened
from lsmlake.dialect.databases import Database
from lsmlake.dialect.macros import ZONED, called, macros
from lsmlake.dialect.patient import PatientConnection


@contextmanager
def spark_connected(zone: str, what: str = "SQL", sql: str | None = None) -> Iterator[PatientConnection]:
    """As `connected`, with the functions of Spark. Macros must be made `TEMP`, too.

    Args:
        zone: the time zone of the session.
        what: the feature that needs DuckDB, for the error message.
        sql: the only statement that will use functions of Spark. Default: all functions are made.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    with opened(zone, what, lambda database: _macros(database, zone, sql)) as connection:
        yield connection


def _macros(database: Database, zone: str, sql: str | None) -> Iterator[str]:
    """Statements that make the macros that `sql` calls: for UTC they stay in the database, those for another zone go with the
    connection."""
    for head, body in called(macros("UTC"), sql).items():
        if head not in database.made:
            yield f"CREATE MACRO {head} AS {body}"
            database.made.add(head)
    if zone != "UTC":
        for head, body in called(macros(zone), sql).items():
            if head in ZONED:
                yield f"CREATE TEMP MACRO {head} AS {body}"
