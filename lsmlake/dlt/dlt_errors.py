"""Turns errors of this library into those of dlt: terminal errors end a job, after transient ones dlt tries it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlt.common.destination.exceptions import DestinationTerminalException, DestinationTransientException
from dlt.destinations.exceptions import DatabaseTerminalException, DatabaseTransientException, DatabaseUndefinedRelation

from lsmlake.errors import CommitConflict, CommitUnknown, LakeError, StorageFailed, TableNotFound

_AGAIN = CommitConflict, CommitUnknown, StorageFailed


@contextmanager
def as_load_errors() -> Iterator[None]:
    """Raises a LakeError as an error of dlt: transient if another try may succeed, else terminal."""
    try:
        yield
    except LakeError as error:
        kind = DestinationTransientException if isinstance(error, _AGAIN) else DestinationTerminalException
        raise kind(str(error)) from error


def as_query_error(error: Exception) -> Exception:
    """The error of dlt's datasets for an error of a query."""
    if isinstance(error, TableNotFound):
        return DatabaseUndefinedRelation(error)
    if isinstance(error, LakeError):
        return DatabaseTransientException(error) if isinstance(error, _AGAIN) else DatabaseTerminalException(error)
    return error
