"""What the catalog refuses, and errors of the lake, in the words of the specification."""

from __future__ import annotations

from lsmlake.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidData,
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    MissingDependency,
    StorageFailed,
    TableExists,
    TableNotFound,
    UnsupportedFormat,
)

NO_TABLE, NO_NAMESPACE, NO_VIEW = "NoSuchTableException", "NoSuchNamespaceException", "NoSuchViewException"
UNSUPPORTED = "UnsupportedOperationException"


class Refused(Exception):
    """An answer that is an error. `code`: of HTTP. `kind`: the name of an exception of the specification."""

    def __init__(self, code: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.code, self.kind = code, kind


_KINDS: tuple[tuple[type[LakeError] | tuple[type[LakeError], ...], int, str], ...] = (
    (TableNotFound, 404, NO_TABLE),
    (TableExists, 409, "AlreadyExistsException"),
    ((InvalidQuery, InvalidOption, InvalidSchema, InvalidData, UnsupportedFormat), 400, "BadRequestException"),
    (CommitConflict, 409, "CommitFailedException"),
    (CommitUnknown, 500, "CommitStateUnknownException"),
    ((StorageFailed, MissingDependency), 503, "ServiceUnavailableException"),
)


def refusal_of(error: LakeError) -> Refused:
    """The answer to a request on which the lake raised an error."""
    code, kind = next(((code, kind) for kinds, code, kind in _KINDS if isinstance(error, kinds)), (500, "InternalServerError"))
    return Refused(code, kind, str(error))
