"""All errors of the library. Errors that a caller would handle differently have different classes.

    LakeError
    ├── TableNotFound (LookupError)       no such table or database, or the path does not hold a table
    ├── TableExists                       the name is taken
    ├── InvalidOption (ValueError)        unknown, malformed or contradictory option
    ├── InvalidSchema (ValueError)        no table can have this schema
    ├── InvalidData (ValueError)          rows do not fit the table; nothing was committed
    ├── InvalidQuery (ValueError)         a predicate, a column or an argument is not valid
    ├── SnapshotNotFound (LookupError)    the snapshot does not exist or has expired
    ├── CommitConflict                    another commit won the race; nothing was published; try again
    ├── CommitUnknown                     the store did not report the outcome of a commit
    ├── Corrupt                           the bytes of a file differ from those that were written
    ├── UnsupportedFormat                 a newer lsmlake has written the file
    ├── StorageFailed (OSError)           the store refused a call: disk full, permission, network
    ├── EngineFailed (RuntimeError)       Spark failed; its own error is the cause of this one
    ├── InternalError (RuntimeError)      an error in lsmlake itself; please report it
    └── MissingDependency (ImportError)   an extra, or a program such as Java, is not installed

A message has up to five parts, in this order: where, what, expected, found, cure. A part that names a call of the library or one
of its arguments is a `Wording`, which also has a text for users of the command line, and may have one for those of SQL and of
Spark's `format("lsmlake")`.

The library raises no other exceptions, except MemoryError and those that are not an Exception, such as KeyboardInterrupt:
`foreign` converts all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar


class Wording(str):
    """A part of a message that names a call of the library. `command`: this part for users of the command line; `sql`: for users
    of SQL ("": the same text). `pattern`, `arguments`: those of `with_arguments`, if it made the part."""

    command: str
    sql: str
    pattern: str
    arguments: tuple[str, ...]

    def __new__(cls, text: str, *, command: str, sql: str = "", pattern: str = "", arguments: tuple[str, ...] = ()) -> Wording:
        worded = super().__new__(cls, text)
        worded.command, worded.sql, worded.pattern, worded.arguments = command, sql, pattern, arguments
        return worded

    def with_options(self, options: Mapping[str, str]) -> str:
        """This part for users who write options instead of arguments. A call is worded as in SQL."""
        if self.arguments:
            return self.pattern.format(*(repr(options.get(name, name)) for name in self.arguments))
        return self.sql or str(self)

    def __reduce__(self):
        return _worded, (str(self), self.command, self.sql, self.pattern, self.arguments)


def with_arguments(text: str, *names: str, command: str = "", sql: str = "") -> Wording:
    """A part of a message with the names of arguments, for each `{}` one. Users of the command line read the option of this name:
    `with_arguments("{} is negative", "dead_share")` is "--dead-share is negative" to them, unless `command` is their text. `sql`:
    the text for users of SQL."""
    flags = text.format(*(f"--{name.replace('_', '-')}" for name in names))
    return Wording(text.format(*names), command=command or flags, sql=sql, pattern=text, arguments=names)


def literally(text: str) -> str:
    """A text as a part of that of `with_arguments`, without places for names."""
    return text.replace("{", "{{").replace("}", "}}")


def _worded(text: str, command: str, sql: str, pattern: str, arguments: tuple[str, ...]) -> Wording:
    return Wording(text, command=command, sql=sql, pattern=pattern, arguments=arguments)


class RowPlace(str):
    """The place of a row that does not fit, in the data of a call. `column`: "" for the whole row; `row`: counted from 0."""

    column: str
    row: int

    def __new__(cls, column: str, row: int) -> RowPlace:
        placed = super().__new__(cls, f"{column}, row {row}" if column else f"row {row}")
        placed.column, placed.row = column, row
        return placed

    def __reduce__(self):
        return RowPlace, (self.column, self.row)


_FEW = 12


def few(values: Sequence[object]) -> str:
    """A list as text for a message. Cuts a long list and says how many values are left out."""
    if len(values) <= _FEW:
        return str(values)
    shown = ", ".join(map(repr, values[: _FEW - 2]))
    return f"[{shown}, and {len(values) - _FEW + 2:,} more]"


_Error = TypeVar("_Error", bound="LakeError")


class LakeError(Exception):
    """Base class of all errors of lsmlake.

    Attributes:
        what: what happened, in one sentence.
        where: a path, table or column.
        expected: what would have been accepted.
        found: what was there instead.
        cure: what to do, as an imperative sentence.
    """

    what: str
    where: str
    expected: object
    found: object
    cure: str

    def __init__(self, what: str, *, where: str = "", expected: object = "", found: object = "", cure: str = "") -> None:
        self.what, self.where, self.expected, self.found, self.cure = what, where, expected, found, cure
        super().__init__(self._message(str))

    def for_command_line(self) -> str:
        """The message in terms of commands and flags."""
        return self._message(lambda part: part.command if isinstance(part, Wording) else str(part))

    def for_sql(self) -> LakeError:
        """The error in terms of SQL."""
        parts = {name: part for name in ("expected", "found", "cure") if isinstance(part := getattr(self, name), Wording)}
        if not any(part.sql for part in parts.values()):
            return self
        return self.changed(
            **{name: Wording(part.sql, command=part.command) if part.sql else part for name, part in parts.items()}
        )

    def for_options(self: _Error, options: Mapping[str, str]) -> _Error:
        """The error in terms of options. `options`: argument -> the option by which a user gives it."""
        words = {name: part.with_options(options) if isinstance(part, Wording) else part for name, part in self._parts().items()}
        return type(self)(**words)

    def names_argument(self) -> bool:
        """Whether the message names an argument."""
        return any(isinstance(part, Wording) and part.arguments for part in self._parts().values())

    def _parts(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("what", "where", "expected", "found", "cure")}

    def changed(self: _Error, **parts: object) -> _Error:
        """The same error with other parts: `where`, `expected`, `found` or `cure`."""
        given = {name: getattr(self, name) for name in ("where", "expected", "found", "cure")}
        return type(self)(self.what, **given | parts)

    def _message(self, worded: Callable[[object], str]) -> str:
        what = worded(self.what)
        expected, found = (few(part) if isinstance(part, list | tuple) else part for part in (self.expected, self.found))
        parts = [f"{worded(self.where)}: {what}" if self.where else what]
        parts += [f"expected {worded(expected)}"] if expected != "" else []
        parts += [f"found {worded(found)}"] if found != "" else []
        message = ", ".join(parts)
        message = f"{message}; {worded(self.cure)}" if self.cure else message
        return message.encode(errors="backslashreplace").decode()  # so that every terminal and log can show a user's text

    def __reduce__(self):
        return _rebuild, (type(self), self.what, self.where, self.expected, self.found, self.cure)


def _rebuild(kind, what, where, expected, found, cure):
    return kind(what, where=where, expected=expected, found=found, cure=cure)


class TableNotFound(LakeError, LookupError):
    """There is no table or database of this name, or the path does not hold a table."""


class TableExists(LakeError):
    """A table or database of this name exists."""


class InvalidOption(LakeError, ValueError):
    """An option is unknown, has a malformed value or contradicts another option."""


class InvalidSchema(LakeError, ValueError):
    """No table can have this schema."""


class InvalidData(LakeError, ValueError):
    """Rows do not fit the table. Raised before anything is committed."""


class InvalidQuery(LakeError, ValueError):
    """A predicate, a column list or a combination of arguments is not valid."""


class SnapshotNotFound(LakeError, LookupError):
    """The snapshot does not exist or has expired."""


class CommitConflict(LakeError):
    """Another commit won the race every time. Nothing was published; call the method again."""


class CommitUnknown(LakeError):
    """The store failed during the commit and did not report its outcome: the commit may or may not have taken place."""


class Corrupt(LakeError):
    """The bytes of a file differ from those that were written."""


class UnsupportedFormat(LakeError):
    """A file has a format version that this release does not support."""


class StorageFailed(LakeError, OSError):
    """The store refused a call: disk full, no permission, no network."""

    def __init__(self, what: str, *, where: str = "", expected: object = "", found: object = "", cure: str = "") -> None:
        LakeError.__init__(self, what, where=where, expected=expected, found=found, cure=cure)

    def __str__(self) -> str:  # OSError would print the errno form
        return Exception.__str__(self)


class MissingDependency(LakeError, ImportError):
    """A package of an extra, or a program such as Java, is not installed, or another package is in the way."""

    def __str__(self) -> str:  # ImportError would print its own msg field
        return Exception.__str__(self)


class EngineFailed(LakeError, RuntimeError):
    """Spark or DuckDB failed. Its own error is the cause (`__cause__`) of this error."""


class InternalError(LakeError, RuntimeError):
    """An error in lsmlake itself: please report it. The original error is the cause (`__cause__`) of this error."""


_ABOUT_ARGUMENTS = InvalidQuery, SnapshotNotFound, TableNotFound


@contextmanager
def naming(argument: str, kinds: tuple[type[LakeError], ...] = _ABOUT_ARGUMENTS) -> Iterator[None]:
    """Names the argument in errors of these kinds that the body raises about its value, unless they name one already."""
    try:
        yield
    except kinds as error:
        if error.names_argument():
            raise
        place = f", {error.where}" if error.where else ""
        raise error.changed(where=with_arguments("{}" + literally(place), argument)) from error.__cause__


@contextmanager
def in_options(options: Mapping[str, str]) -> Iterator[None]:
    """Words the errors of the body in terms of options, see `LakeError.for_options`."""
    try:
        yield
    except LakeError as error:
        raise error.for_options(options) from error.__cause__


_ENGINES = ("pyspark.", "py4j.")
_FOUND_MAX = 500
_INSTALL = "install lsmlake where Spark runs Python"
_SHIP = Wording(f"call lsmlake.ship(spark), or {_INSTALL}", command=_INSTALL)
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit): .+", re.MULTILINE)
"""The last line of a Python traceback in the message of a Spark error: the exception in a Python worker."""


def foreign(error: Exception, where: str) -> LakeError:
    """Converts an exception of another module to an error of this one. No other function does this.

    Raise the result `from error`.

    Args:
        error: the exception.
        where: the name of the function that the user called.
    """
    text = str(error)
    description = f"{type(error).__name__}: {text}"[:_FOUND_MAX]
    if f"{type(error).__module__}.".startswith(_ENGINES):
        if "No module named 'lsmlake'" in text:
            what = "the Python processes of Spark cannot import lsmlake"
            return MissingDependency(what, where=where, cure=_SHIP)
        in_python = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
        description = f"{type(error).__name__}: {in_python[-1]}"[:_FOUND_MAX] if in_python else description
        return EngineFailed("Spark failed", where=where, found=description, cure="see Spark's own error, the cause of this one")
    if isinstance(error, OSError):
        return StorageFailed("an input or output failed", where=where, found=description, cure="see the cause, then try again")
    if isinstance(error, RecursionError):
        return InvalidQuery("an argument is nested too deeply", where=where, found=type(error).__name__, cure="nest it less")
    if isinstance(error, UnicodeError):
        return InvalidData("text is not valid Unicode", where=where, found=ascii(description), cure="correct the text")
    return InternalError(
        "an unexpected error in lsmlake",
        where=where,
        found=description,
        cure="please report it, with the traceback of its cause",
    )
